import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Desk, openDesk } from '../../support/cli.ts';
import { shell } from '../../support/shell.ts';
import { openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

let desk: Desk;
let world: TestServer;
let running: boolean;
let key: string;
const database = () => desk.path('live.db');
const backup = () => desk.path('backup.db');

beforeEach(async () => {
  desk = openDesk((folder) => ({
    DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
    SALLYPORT_MASTER_KEY: testMasterKey,
  }));
  world = await openTestServer(`sqlite:${database()}`);
  running = true;
  key = (await world.tenant()).key;
});
afterEach(async () => {
  await stop();
  desk.clear();
});

async function stop(): Promise<void> {
  if (running) await world.close();
  running = false;
}

test('a backup is taken while the service runs, for its owner alone, and never over another file', async () => {
  const { id } = await world.application(key);
  expect(await desk.run('backup', backup())).toMatchObject({ code: 0, error: '' });
  expect(statSync(backup()).mode & 0o777).toBe(0o600);
  expect(readdirSync(desk.folder).filter((name) => name.startsWith('backup'))).toEqual(['backup.db']);
  const copy = new Database(backup(), { readonly: true });
  expect(copy.query('select id from applications where id = ?').all(id)).toHaveLength(1);
  expect(copy.query('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' });
  copy.close();
  const before = readFileSync(backup());
  expect(await desk.run('backup', backup())).toMatchObject({
    code: 2,
    error: expect.stringContaining('is there already'),
  });
  expect(readFileSync(backup()).equals(before)).toBe(true);
});

test('a backup holds everything that was answered before, whatever is written meanwhile', async () => {
  const known: string[] = [];
  const writing = (async () => {
    for (let number = 0; number < 40; number++) known.push((await world.application(key)).id);
  })();
  const answered = [...known];
  await desk.run('backup', backup());
  await writing;
  const copy = new Database(backup(), { readonly: true });
  const ids = copy
    .query<{ id: string }, []>('select id from applications')
    .all()
    .map(({ id }) => id);
  const entries = copy.query('select 1 from audit where operation = ?').all('application.create');
  copy.close();
  expect(ids).toEqual(expect.arrayContaining(answered));
  expect(entries).toHaveLength(ids.length - 2);
});

test('a backup leaves out Sessions and remembered answers', async () => {
  const web = await world.application(key, { type: 'public' });
  await world.call('POST', '/sessions', { key: web.key });
  await world.call('POST', '/applications', {
    key,
    body: { name: 'x', type: 'private', permissions: ['mine:x'] },
    headers: { 'Idempotency-Key': 'again' },
  });
  await desk.run('backup', backup());
  const count = (table: string) => runSql(`sqlite:${backup()}`, `select count(*) as count from ${table}`);
  expect(await count('sessions')).toEqual([{ count: 0 }]);
  expect(await count('idempotency')).toEqual([{ count: 0 }]);
  expect(await runSql(`sqlite:${database()}`, 'select 1 from sessions')).toHaveLength(1);
});

test('a backup of a damaged database is refused, and leaves nothing behind', async () => {
  await world.application(key);
  await stop();
  const bytes = readFileSync(database());
  bytes.fill(0xff, 4096, 3 * 4096);
  writeFileSync(database(), bytes);
  expect(await desk.run('backup', backup())).toMatchObject({
    code: 1,
    error: expect.stringMatching(
      /^sallyport: error: \S+live\.db cannot be copied: it is damaged \(.+\)\nsallyport: hint: .+\n$/,
    ),
  });
  expect(readdirSync(desk.folder).filter((name) => name.startsWith('backup'))).toEqual([]);
});

test('a backup under a master key that is not given is refused, and leaves nothing behind', async () => {
  await stop();
  const other = Buffer.alloc(32, 9).toString('base64');
  const { code, out, err } = await shell(['backup', backup()], {
    env: { DATABASE_URL: `sqlite:${database()}`, SALLYPORT_MASTER_KEY: other },
  });
  expect({ code, out }).toEqual({ code: 1, out: '' });
  expect(err).toContain('for its MAC, which SALLYPORT_MASTER_KEY does not hold');
  expect(readdirSync(desk.folder).filter((name) => name.startsWith('backup'))).toEqual([]);
});

test('a backup is not written through a link, to a file that is missing either', async () => {
  symlinkSync(desk.path('elsewhere'), backup());
  expect(await desk.run('backup', backup())).toMatchObject({
    code: 2,
    error: expect.stringContaining('is there already'),
  });
  expect(readdirSync(desk.folder)).not.toContain('elsewhere');
});
