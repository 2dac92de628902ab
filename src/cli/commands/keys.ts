import type { ApplicationKey, ApplicationKeyCreated } from '../../../sdk/src/sallyport.ts';
import { parseKey } from '../../domain/key.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { workloadKeyOf } from '../terminal/connection.ts';
import { keyToOption, withKey } from '../terminal/files.ts';
import { parseSecret } from '../terminal/input.ts';
import { confirm, expiryOption, oldKeysOption, only, timeOf, yesOption } from '../terminal/options.ts';
import { fields, printTable } from '../terminal/print.ts';
import { appArgument, findApplication } from './apps.ts';

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'keys list <APP>',
    summary: 'List the keys of an application, newest first.',
    details: `Only the last four characters of a key are shown. ${appArgument}`,
    examples: ['sallyport keys list backend'],
    call: list,
  },
  {
    usage: 'keys create <APP>',
    options: [expiryOption, oldKeysOption, keyToOption],
    summary: 'Add a key to an application and print it.',
    details: `The key is shown only once. Existing keys stay valid, unless --old-keys-expire-at is given. ${appArgument}`,
    examples: [
      'sallyport keys create backend --key-to backend.key',
      'sallyport keys create backend --expires-at 90d --old-keys-expire-at 24h --key-to backend.key',
    ],
    call: create,
  },
  {
    usage: 'keys delete <APP> <KEY>',
    options: [yesOption],
    summary: 'Revoke a key of an application.',
    details: `KEY is the id of the key or its last four characters. ${appArgument}`,
    examples: ['sallyport keys delete backend a1B2'],
    call: remove,
  },
  {
    usage: 'keys exchange',
    withoutKey: true,
    options: [keyToOption],
    summary: 'Exchange a JWT for a short-lived key and print it.',
    details:
      'For tools that need a key, such as curl. SALLYPORT_CLIENT_ID names the application, which must trust the issuer of the JWT. The JWT is in SALLYPORT_TOKEN_FILE or SALLYPORT_TOKEN, or comes from GitHub Actions. Other commands exchange and renew keys themselves.',
    examples: ['SALLYPORT_TOKEN_FILE=/var/run/secrets/tokens/sallyport sallyport keys exchange'],
    call: exchange,
  },
  {
    usage: 'keys revoke',
    withoutKey: true,
    summary: 'Revoke a leaked key.',
    details:
      'Reads the key from standard input and needs no other key. Revokes the key of a private or management application and ends all sessions that it authorized, or ends the session of a session key. Succeeds whether or not the key existed.',
    examples: ['sallyport keys revoke < leaked.key'],
    call: revoke,
  },
];

async function list(call: Call): Promise<number> {
  const keys = await call.service.applications.keys((await findApplication(call, call.args[0] as string)).id);
  const rows = keys.map((key) => [
    key.id,
    key.ending,
    key.created_at,
    key.last_used_at ?? 'never',
    key.expires_at ?? 'never',
    key.created_by ?? '',
  ]);
  return printTable(call, keys, 'keys', ['ID', 'ENDS WITH', 'CREATED', 'LAST USED', 'EXPIRES', 'BY'], rows);
}

async function create(call: Call): Promise<number> {
  const { id } = await findApplication(call, call.args[0] as string);
  const body = only({
    expires_at: timeOf(call, expiryOption),
    old_keys_expire_at: timeOf(call, oldKeysOption),
  });
  return withKey(call, () => call.service.applications.createKey(id, body), show);
}

function show({ printResult }: Call, key: ApplicationKey | ApplicationKeyCreated, keyFile?: string): number {
  const pairs = [
    ['id', key.id],
    ['created', key.created_at],
    ['expires', key.expires_at],
    ['key', 'key' in key ? `${key.key} (shown only once)` : `written to ${keyFile}`],
  ] as const;
  return printResult({ ...key, ...(keyFile && { key_file: keyFile }) }, fields(pairs));
}

async function remove(call: Call): Promise<number> {
  const app = await findApplication(call, call.args[0] as string);
  const wanted = call.args[1] as string;
  const keys = await call.service.applications.keys(app.id);
  const found = keys.filter(({ id, ending }) => id === wanted || ending === wanted);
  const [key] = found;
  const hint = `run \`sallyport keys list ${app.id}\``;
  if (!key) throw new CommandError(`application "${app.name}" has no key "${wanted}" (not_found)`, hint, 4);
  if (found.length > 1)
    throw new UsageError(`${found.length} keys of "${app.name}" end with "${wanted}"`, `use an id: ${hint}`);
  const last = keys.length === 1 ? ' It is the only key.' : '';
  await confirm(call, `Revoke the key …${key.ending} of "${app.name}"?${last}`);
  await call.service.applications.deleteKey(app.id, key.id);
  return call.printResult({ deleted: key.id }, `deleted ${key.id}`);
}

async function exchange(call: Call): Promise<number> {
  const { url, terminal, printResult } = call;
  const exchanged = workloadKeyOf(url, terminal);
  if (!exchanged)
    throw new UsageError('no application was given', 'set SALLYPORT_CLIENT_ID to TAG.APPLICATION_ID');
  const show = (_: Call, issued: { readonly key?: string }, keyFile?: string) =>
    printResult(
      keyFile === undefined ? issued : { key_file: keyFile },
      issued.key ?? `key written to ${keyFile}`,
    );
  return withKey(call, async () => ({ key: await exchanged() }), show);
}

async function revoke({ input, service, printResult }: Call): Promise<number> {
  const hint = 'pipe the key to standard input: sallyport keys revoke < FILE';
  const key = parseSecret(await input.piped('key', 'the key', hint), 'the key on standard input');
  // The response is the same for valid and invalid keys, so an incomplete key must be detected here.
  const kind = parseKey(key)?.kind;
  if (kind === undefined || kind === 'non')
    throw new UsageError(
      'the text on standard input is not a complete key',
      'pipe the whole key, from slp_ on',
    );
  await service.revokeKey(key);
  return printResult({ revoked: true }, 'the key is no longer accepted');
}
