import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Digest, mint, parseKey } from '../../../src/domain/key.ts';
import { credentials } from '../../../src/store/credentials.ts';
import { type Db, DbUnavailable } from '../../../src/store/engine/db.ts';
import { migrate } from '../../../src/store/engine/migrate.ts';
import { openPostgres } from '../../../src/store/engine/postgres.ts';
import { Cluster } from '../../../torture/crash/cluster.ts';
import { freePort, type Postgres, startPostgres } from '../../support/postgres.ts';
import { generousTimeout, openTestServer, postgres } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** Opens the database, runs `work` and closes the database. */
async function using<T>(url: string, work: (db: Db) => Promise<T>, timeout = generousTimeout): Promise<T> {
  const db = openPostgres(url, undefined, timeout);
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

/** The port of the connection, or null for a Unix socket. */
const portOf = async (db: Db) => db.get<{ port: number | null }>('select inet_server_port() as port');

describe('a database that cannot be reached', () => {
  let full: Postgres;
  let occupants: Db;
  beforeAll(async () => {
    full = await startPostgres({ max_connections: '1', superuser_reserved_connections: '0' });
    occupants = openPostgres(full.url, undefined, generousTimeout);
    await occupants.get('select 1');
  });
  afterAll(async () => {
    await occupants.close();
    await full.stop();
  });

  const cases: [problem: string, url: () => Promise<string>][] = [
    ['connections are refused', async () => `postgres://postgres@127.0.0.1:${await freePort()}/postgres`],
    ['the name does not resolve', async () => 'postgres://postgres@no-such-host.invalid/postgres'],
    ['the database does not exist', () => replaced(/\/[^/]*$/, '/missing')],
    ['the role does not exist', () => replaced('postgres@', 'missing@')],
    ['the server offers no TLS', () => replaced(/$/, '?sslmode=require')],
    ['all connections are in use', async () => full.url],
  ];
  const replaced = async (from: RegExp | string, to: string) =>
    (await postgres.createEmpty('')).replace(from, to);

  test.each(cases)('is unavailable for every operation: %s', async (_problem, url) => {
    await using(await url(), async (db) => {
      const attempts = [
        () => db.get('select 1'),
        () => db.lookup('select 1 as key where true = :key', new Uint8Array(1), []),
        () => db.run('select 1'),
        () => db.transaction(async (tx) => tx.get('select 1')),
        () => db.change(async (tx) => tx.run('select 1')),
        () => db.exclusively(async (tx) => tx.get('select 1')),
      ];
      for (const attempt of attempts) await expect(Promise.try(attempt)).rejects.toThrow(DbUnavailable);
    });
  });
});

describe('several hosts', () => {
  test('a standby authenticates no key; nodes move to it when it is promoted, without a restart or a change of settings', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-hosts-'));
    chmodSync(folder, 0o711);
    const primary = await Cluster.make(join(folder, 'primary'));
    await primary.start();
    const standby = await primary.copy(join(folder, 'standby'));
    await standby.start();
    await primary.waitForStandby();
    const url = `postgres://postgres@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/postgres?target_session_attrs=read-write`;
    const node = await openTestServer(url);
    const { key } = await node.tenant();
    const before = await node.application(key);
    await using(`postgres://postgres@127.0.0.1:${standby.port}/postgres`, async (db) => {
      for (const digest of [parseKey(before.key)?.digest, mint('pvt').digest])
        await expect(Promise.try(() => credentials(db).find('pvt', digest as Digest))).rejects.toThrow(
          'the server is a standby or read-only',
        );
    });
    await primary.kill();
    expect((await node.call('GET', '/readyz')).status).toBe(503);
    await standby.promote();
    while ((await node.call('GET', '/readyz')).status === 503);
    await node.application(key);
    expect((await node.call('GET', `/applications/${before.id}`, { key })).status).toBe(200);
    await node.close();
    await standby.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  test('a host that becomes read-only is left for one that accepts writes', async () => {
    const other = await startPostgres();
    const [here, there] = [await postgres.createEmpty(''), other.url].map((each) => new URL(each));
    const name = here?.pathname.slice(1);
    await runSql(other.url, `create database ${name}`);
    const both = `postgres://postgres@${there?.host},${here?.host}/${name}`;
    await using(both, async (db) => {
      expect(await portOf(db)).toEqual({ port: Number(there?.port) });
      await runSql(other.url, 'alter system set default_transaction_read_only = on');
      await runSql(other.url, 'select pg_reload_conf()');
      const create = async () => db.run('create table if not exists moved (id integer)');
      const isMoved = async () => (await portOf(db))?.port === Number(here?.port);
      while (!(await isMoved())) await create().catch(() => {});
      await create();
    });
    await other.stop();
  });

  test('the error names every host and its problem', async () => {
    const [first, second] = [await freePort(), await freePort()];
    await using(`postgres://127.0.0.1:${first},localhost:${second}/x`, async (db) => {
      const failing = Promise.try(() => db.get('select 1'));
      await expect(failing).rejects.toThrow(/no host accepts writes \(127\.0\.0\.1: .+; localhost: .+\)/);
    });
  });
});

describe('connection settings', () => {
  test('a password comes from the password file, which only the owner may read', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-passwords-'));
    chmodSync(folder, 0o755);
    const access = join(folder, 'pg_hba.conf');
    writeFileSync(access, 'host all locked all scram-sha-256\nhost all all all trust\n');
    const server = await startPostgres({ hba_file: access });
    await runSql(server.url, "create role locked login password 'a:b\\c'");
    const passwords = join(folder, 'passwords');
    const url = `postgres://locked@127.0.0.1:${server.port}/postgres?passfile=${passwords}`;
    const write = (lines: string, mode: number) => {
      writeFileSync(passwords, lines);
      chmodSync(passwords, mode);
    };
    write(`# a comment\nother:*:*:*:wrong\n127.0.0.1:${server.port}:*:locked:a\\:b\\\\c\n`, 0o600);
    expect(await using(url, portOf)).toEqual({ port: server.port });
    write('*:*:*:*:wrong\n', 0o600);
    await expect(using(url, portOf)).rejects.toThrow(DbUnavailable);
    write('*:*:*:*:wrong\n', 0o640);
    await expect(using(url, portOf)).rejects.toThrow('chmod 600');
    // Kubernetes and systemd mount secrets with this mode and root as owner, so it is accepted for root's files.
    write('*:*:*:*:wrong\n', 0o440);
    const isRoot = process.getuid?.() === 0;
    await expect(using(url, portOf)).rejects.toThrow(isRoot ? /password authentication failed/ : /chmod 600/);
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('a server is reached through its Unix socket', async () => {
    const folder = mkdtempSync('/tmp/sallyport-socket-');
    chmodSync(folder, 0o777);
    const server = await startPostgres({ unix_socket_directories: folder });
    for (const url of [
      `postgres://postgres@${encodeURIComponent(folder)}:${server.port}/postgres`,
      `postgres://postgres@:${server.port}/postgres?host=${folder}`,
    ])
      expect(await using(url, portOf)).toEqual({ port: null });
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('all tables are in the schema of the URL', async () => {
    const url = await postgres.createEmpty('');
    const missing = using(`${url}?schema=Vault`, async (db) => migrate(db));
    await expect(missing).rejects.toThrow('the schema does not exist');
    await runSql(url, 'create schema "Vault"');
    await using(`${url}?schema=Vault`, async (db) => migrate(db));
    const tables = `select distinct table_schema as name from information_schema.tables
      where table_schema not in ('information_schema', 'pg_catalog')`;
    expect(await runSql<object>(url, tables)).toEqual([{ name: 'Vault' }]);
  });
});
