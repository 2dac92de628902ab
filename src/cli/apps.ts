import type { Application, ApplicationCreate, ApplicationUpdate } from '../../sdk/src/sallyport.ts';
import { inBrief, show, titleOf } from './app-view.ts';
import { expiryOption, fileOption, given, only, originOption, permissionOption } from './body.ts';
import { type Call, Missing, type Option, type RemoteCommand, UsageError } from './command.ts';
import { confirmed, yesOption } from './confirm.ts';
import { keyToOption, withKey } from './key-file.ts';
import { limitOption, printList } from './list.ts';

const types = ['private', 'public', 'management'] as const;
const typeOption: Option = {
  name: 'type',
  takes: 'TYPE',
  oneOf: types,
  sentence: `One of ${types.join(', ')}.`,
};

/** Ways to say which Application. */
export const either = 'APP is an id, or the whole name if it is the only one with it.';

export const appCommands: readonly RemoteCommand[] = [
  {
    words: ['apps', 'list'],
    takes: [],
    options: [
      typeOption,
      { name: 'name', takes: 'TEXT', sentence: 'Only those with this in their name.' },
      { name: 'id', takes: 'ID', many: true, sentence: 'Only those with these ids.' },
      { name: 'expires-before', takes: 'TIME', sentence: 'Only those that expire before this moment.' },
      limitOption,
    ],
    summary: 'List the Applications, newest first.',
    call: list,
  },
  {
    words: ['apps', 'create'],
    takes: [],
    options: [
      { name: 'name', takes: 'TEXT', sentence: 'What people call it.' },
      typeOption,
      permissionOption,
      originOption,
      expiryOption,
      fileOption,
      keyToOption,
    ],
    summary: 'Create an Application; shows its key, this once.',
    details: 'Rules come in the file: {"rules": [{"priority": 1, "container": "/shop/", …}]}.',
    call: create,
  },
  {
    words: ['apps', 'get'],
    takes: ['APP'],
    summary: 'Show an Application.',
    details: either,
    call: async (call) => show(call, await find(call)),
  },
  {
    words: ['apps', 'update'],
    takes: ['APP'],
    options: [
      { name: 'name', takes: 'TEXT', sentence: 'What people call it.' },
      { ...permissionOption, sentence: 'What it may do, instead of what it may do now.' },
      originOption,
      fileOption,
    ],
    summary: 'Change the name, the permissions or the rules of an Application.',
    details: `What is not named stays as it is. ${either}`,
    call: update,
  },
  {
    words: ['apps', 'regenerate'],
    takes: ['APP'],
    options: [keyToOption, yesOption],
    summary: 'Give an Application a new key; all older ones are dead at once.',
    details: either,
    call: regenerate,
  },
  {
    words: ['apps', 'delete'],
    takes: ['APP'],
    options: [yesOption],
    summary: 'Delete an Application, with its key and its Sessions.',
    details: either,
    call: remove,
  },
  {
    words: ['whoami'],
    takes: [],
    summary: 'Show the Application whose key is in use.',
    call: async (call) => show(call, await call.service.applications.own()),
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
    head: ['ID', 'TYPE', 'NAME', 'GRANTS', 'EXPIRES'],
    row: (app) => [app.id, app.type, app.name, inBrief(app), app.expires_at ?? 'never'],
  });
}

async function create(call: Call): Promise<number> {
  const { options, input, service } = call;
  const body = {
    ...(await input.body(options.value('file'))),
    ...only({
      name: options.value('name'),
      type: options.value('type'),
      permissions: given(options.values('permission')),
      allowed_origins: given(options.values('origin')),
      expires_at: options.value('expires-at'),
    }),
  };
  return withKey(
    call,
    () => service.applications.create(body as unknown as ApplicationCreate),
    (app, keyFile) => show(call, app, keyFile),
  );
}

async function update(call: Call): Promise<number> {
  const { options, input, service } = call;
  const sent = {
    ...(await input.body(options.value('file'))),
    ...only({
      name: options.value('name'),
      permissions: given(options.values('permission')),
      allowed_origins: given(options.values('origin')),
    }),
  };
  if (Object.keys(sent).length === 0) throw new UsageError('nothing to change was named');
  const { id, name, permissions, rules } = await find(call);
  const body = { name, permissions, rules, ...sent };
  return show(call, await service.applications.update(id, body as ApplicationUpdate));
}

async function regenerate(call: Call): Promise<number> {
  const app = await find(call);
  if (!(await confirmed(call, `Give ${titleOf(app)} a new key? All older ones die at once.`))) return 1;
  return withKey(
    call,
    () => call.service.applications.regenerate(app.id),
    (renewed, keyFile) => show(call, renewed, keyFile),
  );
}

async function remove(call: Call): Promise<number> {
  const app = await find(call);
  if (!(await confirmed(call, `Delete ${titleOf(app)}? Its key and its Sessions die at once.`))) return 1;
  await call.service.applications.delete(app.id);
  call.print(call.json ? JSON.stringify({ deleted: app.id }) : `deleted ${app.id}`);
  return 0;
}

const idShape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** By its id, or by its whole name. */
export async function find({ args, service }: Pick<Call, 'args' | 'service'>): Promise<Application> {
  const wanted = args[0] as string;
  if (idShape.test(wanted)) return service.applications.get(wanted);
  const found: Application[] = [];
  for await (const app of service.applications.all({ name: wanted })) {
    if (app.name === wanted) found.push(app);
  }
  if (found.length === 1) return found[0] as Application;
  if (found.length === 0)
    throw new Missing(`there is no Application "${wanted}"`, 'sallyport apps list shows them');
  throw new UsageError(
    `there are ${found.length} Applications "${wanted}"`,
    `say which by its id: ${found.map(({ id }) => id).join(', ')}`,
  );
}
