import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
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
import { newMasterKey } from '../../../src/store/crypto/cipher.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
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
  await start();
  key = (await world.tenant()).key;
});
afterEach(async () => {
  await stop();
  desk.clear();
});

async function start(): Promise<void> {
  world = await openTestServer(`sqlite:${database()}`);
  running = true;
}

async function stop(): Promise<void> {
  if (running) await world.close();
  running = false;
}

/** A copy that other means made carries no MAC. */
const copied = ['--unverified'];

async function restore(...options: string[]) {
  await stop();
  const done = await desk.json('restore', backup(), '--force', ...options);
  await start();
  return done.body;
}

const statusOf = async (credential: string) =>
  (await world.call('GET', '/applications/key', { key: credential })).status;

describe('a restore', () => {
  test('brings back what there was, and keeps what it replaced', async () => {
    const kept = await world.application(key);
    await desk.run('backup', backup());
    const lost = await world.application(key, { permissions: ['application:read'] });
    const body = await restore();
    expect(body).toMatchObject({ database: database(), revoked: false, sessions: 0 });
    expect(await statusOf(kept.key)).toBe(403);
    expect(await statusOf(lost.key)).toBe(401);
    const replaced = new Database(body.replaced, { readonly: true });
    expect(replaced.query('select 1 from applications where id = ?').all(lost.id)).toHaveLength(1);
    replaced.close();
    expect(statSync(database()).mode & 0o777).toBe(0o600);
    expect(readdirSync(desk.folder).filter((name) => name.includes('restoring'))).toEqual([]);
  });

  test('makes a database where there was none', async () => {
    const { key: kept } = await world.application(key, { permissions: ['application:read'] });
    await desk.run('backup', backup());
    await stop();
    const elsewhere = openDesk((folder) => ({
      DATABASE_URL: `sqlite:${join(folder, 'new', 'live.db')}`,
      SALLYPORT_MASTER_KEY: testMasterKey,
    }));
    expect((await elsewhere.json('restore', backup())).body.replaced).toBeUndefined();
    world = await openTestServer(`sqlite:${elsewhere.path('new/live.db')}`);
    running = true;
    expect(await statusOf(kept)).toBe(200);
    await stop();
    elsewhere.clear();
  });

  test('does not bring Sessions, nonces or remembered answers back to life', async () => {
    const web = await world.application(key, { type: 'public', permissions: ['application:read'] });
    const open = async () => (await world.call('POST', '/sessions', { key: web.key })).body;
    const [authorized, spent, waiting] = [await open(), await open(), await open()];
    const authorize = (nonce: string) =>
      world.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['application:read'] } });
    await authorize(authorized.nonce);
    expect(await statusOf(authorized.session_key)).toBe(200);
    const repeated = {
      key,
      body: { name: 'once', type: 'private', permissions: ['mine:x'] },
      headers: { 'Idempotency-Key': 'again' },
    };
    await world.call('POST', '/applications', repeated);
    await world.flush();
    for (const part of ['', '-wal']) copyFileSync(database() + part, backup() + part);
    await authorize(spent.nonce);
    const body = await restore(...copied);
    expect(body).toMatchObject({ sessions: 3, replies: 1 });
    expect(await statusOf(authorized.session_key)).toBe(401);
    for (const { nonce } of [authorized, spent, waiting]) expect((await authorize(nonce)).status).toBe(404);
    const again = await world.call('POST', '/applications', repeated);
    expect(again.headers.get('idempotency-replayed')).toBeNull();
  });

  test('is refused while the service runs, by whatever process', async () => {
    await desk.run('backup', backup());
    const inUse = { code: 1, out: '', error: expect.stringContaining('is in use') };
    expect(await desk.run('restore', backup(), '--force')).toMatchObject(inUse);
    await stop();
    const serving = desk.start('serve');
    for await (const chunk of serving.stdout)
      if (new TextDecoder().decode(chunk).includes('listening')) break;
    expect(await desk.run('restore', backup(), '--force')).toMatchObject(inUse);
    serving.kill('SIGKILL');
    await serving.exited;
    expect((await desk.run('restore', backup(), '--force')).code).toBe(0);
  });

  test('does not replace a database unless it is told to', async () => {
    await desk.run('backup', backup());
    const lost = await world.application(key, { permissions: ['application:read'] });
    await stop();
    expect(await desk.run('restore', backup())).toMatchObject({
      code: 1,
      error: expect.stringContaining('--force replaces it'),
    });
    await start();
    expect(await statusOf(lost.key)).toBe(200);
  });

  describe('that cannot be good changes nothing:', () => {
    const spoil: [string, () => unknown, RegExp][] = [
      ['a file that is no database', () => writeFileSync(backup(), 'x'.repeat(10_000)), /not a database/],
      ['an empty file', () => truncateSync(backup()), /not a database of Sallyport/],
      ['half of a file', () => truncateSync(backup(), 40_960), /cannot be restored: /],
      [
        'a damaged file',
        () => {
          const bytes = readFileSync(backup());
          bytes.fill(0xff, 8192, 16_384);
          writeFileSync(backup(), bytes);
        },
        /cannot be restored: /,
      ],
      [
        'a schema of the future',
        () => runSql(`sqlite:${backup()}`, "insert into schema_versions (version, name) values (999, 'x')"),
        /schema 999/,
      ],
      [
        'another master key',
        () => runSql(`sqlite:${backup()}`, `update master_key set id = '${newMasterKey().id}'`),
        /sealed with the master key/,
      ],
    ];

    test.each(spoil)('%s', async (_, change, complaint) => {
      await desk.run('backup', backup());
      const { key: alive } = await world.application(key, { permissions: ['application:read'] });
      await change();
      await stop();
      const { code, out, error } = await desk.run('restore', backup(), '--force', '--unverified');
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(error).toMatch(complaint);
      expect(readdirSync(desk.folder).filter((name) => /restoring|replaced/.test(name))).toEqual([]);
      await start();
      expect(await statusOf(alive)).toBe(200);
    });
  });

  test('goes on after one that broke off, and where the old database cannot be read any more', async () => {
    const { key: kept } = await world.application(key, { permissions: ['application:read'] });
    await desk.run('backup', backup());
    await stop();
    writeFileSync(`${database()}.restoring`, 'half');
    writeFileSync(database(), 'rubbish');
    writeFileSync(`${database()}-wal`, 'rubbish');
    const { body } = await desk.json('restore', backup(), '--force');
    expect(readFileSync(body.replaced, 'utf8')).toBe('rubbish');
    await start();
    expect(await statusOf(kept)).toBe(200);
  });

  test('does not take the log of a database that is gone for its own', async () => {
    const { key: kept } = await world.application(key, { permissions: ['application:read'] });
    await desk.run('backup', backup());
    const { key: later } = await world.application(key, { permissions: ['application:read'] });
    const log = readFileSync(`${database()}-wal`);
    await stop();
    rmSync(database());
    writeFileSync(`${database()}-wal`, log);
    const { body } = await desk.json('restore', backup());
    expect(readFileSync(`${body.replaced}-wal`)).toEqual(log);
    await start();
    expect([await statusOf(kept), await statusOf(later)]).toEqual([200, 401]);
  });

  test('reads what came after a backup of a database in which nothing had happened yet', async () => {
    await stop();
    const young = openDesk();
    await young.run('migrate');
    await young.run('audit', 'head');
    await young.run('backup', young.path('first.db'));
    await young.run('tenants', 'create', 'x');
    await young.run('audit', 'export', young.path('audit.jsonl'));
    const audit = ['--audit', young.path('audit.jsonl')];
    expect((await young.run('restore', young.path('first.db'), '--force', ...audit)).code).toBe(0);
    young.clear();
  });

  test('is on record, and the chain of the audit log goes on from the backup', async () => {
    await world.application(key);
    await desk.run('backup', backup());
    await world.application(key);
    const lost = (await desk.run('audit', 'head')).out.trim();
    await restore();
    const { out } = await desk.run('audit', 'tail', '--json', '--lines', '1');
    expect(JSON.parse(out)).toMatchObject({
      actor: { kind: 'operator' },
      operation: 'database.restore',
      difference: { audit_head: { from: lost, to: expect.stringMatching(/^2:/) } },
    });
    await desk.run('audit', 'export', desk.path('after.jsonl'));
    expect((await desk.run('audit', 'verify', desk.path('after.jsonl'))).code).toBe(0);
    const checked = await desk.run('audit', 'verify', desk.path('after.jsonl'), '--anchor', lost);
    expect(checked.out).toContain('row 3 says that the database was put back to an earlier state');
    expect(existsSync(backup())).toBe(true);
  });
});
