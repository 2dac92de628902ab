/** Text that other people wrote cannot control the terminal of whoever reads it. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeLog } from '../../../src/log.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
import { shell } from '../../support/shell.ts';
import { openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const hidden = /[\p{Cc}\p{Bidi_Control}]/gu;
/** Escape sequences of seven and eight bits, delete, next line, right-to-left override, isolate, Arabic mark. */
const hostile = 'a\x1b[2J\x9b2J\x7f\x85\u202e\u2066\u061c\u200fz';

let desk: Desk;
let world: TestServer;
let env: Record<string, string>;
let key: string;
let ids: { app: string; tenant: string };

beforeAll(async () => {
  desk = openDesk((folder) => ({
    DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
    SALLYPORT_MASTER_KEY: testMasterKey,
  }));
  world = await openTestServer(`sqlite:${desk.path('live.db')}`);
  const tenant = await world.tenant();
  key = tenant.key;
  const app = await world.application(key, { type: 'public', permissions: ['token:read'] });
  ids = { app: app.id, tenant: (await world.call('GET', '/tenants/self', { key })).body.id };
  await world.call('POST', '/sessions', { key: app.key, headers: { 'User-Agent': 'agent\x9b2J\x85' } });
  await world.call('POST', '/tokens', { key, body: { id: 'card', data: 1, metadata: { note: hostile } } });
  await world.flush();
  // Older versions accepted such names.
  const db = new Database(desk.path('live.db'));
  db.run('update applications set name = ? where id = ?', [hostile, ids.app]);
  db.run('update tenants set name = ?', [hostile]);
  db.close();
  writeFileSync(desk.path('forged.jsonl'), `${hostile}\n`);
  env = {
    DATABASE_URL: `sqlite:${desk.path('live.db')}`,
    SALLYPORT_MASTER_KEY: testMasterKey,
    SALLYPORT_URL: world.url,
    SALLYPORT_KEY: key,
  };
});
afterAll(async () => {
  await world.close();
  desk.clear();
});

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
  ['audit verify', () => ['audit', 'verify', desk.path('forged.jsonl')]],
  ['audit verify of a missing file', () => ['audit', 'verify', desk.path(`no${hostile}`)]],
  ['tenants list'],
  ['tenants delete', () => ['tenants', 'delete', ids.tenant]],
  ['doctor'],
  ['an unknown command', () => [hostile]],
];

describe.each([
  ['a person', []],
  ['a program', undefined],
])('what %s is shown holds no control character', (_, person) => {
  test.each(commands)('%s', async (name, words = () => name.split(' ')) => {
    for (const json of [[], ['--json']]) {
      const argv = [...words(), ...json];
      const { out, err } = await shell(argv, { env: { ...env, NO_COLOR: '1' }, ...(person && { person }) });
      expect(out + err).not.toBe('');
      expect((out + err).replaceAll('\n', '').match(hidden)).toBeNull();
    }
  });
});

test('JSON output keeps the value: only its spelling changes', async () => {
  const { out } = await shell(['logs', 'tail', '--json', '--operation', 'session.create'], { env });
  expect(out).toContain('agent\\u009b2J\\u0085');
  expect(JSON.parse(out).from.user_agent).toBe('agent\x9b2J\x85');
  const list = await shell(['apps', 'list', '--json'], { env });
  expect(JSON.parse(list.out).map(({ name }: { name: string }) => name)).toContain(hostile);
});

test('an export is escaped on a terminal, and exact in a pipe', async () => {
  const onScreen = await shell(['audit', 'export', '-'], { env, person: [] });
  expect(onScreen.out).toContain('\\u009b');
  expect(onScreen.out.replaceAll('\n', '').match(hidden)).toBeNull();
  writeFileSync(desk.path('export.jsonl'), (await shell(['audit', 'export', '-'], { env })).out);
  expect((await shell(['audit', 'verify', desk.path('export.jsonl')], { env })).code).toBe(0);
});

test('colours still reach a terminal', async () => {
  expect((await shell(['apps', 'list'], { env, person: [] })).out).toContain('\x1b[2m');
});

test.each([true, false])('the log of the service escapes them, for people: %p', (forPeople) => {
  let written = '';
  const write = (line: string) => {
    written += line;
  };
  makeLog({ level: 'info', forPeople, write }).warn('failed', { error: new Error(hostile), name: hostile });
  expect(written).toContain('failed');
  expect(written.replaceAll('\n', '').match(hidden)).toBeNull();
});
