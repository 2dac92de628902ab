import { Database } from 'bun:sqlite';
import { beforeEach, expect, test } from 'bun:test';
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { type Cli, openSqliteCli } from '../../support/cli.ts';
import { auditEntries } from '../../support/database.ts';
import { shell } from '../../support/shell.ts';
import { openTestServer, type TestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

let cli: Cli;
let server: TestServer;
let key: string;
const database = () => cli.path('live.db');
const backup = () => cli.path('backup.db');

beforeEach(async () => {
  cli = openSqliteCli();
  server = await openTestServer(`sqlite:${database()}`);
  key = (await server.tenant()).key;
});

test('backup works while the service runs, writes with mode 0600 and never overwrites a file', async () => {
  const { id } = await server.application(key);
  expect(await cli.run('backup', backup())).toMatchObject({ code: 0, err: '' });
  expect(statSync(backup()).mode & 0o777).toBe(0o600);
  expect(readdirSync(cli.folder).filter((name) => name.startsWith('backup'))).toEqual(['backup.db']);
  const copy = new Database(backup(), { readonly: true });
  expect(copy.query('select id from applications where id = ?').all(id)).toHaveLength(1);
  expect(copy.query('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' });
  copy.close();
  const before = readFileSync(backup());
  expect(await cli.run('backup', backup())).toMatchObject({
    code: 2,
    err: expect.stringContaining('already exists'),
  });
  expect(readFileSync(backup()).equals(before)).toBe(true);
});

test('a backup has every change that was acknowledged before it started', async () => {
  const known: string[] = [];
  const writing = (async () => {
    for (let number = 0; number < 40; number++) known.push((await server.application(key)).id);
  })();
  const acknowledged = [...known];
  await cli.run('backup', backup());
  await writing;
  const copy = new Database(backup(), { readonly: true });
  const ids = copy
    .query<{ id: string }, []>('select id from applications')
    .all()
    .map(({ id }) => id);
  copy.close();
  const entries = (await auditEntries(`sqlite:${backup()}`)).filter(
    ({ operation }) => operation === 'application.create',
  );
  expect(ids).toEqual(expect.arrayContaining(acknowledged));
  expect(entries).toHaveLength(ids.length - 2);
});

test('a backup has no sessions and no idempotency records', async () => {
  const web = await server.application(key, { type: 'public' });
  await server.call('POST', '/sessions', { key: web.key });
  await server.call('POST', '/applications', {
    key,
    body: { name: 'x', type: 'private', permissions: ['mine:x'] },
    headers: { 'Idempotency-Key': 'again' },
  });
  await cli.run('backup', backup());
  const count = (table: string) => runSql(`sqlite:${backup()}`, `select count(*) as count from ${table}`);
  expect(await count('sessions')).toEqual([{ count: 0 }]);
  expect(await count('idempotency')).toEqual([{ count: 0 }]);
  expect(await count('application_storage')).toEqual([{ count: 0 }]);
  expect(await runSql(`sqlite:${database()}`, 'select 1 from sessions')).toHaveLength(1);
});

test('backup of a damaged database fails and leaves no file', async () => {
  await server.application(key);
  await server.close();
  const bytes = readFileSync(database());
  bytes.fill(0xff, 4096, 3 * 4096);
  writeFileSync(database(), bytes);
  expect(await cli.run('backup', backup())).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /^sallyport: error: cannot copy \S+live\.db: the database is damaged \(.+\)\nsallyport: hint: .+\n$/,
    ),
  });
  expect(readdirSync(cli.folder).filter((name) => name.startsWith('backup'))).toEqual([]);
});

test('backup without the current master key fails and leaves no file', async () => {
  await server.close();
  const other = Buffer.alloc(32, 9).toString('base64');
  const { code, out, err } = await shell(['backup', backup()], {
    env: { DATABASE_URL: `sqlite:${database()}`, SALLYPORT_MASTER_KEY: other },
  });
  expect({ code, out }).toEqual({ code: 1, out: '' });
  expect(err).toContain('the MAC of a backup needs master key');
  expect(readdirSync(cli.folder).filter((name) => name.startsWith('backup'))).toEqual([]);
});

test('backup does not write through a symbolic link, even a dangling one', async () => {
  symlinkSync(cli.path('elsewhere'), backup());
  expect(await cli.run('backup', backup())).toMatchObject({
    code: 2,
    err: expect.stringContaining('already exists'),
  });
  expect(readdirSync(cli.folder)).not.toContain('elsewhere');
});
