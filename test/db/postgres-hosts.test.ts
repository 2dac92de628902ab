import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Db, DbUnavailable } from '../../src/db/db.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { anyPosition, type KnownPositions, type Position } from '../../src/domain/database-position.ts';
import { nodes } from '../../src/store/nodes.ts';
import { byTag } from '../../src/store/tenants.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { freePort, type Postgres, startPostgres } from '../support/postgres.ts';
import { openTcpProxy } from '../support/tcp-proxy.ts';
import { fewConnections, generousTimeout, postgres } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';
import { until } from '../support/until.ts';

/** Opens the database, runs `work` and closes the database. */
const using = <T>(url: string, work: (db: Db) => Promise<T>, timeout = generousTimeout): Promise<T> =>
  usingDb(openPostgres(url, undefined, timeout, fewConnections), work);

async function usingDb<T>(db: Db, work: (db: Db) => Promise<T>): Promise<T> {
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
    ['connections are refused', async () => `postgres://postgres@127.0.0.1:${freePort()}/postgres`],
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
        () => db.lookup(byTag, ''),
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
  let other: Postgres;
  beforeAll(async () => {
    other = await startPostgres();
  });
  afterAll(() => other.stop());

  test('two servers that both accept writes are both refused, and one server with two addresses is used', async () => {
    const here = new URL(await postgres.createEmpty(''));
    await using(`postgres://postgres@${here.host},${new URL(other.url).host}/postgres`, async (db) => {
      const failing = Promise.try(() => db.get('select 1'));
      await expect(failing).rejects.toThrow(
        /^127.0.0.1:\d+ and 127.0.0.1:\d+ both accept writes: stop the server that is not the primary$/,
      );
    });
    await using(`postgres://postgres@${here.host},localhost:${here.port}/postgres`, async (db) => {
      expect(await portOf(db)).toEqual({ port: Number(here.port) });
    });
  });

  test('a host that becomes read-only is left for one that accepts writes', async () => {
    const [here, there] = [await postgres.createEmpty(''), other.url].map((each) => new URL(each));
    const name = here?.pathname.slice(1);
    await runSql(other.url, `create database ${name}`);
    const setReadOnly = (value: string) =>
      runSql(
        String(new URL('/postgres', here)),
        `alter database ${name} set default_transaction_read_only = ${value}`,
      );
    await setReadOnly('on');
    const both = `postgres://postgres@${there?.host},${here?.host}/${name}`;
    await using(both, async (db) => {
      expect(await portOf(db)).toEqual({ port: Number(there?.port) });
      await runSql(other.url, 'alter system set default_transaction_read_only = on');
      await runSql(other.url, 'select pg_reload_conf()');
      await setReadOnly('off');
      const create = async () => db.run('create table if not exists moved (id integer)');
      const isMoved = async () => (await portOf(db))?.port === Number(here?.port);
      await until('moved to the other host', async () => {
        await create().catch(() => {});
        return isMoved();
      });
      await create();
    });
  });

  test('a connection to another server at the same address is not used', async () => {
    const [first, second] = [await startPostgres(), await startPostgres()];
    const proxy = await openTcpProxy(first.port);
    const id = crypto.randomUUID();
    for (const [beat, { url }] of [second, first].entries()) {
      await runSql(url, 'create table heartbeat (installation uuid, era integer, beat bigint, home text)');
      await runSql(url, `insert into heartbeat values ('${id}', 0, ${beat})`);
      await runSql(url, 'create table nodes (url text, seen_at bigint)');
      await runSql(url, 'create table things (id integer)');
    }
    let seen: Position | undefined;
    const positions: KnownPositions = {
      ask: async () => [],
      newest: async () => (seen ? [seen] : []),
      saw: (position) => {
        seen = position;
      },
    };
    const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
    const db = openPostgres(url, undefined, generousTimeout, 4, positions);
    await db.get('select 1');
    const ours = "from pg_stat_activity where application_name = 'sallyport'";
    await until('4 connections', async () => (await runSql(first.url, `select 1 ${ours}`)).length >= 4);
    proxy.setTarget(second.port);
    await runSql(first.url, `select pg_terminate_backend(pid) ${ours} and pid <> (select min(pid) ${ours})`);
    const insert = () => db.transaction(async (tx) => tx.run('insert into things values (1)'));
    const outcomes = await Promise.allSettled(Array.from({ length: 12 }, insert));
    expect(outcomes.map(({ status }) => status)).toContain('rejected');
    expect(await runSql(second.url, 'select * from things')).toEqual([]);
    await db.close();
    proxy.close();
    await Promise.all([first.stop(), second.stop()]);
  });

  test('a server is not behind because another node has increased the beat since', async () => {
    const url = await postgres.createMigrated('');
    let meanwhile: (() => Promise<unknown>) | undefined;
    let seen: Position | undefined;
    const db = openPostgres(url, undefined, generousTimeout, 2, {
      ask: async () => [],
      newest: async () => {
        await meanwhile?.();
        return seen ? [seen] : [];
      },
      saw: (position) => {
        seen = position;
      },
    });
    const before = (await db.position?.()) as Position;
    meanwhile = async () => {
      await runSql(url, 'update heartbeat set beat = beat + 1');
      seen = { ...(seen as Position), beat: before.beat + 1 };
    };
    expect(await db.position?.()).toMatchObject({ beat: before.beat + 1 });
    await db.close();
  });

  describe('a database that is not the one that nodes have used', () => {
    const unseen: KnownPositions = { newest: async () => [], ask: async () => [], saw: () => {} };
    const open = (url: string, positions: KnownPositions) =>
      openPostgres(url, undefined, generousTimeout, 2, positions);
    const beat = (url: string, positions = unseen) => usingDb(open(url, positions), (db) => nodes(db).beat());
    const recover = (url: string) =>
      usingDb(open(url, anyPosition), async (db) => {
        const position = await nodes(db).position();
        await nodes(db).acceptAfter(position as Position);
      });

    test('a copy is refused by nodes that have never seen the original, until an operator accepts it', async () => {
      const original = await postgres.createMigrated('');
      await beat(original);
      const name = `copy_${crypto.randomUUID().replaceAll('-', '')}`;
      await runSql(
        original.replace(/[^/]+$/, 'postgres'),
        `create database ${name} template ${original.split('/').at(-1)}`,
      );
      const copy = original.replace(/[^/]+$/, name);
      await expect(beat(copy)).rejects.toThrow('restored or copied database');
      await recover(copy);
      await beat(copy);
      await beat(copy);
      await beat(original);
    });

    test('an old server is refused if a node that it knows has seen a newer one, also long after its record expired', async () => {
      const url = await postgres.createMigrated('');
      await beat(url);
      const row = `'${crypto.randomUUID()}', 'node', 'v', 'http://other.example', '[]', 0, 0`;
      await runSql(
        url,
        `insert into nodes (id, name, version, url, master_keys, clock, seen_at) values (${row})`,
      );
      const asked: string[] = [];
      const ask = (newer: number) => async (urls: readonly string[]) => {
        asked.push(...urls);
        const [row] = await runSql(url, 'select installation, beat from heartbeat');
        const { installation, beat } = row as { installation: string; beat: string };
        return [{ installation, era: 0, timeline: 1, beat: Number(beat) + newer }];
      };
      await expect(beat(url, { ...unseen, ask: ask(1) })).rejects.toThrow('is behind');
      await beat(url, { ...unseen, ask: ask(0) });
      expect(asked).toEqual(['http://other.example', 'http://other.example']);
    });
  });

  test('the error names every host and its problem', async () => {
    const [first, second] = [freePort(), freePort()];
    await using(`postgres://127.0.0.1:${first},localhost:${second}/x`, async (db) => {
      const failing = Promise.try(() => db.get('select 1'));
      await expect(failing).rejects.toThrow(
        /no host accepts writes \(127\.0\.0\.1:\d+: .+; localhost:\d+: .+\)/,
      );
    });
  });
});

describe('connection settings', () => {
  test('a password comes from the password file, which only the owner may read', async () => {
    const folder = temporaryFolder();
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
