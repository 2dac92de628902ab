/** Names and log entries cannot contain control sequences for the terminal of the reader. */
import { Database } from 'bun:sqlite';
import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { makeLog } from '../../../src/telemetry/log.ts';
import { openSqliteCli } from '../../support/cli.ts';
import { shell } from '../../support/shell.ts';
import { openTestServer, testMasterKey } from '../../support/test-server.ts';

const hidden = /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** Control sequences of 7 and 8 bits, bidirectional controls, line separators and zero-width characters. */
const hostile = 'a\x1b[2J\x9b2J\x7f\x85\u202e\u2066\u061c\u200f\u2028\u2029\u200b\u200dz';
const cli = openSqliteCli();
const server = await openTestServer(`sqlite:${cli.path('live.db')}`);
const tenant = await server.tenant();
const key = tenant.key;
const app = await server.application(key, { type: 'public', permissions: ['token:read'] });
const ids: { app: string; tenant: string } = {
  app: app.id,
  tenant: (await server.call('GET', '/tenants/self', { key })).body.id,
};
await server.call('POST', '/sessions', { key: app.key, headers: { 'User-Agent': 'agent\x9b2J\x85' } });
await server.call('POST', '/tokens', { key, body: { id: 'card', data: 1, metadata: { note: hostile } } });
await server.flush();
// The API rejects such names, so this writes them to the database.
const db = new Database(cli.path('live.db'));
db.run('update applications set name = ? where id = ?', [hostile, ids.app]);
db.run('update tenants set name = ?', [hostile]);
db.close();
writeFileSync(cli.path('forged.jsonl'), `${hostile}\n`);
const env: Record<string, string> = {
  DATABASE_URL: `sqlite:${cli.path('live.db')}`,
  SALLYPORT_MASTER_KEY: testMasterKey,
  SALLYPORT_URL: server.url,
  SALLYPORT_KEY: key,
};

const commands: [name: string, words?: () => string[]][] = [
  ['apps list'],
  ['apps get', () => ['apps', 'get', ids.app]],
  ['apps get of an unknown name', () => ['apps', 'get', `no${hostile}`]],
  ['apps create public', () => ['apps', 'create', '--name', hostile, '--type', 'public']],
  ['sessions list'],
  ['tokens list'],
  ['tokens get card'],
  ['logs tail'],
  ['audit tail'],
  ['audit verify', () => ['audit', 'verify', cli.path('forged.jsonl')]],
  ['audit verify of a missing file', () => ['audit', 'verify', cli.path(`no${hostile}`)]],
  ['tenants list'],
  ['tenants delete', () => ['tenants', 'delete', ids.tenant]],
  ['doctor'],
  ['an unknown command', () => [hostile]],
];

describe.each([
  ['a terminal', []],
  ['a pipe', undefined],
])('output to %s has no control character', (_, answers) => {
  test.each(commands)('%s', async (name, words = () => name.split(' ')) => {
    for (const json of [[], ['--json']]) {
      const argv = [...words(), ...json];
      const { out, err } = await shell(argv, { env: { ...env, NO_COLOR: '1' }, ...(answers && { answers }) });
      expect(out + err).not.toBe('');
      expect((out + err).replaceAll('\n', '').match(hidden)).toBeNull();
    }
  });
});

test('JSON output escapes control characters without changing the value', async () => {
  const { out } = await shell(['logs', 'tail', '--json', '--operation', 'session.create'], { env });
  expect(out).toContain('agent\\u009b2J\\u0085');
  expect(JSON.parse(out).from.user_agent).toBe('agent\x9b2J\x85');
  const list = await shell(['apps', 'list', '--json'], { env });
  expect(JSON.parse(list.out).map(({ name }: { name: string }) => name)).toContain(hostile);
});

test('an export is escaped on a terminal and exact in a pipe', async () => {
  const onScreen = await shell(['audit', 'export', '-'], { env, answers: [] });
  expect(onScreen.out).toContain('\\u009b');
  expect(onScreen.out.replaceAll('\n', '').match(hidden)).toBeNull();
  writeFileSync(cli.path('export.jsonl'), (await shell(['audit', 'export', '-'], { env })).out);
  expect((await shell(['audit', 'verify', cli.path('export.jsonl')], { env })).code).toBe(0);
});

test('colors are not escaped', async () => {
  expect((await shell(['apps', 'list'], { env, answers: [] })).out).toContain('\x1b[2m');
});

test.each([true, false])('the log escapes control characters; as text: %p', (asText) => {
  let written = '';
  const write = (line: string) => {
    written += line;
  };
  makeLog({ level: 'info', asText, write }).warn('failed', { error: new Error(hostile), name: hostile });
  expect(written).toContain('failed');
  expect(written.replaceAll('\n', '').match(hidden)).toBeNull();
});
