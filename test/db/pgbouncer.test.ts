import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { Queries } from '../../src/db/db.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { clause, lookup, raw } from '../../src/db/statement.ts';
import { CitusCluster, citusBinaries } from '../../torture/crash/citus.ts';
import type { Cluster } from '../../torture/crash/cluster.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { noPgbouncer, type Pgbouncer, pgbouncers, startPgbouncer } from '../support/pgbouncer.ts';
import { isMissing } from '../support/skip.ts';
import { openTcpProxy } from '../support/tcp-proxy.ts';
import { generousTimeout, openTestServer, postgres, type TestServer } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';
import { until } from '../support/until.ts';

/** Startup parameters. PgBouncer rejects them by default, and can be configured to ignore them. */
const ignored =
  'default_transaction_isolation, statement_timeout, lock_timeout, idle_in_transaction_session_timeout, random_page_cost';
const configurations: Record<string, Record<string, string>> = {
  'with its default settings': {},
  'that ignores startup parameters': { ignore_startup_parameters: ignored },
  'that tracks prepared statements': { max_prepared_statements: '200' },
};
/** Older versions cannot track prepared statements. */
const tracksStatements = (version: string) => Bun.semver.order(version, '1.21.0') >= 0;
const suites = (noPgbouncer ? [['0.0.0', '']] : pgbouncers).flatMap(([version = '', path = '']) =>
  Object.entries(configurations)
    .filter(([, settings]) => !settings.max_prepared_statements || tracksStatements(version))
    .map(([how, settings]) => ({ version, how, path, settings })),
);

describe.skipIf(noPgbouncer).each(suites)('through PgBouncer $version $how', ({ path, settings }) => {
  let pooler: Pgbouncer;
  let direct: string;
  let url: string;
  beforeEach(async () => {
    direct = await postgres.createMigrated('');
    // Fewer connections than clients, so that the transactions of one client run on several connections.
    pooler = await startPgbouncer(path, Number(new URL(direct).port), {
      default_pool_size: '3',
      ...settings,
    });
    url = through(direct);
  });
  afterEach(() => pooler.stop());

  const through = (address: string) => {
    const pooled = new URL(address);
    pooled.port = String(pooler.port);
    return pooled.href;
  };

  test('concurrent reads and changes succeed', async () => {
    const server = await openTestServer(url);
    const { key } = await server.tenant();
    const created = await Promise.all(Array.from({ length: 40 }, () => server.application(key)));
    const read = await Promise.all(created.map(({ key }) => server.call('GET', '/tokens', { key })));
    expect(new Set(read.map(({ status }) => status))).toEqual(new Set([200]));
    const sessions = await authorizeSessions(server, key, 40);
    expect(new Set(sessions)).toEqual(new Set([204]));
    await server.flush();
  });

  test('a read waits for two round trips, and without the pooler for one', async () => {
    const trips: number[] = [];
    for (const port of [pooler.port, Number(new URL(direct).port)]) {
      let answers = 0;
      const proxy = await openTcpProxy(port, () => {
        answers += 1;
      });
      const watched = Object.assign(new URL(direct), { port: String(proxy.port) }).href;
      const db = openPostgres(watched, undefined, generousTimeout, 1);
      // The first reads find the server and prepare the statement.
      for (let count = 0; count < 4; count++) {
        answers = 0;
        await db.get(['select 1 as one where 1 = $1', [1]]);
      }
      trips.push(answers);
      await db.close();
      await proxy.close();
    }
    // One answer is that to the commit of the read before, for which no caller has waited.
    expect(trips).toEqual([2 + 1, 1]);
  });

  test('every statement has the timeouts, and other clients of the pooler do not', async () => {
    const db = openPostgres(url, undefined, 4000);
    const sql = `select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')
      || ' ' || current_setting('idle_in_transaction_session_timeout') as timeouts`;
    const timeouts = async (on: Queries) => (await on.get<{ timeouts: string }>(sql))?.timeouts;
    const usual = '3900ms 1250ms 25s';
    expect(await timeouts(db)).toBe(usual);
    expect(await db.all<object>(sql)).toEqual([{ timeouts: usual }]);
    const byKey = lookup(
      'bytea',
      (key) => clause`${raw(sql.replace('select', String.raw`select '\x00'::bytea as key,`))}
        where '\\x00'::bytea = ${key}`,
    );
    expect(await db.lookup(byKey, new Uint8Array(1))).toMatchObject({ timeouts: usual });
    expect(await db.transaction(timeouts)).toBe(usual);
    expect(await db.change(timeouts)).toBe(usual);
    expect(await db.exclusively(timeouts)).toBe('24s 0 25s');
    expect(await runSql<object>(url, sql)).toEqual([{ timeouts: '0 0 0' }]);
    await db.close();
  });

  test('an empty database is migrated, in the schema of the URL', async () => {
    const empty = await postgres.createEmpty('');
    await runSql(empty, 'create schema vault');
    const db = openPostgres(`${through(empty)}?schema=vault`, undefined, generousTimeout);
    expect(await migrate(db)).toMatchObject({ from: 0 });
    expect(await runSql<object>(empty, 'select 1 from vault.tenants')).toEqual([]);
    await db.close();
  });

  test('a node adapts without a restart if the address becomes that of the pooler', async () => {
    const proxy = await openTcpProxy(Number(new URL(direct).port));
    const address = new URL(direct);
    address.port = String(proxy.port);
    const server = await openTestServer(address.href);
    const { key } = await server.tenant();
    proxy.setTarget(pooler.port);
    proxy.disconnect();
    const create = () =>
      server.call('POST', '/applications', {
        key,
        body: { name: 'x', type: 'private', permissions: ['a:b'] },
      });
    let first = await create();
    await until('available', async () => {
      first = await create();
      return first.status !== 503;
    });
    const others = await Promise.all(Array.from({ length: 20 }, create));
    expect(new Set([first, ...others].map(({ status }) => status))).toEqual(new Set([201]));
  });
});

