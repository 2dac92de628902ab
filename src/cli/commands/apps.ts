import type { Application, ApplicationCreate, ApplicationUpdate } from '../../../sdk/src/sallyport.ts';
import type { Call, Option, RemoteCommand } from '../command.ts';
import { NotFoundError, UsageError } from '../errors.ts';
import {
  expiryOption,
  fileOption,
  nonEmpty,
  only,
  originOption,
  permissionOption,
} from '../terminal/body-options.ts';
import { confirm, yesOption } from '../terminal/confirm.ts';
import { keyToOption, withKey } from '../terminal/key-file.ts';
import { limitOption, printList } from '../terminal/list.ts';
import { showApplication, summarizeGrants, titleOf } from './format-app.ts';

const types = ['private', 'public', 'management'] as const;
const typeOption: Option = {
  name: 'type',
  value: 'TYPE',
  choices: types,
  description: 'Application type.',
};

/** For the help of every command that takes an application. */
export const appArgument = 'APP is an id or a name. A name must be unique.';

export const appCommands: readonly RemoteCommand[] = [
  {
    words: ['apps', 'list'],
    args: [],
    options: [
      typeOption,
      { name: 'name', value: 'TEXT', description: 'Filter by part of the name.' },
      { name: 'id', value: 'ID', repeatable: true, description: 'Filter by id; repeatable.' },
      {
        name: 'expires-before',
        value: 'TIME',
        description: 'Only applications that expire before this time.',
      },
      limitOption,
    ],
    summary: 'List applications, newest first.',
    examples: ['sallyport apps list --type public', 'sallyport apps list --expires-before 2030-01-31'],
    call: list,
  },
  {
    words: ['apps', 'create'],
    args: [],
    options: [
      { name: 'name', value: 'TEXT', description: 'Application name.' },
      typeOption,
      permissionOption,
      originOption,
      expiryOption,
      fileOption,
      keyToOption,
    ],
    summary: 'Create an application and print its key.',
    details: 'The key is shown only once. Pass access rules with --file.',
    examples: [
      'sallyport apps create --name "web shop" --type public --permission token:create',
      'sallyport apps create --file backend.json --key-to backend.key',
    ],
    call: create,
  },
  {
    words: ['apps', 'get'],
    args: ['APP'],
    summary: 'Show an application.',
    details: appArgument,
    examples: ['sallyport apps get "web shop"'],
    call: async (call) => showApplication(call, await findApplication(call)),
  },
  {
    words: ['apps', 'update'],
    args: ['APP'],
    options: [
      { name: 'name', value: 'TEXT', description: 'New name.' },
      { ...permissionOption, description: 'Permission to grant; repeatable. Replaces the current list.' },
      originOption,
      fileOption,
    ],
    summary: 'Update the name, permissions or rules of an application.',
    details: `Fields that you leave out are unchanged. ${appArgument}`,
    examples: ['sallyport apps update "web shop" --permission token:create --permission token:read'],
    call: update,
  },
  {
    words: ['apps', 'regenerate'],
    args: ['APP'],
    options: [keyToOption, yesOption],
    summary: 'Replace the key of an application.',
    details: `All older keys are revoked immediately. ${appArgument}`,
    examples: ['sallyport apps regenerate backend --key-to backend.key'],
    call: regenerate,
  },
  {
    words: ['apps', 'delete'],
    args: ['APP'],
    options: [yesOption],
    summary: 'Delete an application.',
    details: `Its keys and sessions are revoked immediately. ${appArgument}`,
    examples: ['sallyport apps delete "web shop"'],
    call: remove,
  },
  {
    words: ['whoami'],
    args: [],
    summary: 'Show the application that owns the current key.',
    examples: ['sallyport whoami --key-file data/management.key'],
    call: async (call) => showApplication(call, await call.service.applications.current()),
  },
];

function list(call: Call): Promise<number> {
  const { options, service } = call;
  const [type, name, id] = [options.value('type'), options.value('name'), options.values('id')];
  const before = options.value('expires-before');
  const entries = service.applications.all({
    ...(type && { type: type as Application['type'] }),
    ...(name && { name }),
    ...(id.length > 0 && { id: [...id] }),
    ...(before && { expires_before: before }),
  });
  return printList(call, entries, {
    noun: 'applications',
    head: ['ID', 'TYPE', 'NAME', 'GRANTS', 'EXPIRES'],
    row: (app) => [app.id, app.type, app.name, summarizeGrants(app), app.expires_at ?? 'never'],
  });
}

async function create(call: Call): Promise<number> {
  const { options, input, service } = call;
  const body = {
    ...(await input.body(options.value('file'))),
    ...only({
      name: options.value('name'),
      type: options.value('type'),
      permissions: nonEmpty(options.values('permission')),
      allowed_origins: nonEmpty(options.values('origin')),
      expires_at: options.value('expires-at'),
    }),
  };
  return withKey(
    call,
    () => service.applications.create(body as unknown as ApplicationCreate),
    (app, keyFile) => showApplication(call, app, keyFile),
  );
}

async function update(call: Call): Promise<number> {
  const { options, input, service } = call;
  const sent = {
    ...(await input.body(options.value('file'))),
    ...only({
      name: options.value('name'),
      permissions: nonEmpty(options.values('permission')),
      allowed_origins: nonEmpty(options.values('origin')),
    }),
  };
  if (Object.keys(sent).length === 0)
    throw new UsageError('nothing to update', 'pass --name, --permission, --origin or --file');
  const { id, name, permissions, rules } = await findApplication(call);
  const body = { name, permissions, rules, ...sent };
  return showApplication(call, await service.applications.update(id, body as ApplicationUpdate));
}

async function regenerate(call: Call): Promise<number> {
  const app = await findApplication(call);
  if (!(await confirm(call, `Replace the key of ${titleOf(app)}? All older keys are revoked immediately.`)))
    return 1;
  return withKey(
    call,
    () => call.service.applications.regenerate(app.id),
    (app, keyFile) => showApplication(call, app, keyFile),
  );
}

async function remove(call: Call): Promise<number> {
  const app = await findApplication(call);
  if (!(await confirm(call, `Delete ${titleOf(app)}? Its keys and sessions are revoked immediately.`)))
    return 1;
  await call.service.applications.delete(app.id);
  call.print(call.json ? JSON.stringify({ deleted: app.id }) : `deleted ${app.id}`);
  return 0;
}

const idShape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Finds an application by id or by exact name. Throws NotFoundError if none matches. */
export async function findApplication({
  args,
  service,
}: Pick<Call, 'args' | 'service'>): Promise<Application> {
  const wanted = args[0] as string;
  if (idShape.test(wanted)) return service.applications.get(wanted);
  const found: Application[] = [];
  for await (const app of service.applications.all({ name: wanted })) {
    if (app.name === wanted) found.push(app);
  }
  if (found.length === 1) return found[0] as Application;
  if (found.length === 0)
    throw new NotFoundError(`no application named "${wanted}"`, 'run `sallyport apps list`');
  throw new UsageError(
    `${found.length} applications are named "${wanted}"`,
    `use an id: ${found.map(({ id }) => id).join(', ')}`,
  );
}
