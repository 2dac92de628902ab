import type { ApplicationKey, ApplicationKeyCreated } from '../../../sdk/src/sallyport.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { NotFoundError, UsageError } from '../errors.ts';
import { confirm, yesOption } from '../terminal/confirm.ts';
import { keyToOption, withKey } from '../terminal/key-file.ts';
import { printTable } from '../terminal/list.ts';
import { fields } from '../terminal/table.ts';
import { appArgument, findApplication } from './apps.ts';

export const keyCommands: readonly RemoteCommand[] = [
  {
    words: ['keys', 'list'],
    args: ['APP'],
    summary: 'List the keys of an application, newest first.',
    details: `Only the last four characters of a key are shown. ${appArgument}`,
    examples: ['sallyport keys list backend'],
    call: list,
  },
  {
    words: ['keys', 'create'],
    args: ['APP'],
    options: [keyToOption],
    summary: 'Add a key to an application and print it.',
    details: `The key is shown only once. Existing keys stay valid. ${appArgument}`,
    examples: ['sallyport keys create backend --key-to backend.key'],
    call: create,
  },
  {
    words: ['keys', 'delete'],
    args: ['APP', 'KEY'],
    options: [yesOption],
    summary: 'Revoke a key of an application.',
    details: `KEY is the id of the key or its last four characters. ${appArgument}`,
    examples: ['sallyport keys delete backend a1B2'],
    call: remove,
  },
];

async function list(call: Call): Promise<number> {
  const keys = await call.service.applications.keys((await findApplication(call)).id);
  const rows = keys.map(({ id, ending, created_at, last_used_at = 'never', created_by = '' }) => [
    id,
    ending,
    created_at,
    last_used_at,
    created_by,
  ]);
  const head = ['ID', 'ENDS WITH', 'CREATED', 'LAST USED', 'BY'];
  if (call.json) call.print(JSON.stringify(keys));
  else printTable(call, 'keys', head, rows);
  return 0;
}

async function create(call: Call): Promise<number> {
  const { id } = await findApplication(call);
  return withKey(
    call,
    () => call.service.applications.createKey(id),
    (key, keyFile) => show(call, key, keyFile),
  );
}

function show({ json, print }: Call, key: ApplicationKey | ApplicationKeyCreated, keyFile?: string): number {
  if (json) print(JSON.stringify({ ...key, ...(keyFile && { key_file: keyFile }) }));
  else {
    print(
      fields([
        ['id', key.id],
        ['created', key.created_at],
        ['key', 'key' in key ? `${key.key} (shown only once)` : `written to ${keyFile}`],
      ]),
    );
  }
  return 0;
}

async function remove(call: Call): Promise<number> {
  const app = await findApplication(call);
  const wanted = call.args[1] as string;
  const keys = await call.service.applications.keys(app.id);
  const found = keys.filter(({ id, ending }) => id === wanted || ending === wanted);
  const [key] = found;
  const hint = `run \`sallyport keys list ${app.id}\``;
  if (!key) throw new NotFoundError(`application "${app.name}" has no key "${wanted}"`, hint);
  if (found.length > 1)
    throw new UsageError(`${found.length} keys of "${app.name}" end with "${wanted}"`, `use an id: ${hint}`);
  const last = keys.length === 1 ? ' It is the only key.' : '';
  if (!(await confirm(call, `Revoke the key …${key.ending} of "${app.name}"?${last}`))) return 1;
  await call.service.applications.deleteKey(app.id, key.id);
  call.print(call.json ? JSON.stringify({ deleted: key.id }) : `deleted ${key.id}`);
  return 0;
}