const noCluster = isMissing(
  !noPgbouncer && process.env.CITUS_TEMPLATE !== undefined && citusBinaries() !== undefined,
  'connection pooler tests on a Citus cluster: `npm run test:citus` runs them where Citus and pgbouncer are installed',
);

describe.skipIf(noCluster)('through PgBouncer to the coordinator of a Citus cluster', () => {
  let folder: string;
  let cluster: CitusCluster;
  let standby: Cluster;
  let pooler: Pgbouncer;
  let server: TestServer;
  let tenant: { id: string; key: string };
  beforeAll(async () => {
    folder = temporaryFolder();
    chmodSync(folder, 0o711);
    cluster = await CitusCluster.start(join(folder, 'citus'));
    standby = await cluster.coordinator.copy(join(folder, 'standby'));
    await standby.start();
    pooler = await startPgbouncer(pgbouncers[0]?.[1] ?? '', cluster.coordinator.port);
    server = await openTestServer(pooled());
    tenant = await server.tenant();
  });
  afterAll(async () => {
    await pooler.stop();
    await standby.kill();
    await cluster.kill();
  });

  const pooled = () => `postgres://postgres@127.0.0.1:${pooler.port}/postgres`;
  const statuses = async () => {
    const found: number[] = [];
    for (const path of ['/applications/key', '/tokens', '/applications/key', '/tokens', '/logs'])
      found.push((await server.call('GET', path, { key: tenant.key })).status);
    return found;
  };
  const all = (status: number) => Array(5).fill(status);

  /** Changes a setting of the coordinator, and closes the connections that were opened before. */
  async function setReadOnly(value: 'on' | 'off'): Promise<void> {
    const { coordinator } = cluster;
    await coordinator.sql(`alter system set default_transaction_read_only = ${value}`);
    await coordinator.sql('select pg_reload_conf()');
    const setting = 'select current_setting($$default_transaction_read_only$$) as value';
    await until('the new setting', async () => {
      const [row] = await coordinator.sql<{ value: string }>(setting);
      return row?.value === value;
    });
    await coordinator.sql(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'sallyport'",
    );
  }

  test('reads get no answer while it is read-only', async () => {
    expect(await statuses()).toEqual(all(200));
    await setReadOnly('on');
    expect(await statuses()).toEqual(all(503));
    await setReadOnly('off');
    await until('available', async () => (await statuses()).every((status) => status === 200));
  });

  test('reads get no answer from its standby', async () => {
    expect(await statuses()).toEqual(all(200));
    pooler.setServer(standby.port);
    const isStandby = 'select 1 where pg_is_in_recovery()';
    await until('the standby', async () => (await runSql(pooled(), isStandby)).length > 0);
    expect(await statuses()).toEqual(all(503));
    expect(server.logged.findLast((line) => line.includes('request failed'))).toContain('is read-only');
    // Without known positions, by which the node has refused it.
    const db = openPostgres(pooled(), undefined, generousTimeout);
    const byId = lookup('uuid', (key) => clause`select id as key from tenants where id = ${key}`);
    await expect(db.lookup(byId, tenant.id)).rejects.toThrow('the server is a standby or read-only');
    await db.close();
  });
});

/** The status of each authorization. */
async function authorizeSessions(server: TestServer, key: string, count: number): Promise<number[]> {
  const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
  const backend = await server.application(key, { permissions: ['session:authorize', 'token:read'] });
  return Promise.all(
    Array.from({ length: count }, async () => {
      const session = await server.call('POST', '/sessions', { key: web.key });
      const body = { nonce: session.body.nonce, permissions: ['token:read'] };
      return (await server.call('POST', '/sessions/authorize', { key: backend.key, body })).status;
    }),
  );
}
