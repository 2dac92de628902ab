import type { ApplicationKey, ApplicationKeyCreated } from '../../../sdk/src/sallyport.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { Missing, UsageError } from '../errors.ts';
import { confirmed, yesOption } from '../terminal/confirm.ts';
import { keyToOption, withKey } from '../terminal/key-file.ts';
import { fields, table } from '../terminal/table.ts';
import { either, find } from './apps.ts';

export const keyCommands: readonly RemoteCommand[] = [
  {
    words: ['keys', 'list'],
    takes: ['APP'],
    summary: 'List the keys of an application, newest first.',
    details: `Only the last four characters of a key are shown. ${either}`,
    examples: ['sallyport keys list backend'],
    call: list,
  },
  {
    words: ['keys', 'create'],
    takes: ['APP'],
    options: [keyToOption],
    summary: 'Add a key to an application and print it.',
    details: `The key is shown only once. Existing keys stay valid. ${either}`,
    examples: ['sallyport keys create backend --key-to backend.key'],
    call: create,
  },
  {
    words: ['keys', 'delete'],
    takes: ['APP', 'KEY'],
    options: [yesOption],
    summary: 'Revoke a key of an application.',
    details: `KEY is the id of the key or its last four characters. ${either}`,
    examples: ['sallyport keys delete backend a1B2'],
    call: remove,
  },
];

async function list(call: Call): Promise<number> {
  const keys = await call.service.applications.keys((await find(call)).id);
  const rows = keys.map(({ id, ending, created_at, last_used_at = 'never', created_by = '' }) => [
    id,
    ending,
    created_at,
    last_used_at,
    created_by,
  ]);
  const head = ['ID', 'ENDS WITH', 'CREATED', 'LAST USED', 'BY'];
  if (call.json) call.print(JSON.stringify(keys));
  else call.print(rows.length > 0 ? table(head, rows, call.paint) : 'none');
  return 0;
}

async function create(call: Call): Promise<number> {
  const { id } = await find(call);
  return withKey(
    call,
    () => call.service.applications.createKey(id),
    (made, keyFile) => show(call, made, keyFile),
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
  const app = await find(call);
  const wanted = call.args[1] as string;
  const keys = await call.service.applications.keys(app.id);
  const found = keys.filter(({ id, ending }) => id === wanted || ending === wanted);
  const [key] = found;
  const hint = 'run `sallyport keys list`';
  if (!key) throw new Missing(`application "${app.name}" has no key "${wanted}"`, hint);
  if (found.length > 1)
    throw new UsageError(`${found.length} keys of "${app.name}" end with "${wanted}"`, hint);
  const last = keys.length === 1 ? ' It is the only key.' : '';
  if (!(await confirmed(call, `Revoke the key …${key.ending} of "${app.name}"?${last}`))) return 1;
  await call.service.applications.deleteKey(app.id, key.id);
  call.print(call.json ? JSON.stringify({ deleted: key.id }) : `deleted ${key.id}`);
  return 0;
}
