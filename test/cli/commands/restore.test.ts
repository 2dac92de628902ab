import { Database } from 'bun:sqlite';
import { beforeEach, describe, expect, test } from 'bun:test';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { newMasterKey } from '../../../src/db/keys/cipher.ts';
import { type Cli, openCli, openSqliteCli } from '../../support/cli.ts';
import { openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';
import { until } from '../../support/until.ts';

let cli: Cli;
let server: TestServer;
let key: string;
let tenant: string;
const database = () => cli.path('live.db');
const backup = () => cli.path('backup.db');

beforeEach(async () => {
  cli = openSqliteCli();
  await start();
  ({ key, id: tenant } = await server.tenant());
});

async function start(): Promise<void> {
  server = await openTestServer(`sqlite:${database()}`);
}

/** For backups that are plain copies of the file, without a MAC. */
const copied = ['--unverified'];

async function restore(...options: string[]) {
  await server.close();
  const done = await cli.json('restore', backup(), '--force', ...options);
  await start();
  return done.body;
}

const statusOf = async (credential: string) =>
  (await server.call('GET', '/applications/key', { key: credential })).status;

describe('a restore', () => {
  test('restores the backup and moves the replaced database aside', async () => {
    const backedUp = await server.application(key);
    await cli.run('backup', backup());
    const lost = await server.application(key, { permissions: ['application:read'] });
    const body = await restore();
    expect(body).toMatchObject({ database: database(), revoked: false, sessions: 0 });
    expect(await statusOf(backedUp.key)).toBe(403);
    expect(await statusOf(lost.key)).toBe(401);
    const replaced = new Database(body.replaced, { readonly: true });
    expect(replaced.query('select 1 from applications where id = ?').all(lost.id)).toHaveLength(1);
    replaced.close();
    expect(statSync(database()).mode & 0o777).toBe(0o600);
    expect(readdirSync(cli.folder).filter((name) => name.includes('restoring'))).toEqual([]);
  });

  test('creates a missing database', async () => {
    const { key: backedUp } = await server.application(key, { permissions: ['application:read'] });
    await cli.run('backup', backup());
    await server.close();
    const elsewhere = openCli((folder) => ({
      DATABASE_URL: `sqlite:${join(folder, 'new', 'live.db')}`,
      SALLYPORT_MASTER_KEY: testMasterKey,
    }));
    expect((await elsewhere.json('restore', backup())).body.replaced).toBeUndefined();
    server = await openTestServer(`sqlite:${elsewhere.path('new/live.db')}`);
    expect(await statusOf(backedUp)).toBe(200);
    await server.close();
  });

  test('does not restore sessions, nonces or idempotency records', async () => {
    const web = await server.application(key, { type: 'public', permissions: ['application:read'] });
    const open = async () => (await server.call('POST', '/sessions', { key: web.key })).body;
    const [authorized, spent, waiting] = [await open(), await open(), await open()];
    const authorize = (nonce: string) =>
      server.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['application:read'] } });
    await authorize(authorized.nonce);
    expect(await statusOf(authorized.session_key)).toBe(200);
    const repeated = {
      key,
      body: { name: 'once', type: 'private', permissions: ['mine:x'] },
      headers: { 'Idempotency-Key': 'again' },
    };
    await server.call('POST', '/applications', repeated);
    await server.flush();
    for (const part of ['', '-wal']) copyFileSync(database() + part, backup() + part);
    await authorize(spent.nonce);
    const body = await restore(...copied);
    expect(body).toMatchObject({ sessions: 3, replies: 1 });
    expect(await runSql(`sqlite:${database()}`, 'select bytes from application_storage')).toEqual([]);
    expect(await statusOf(authorized.session_key)).toBe(401);
    for (const { nonce } of [authorized, spent, waiting]) expect((await authorize(nonce)).status).toBe(404);
    const again = await server.call('POST', '/applications', repeated);
    expect(again.headers.get('idempotency-replayed')).toBeNull();
  });

  test('fails while the service runs, in this or another process', async () => {
    await cli.run('backup', backup());
    const inUse = { code: 1, out: '', err: expect.stringContaining('is in use') };
    expect(await cli.run('restore', backup(), '--force')).toMatchObject(inUse);
    await server.close();
    const serving = cli.start('serve');
    for await (const chunk of serving.stdout)
      if (new TextDecoder().decode(chunk).includes('listening')) break;
    expect(await cli.run('restore', backup(), '--force')).toMatchObject(inUse);
    serving.kill('SIGKILL');
    await serving.exited;
    expect((await cli.run('restore', backup(), '--force')).code).toBe(0);
  });

  test('does not replace a database without --force', async () => {
    await cli.run('backup', backup());
    const lost = await server.application(key, { permissions: ['application:read'] });
    await server.close();
    expect(await cli.run('restore', backup())).toMatchObject({
      code: 1,
      err: expect.stringContaining('pass --force to replace it'),
    });
    await start();
    expect(await statusOf(lost.key)).toBe(200);
  });

  describe('changes nothing if the backup is', () => {
    const invalid: [string, () => unknown, RegExp][] = [
      ['not a database', () => writeFileSync(backup(), 'x'.repeat(10_000)), /not a database/],
      ['empty', () => truncateSync(backup()), /not a Sallyport database/],
      ['truncated', () => truncateSync(backup(), 40_960), /cannot restore /],
      [
        'damaged',
        () => {
          const bytes = readFileSync(backup());
          bytes.fill(0xff, 8192, 16_384);
          writeFileSync(backup(), bytes);
        },
        /cannot restore /,
      ],
      [
        'of a newer schema',
        () =>
          runSql(
            `sqlite:${backup()}`,
            "insert into schema_versions (version, name, hash) values (999, 'x', 'x')",
          ),
        /schema 999/,
      ],
      [
        'with an edited migration',
        () => runSql(`sqlite:${backup()}`, "update schema_versions set hash = 'f00'"),
        /migration 0001_initial of the database differs/,
      ],
      [
        'encrypted with another master key',
        () => runSql(`sqlite:${backup()}`, `update master_key set id = '${newMasterKey().id}'`),
        /needs the master key/,
      ],
    ];

    test.each(invalid)('%s', async (_, change, message) => {
      await cli.run('backup', backup());
      const { key: valid } = await server.application(key, { permissions: ['application:read'] });
      await change();
      await server.close();
      const { code, out, err } = await cli.run('restore', backup(), '--force', '--unverified');
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toMatch(message);
      expect(readdirSync(cli.folder).filter((name) => /restoring|replaced/.test(name))).toEqual([]);
      await start();
      expect(await statusOf(valid)).toBe(200);
    });
  });

  test('works after an interrupted restore, and if the old database is unreadable', async () => {
    const { key: backedUp } = await server.application(key, { permissions: ['application:read'] });
    await cli.run('backup', backup());
    await server.close();
    writeFileSync(`${database()}.restoring`, 'half');
    writeFileSync(database(), 'rubbish');
    writeFileSync(`${database()}-wal`, 'rubbish');
    const { body } = await cli.json('restore', backup(), '--force');
    expect(readFileSync(body.replaced, 'utf8')).toBe('rubbish');
    await start();
    expect(await statusOf(backedUp)).toBe(200);
  });

  test.each([
    ['a deleted', () => rmSync(database()), []],
    ['an empty', () => truncateSync(database()), ['--force']],
  ])('ignores the write-ahead log of %s database, and leaves it there', async (_, lose, options) => {
    const { key: backedUp } = await server.application(key, { permissions: ['application:read'] });
    await cli.run('backup', backup());
    const { key: later } = await server.application(key, { permissions: ['application:read'] });
    const log = readFileSync(`${database()}-wal`);
    await server.close();
    lose();
    writeFileSync(`${database()}-wal`, log);
    const { body } = await cli.json('restore', backup(), ...options);
    expect(readFileSync(`${body.replaced}-wal`)).toEqual(log);
    await start();
    expect([await statusOf(backedUp), await statusOf(later)]).toEqual([200, 401]);
  });

  test('accepts an audit export for the backup of a database without entries', async () => {
    await server.close();
    const young = openCli();
    await young.run('migrate');
    await young.run('audit', 'head');
    await young.run('backup', young.path('first.db'));
    await young.run('tenants', 'create', 'x');
    await young.run('audit', 'export', young.path('audit.jsonl'));
    const audit = ['--audit', young.path('audit.jsonl')];
    expect((await young.run('restore', young.path('first.db'), '--force', ...audit)).code).toBe(0);
  });

  test('refuses an audit export that is older than the backup', async () => {
    await server.close();
    const exported = cli.path('old.jsonl');
    await cli.run('audit', 'export', exported);
    const taken = cli.path('later.db');
    const exportedBefore = Date.now();
    await until('a later time', () => Date.now() > exportedBefore);
    await cli.run('backup', taken);
    const { code, err } = await cli.run('restore', taken, '--force', '--audit', exported);
    expect([code, err]).toEqual([1, expect.stringContaining('before the backup was taken')]);
  });

  test('has an audit entry, and the chain continues from the backup', async () => {
    await server.application(key);
    await server.flush();
    await cli.run('backup', backup());
    await server.application(key);
    const lost = (await cli.run('audit', 'head')).out.trim();
    const own = (await cli.run('audit', 'head', '--tenant', tenant)).out.trim();
    await restore();
    const entries = await cli.entries('audit', 'tail', '--operation', 'database.restore');
    // Both have the same time.
    expect(entries.toSorted((one) => ('tenant_id' in one ? -1 : 1))).toMatchObject([
      {
        tenant_id: tenant,
        difference: { audit_head: { from: own, to: expect.stringContaining(`${tenant}:`) } },
      },
      {
        actor: { kind: 'operator' },
        difference: { audit_head: { from: lost }, backup: { to: { verified: true } } },
      },
    ]);
    await cli.run('audit', 'export', cli.path('after.jsonl'));
    expect((await cli.run('audit', 'verify', cli.path('after.jsonl'))).code).toBe(0);
    for (const anchor of [lost, own]) {
      const checked = await cli.run('audit', 'verify', cli.path('after.jsonl'), '--anchor', anchor);
      expect(checked.code).toBe(1);
      expect(checked.out).toMatch(/segment \d records that the database was restored from a backup/);
    }
    expect(existsSync(backup())).toBe(true);
  });
});
