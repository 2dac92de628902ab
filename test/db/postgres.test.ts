import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { DbUnavailable, defaultConnections } from '../../src/db/db.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { unknownKey } from '../support/keys.ts';
import { duringTransaction, maintenanceLock, untilBlocked } from '../support/postgres-locks.ts';
import { openTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import {
  type ApiResponse,
  databases,
  generousTimeout,
  openTestServer,
  type TestServer,
} from '../support/test-server.ts';
import { newSession, openTestStore, runSql, type TestStore } from '../support/test-store.ts';
import { until } from '../support/until.ts';

const [, postgres] = databases.find(([name]) => name === 'PostgreSQL')!;

describe('a service that loses its connections to PostgreSQL', () => {
  let proxy: TcpProxy;
  let server: TestServer;
  let key: string;
  beforeEach(async () => {
    const url = new URL(await postgres.createMigrated(''));
    proxy = await openTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    // The first server has a long timeout to create the tenant. The tested one has a short timeout.
    const first = await openTestServer(url.href);
    key = (await first.tenant()).key;
    await first.close();
    server = await answered(() => openTestServer(url.href, { SALLYPORT_DATABASE_TIMEOUT: '2000' }));
  });
  afterEach(async () => {
    proxy.setMode('pass');
    await server.close();
  });

  const read = () => server.call('GET', '/applications/key', { key });
  /** Repeats the call until its status is not 503, and returns that status. */
  async function recovered(call: () => Promise<ApiResponse>): Promise<number> {
    let status = 503;
    await until('available', async () => {
      status = (await call()).status;
      return status !== 503;
    });
    return status;
  }

  test('reads and writes succeed after all connections were lost', async () => {
    const many = async () =>
      (await Promise.all(Array.from({ length: 30 }, read))).map(({ status }) => status);
    const { databaseUrl } = server.config;
    await server.close();
    server = await openTestServer(databaseUrl);
    await many();
    const during = many();
    proxy.disconnect();
    expect(new Set(await during)).toEqual(new Set([200]));
    proxy.disconnect();
    expect(new Set(await many())).toEqual(new Set([200]));
    await server.application(key);
  });

  test('responds with 503 while packets are dropped, and recovers', async () => {
    await recovered(read);
    proxy.setMode('swallow');
    const unknown = unknownKey('mgt').secret.reveal();
    const answers = await Promise.all([
      read(),
      server.call('GET', '/applications/key', { key: unknown }),
      server.call('POST', '/applications', {
        key,
        body: { name: 'x', type: 'private', permissions: ['a:b'] },
      }),
      server.call('GET', '/readyz'),
    ]);
    for (const { status, body, headers } of answers) {
      expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
    }
    expect((await server.call('GET', '/livez')).status).toBe(200);
    proxy.setMode('pass');
    expect(await recovered(read)).toBe(200);
    expect(await recovered(() => server.call('GET', '/applications/key', { key: unknown }))).toBe(401);
  });

  test('responds with 503 while connections are refused, and recovers', async () => {
    proxy.setMode('refuse');
    proxy.disconnect();
    const { status, body } = await read();
    expect([status, body.code]).toEqual([503, 'unavailable']);
    proxy.setMode('pass');
    expect(await recovered(read)).toBe(200);
    const made = { name: 'x', type: 'private', permissions: ['a:b'] };
    expect(await recovered(() => server.call('POST', '/applications', { key, body: made }))).toBe(201);
  });
});

/** Repeats `work` while the database does not answer in time, at most 100 times. */
async function answered<T>(work: () => Promise<T>): Promise<T> {
  for (let left = 100; ; left--) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DbUnavailable) || left === 0) throw error;
    }
  }
}

test('a search for a server opens one connection, so that nodes do not exhaust a server that is restarted', async () => {
  let [connections, most] = [0, 0];
  const server = createServer((socket) => {
    most = Math.max(most, ++connections);
    socket.on('error', () => {}).on('close', () => connections--);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const db = openPostgres(`postgres://x@127.0.0.1:${port}/x?sslmode=disable`, undefined, 500, 10);
  await expect(Promise.resolve(db.run('select 1'))).rejects.toThrow(DbUnavailable);
  expect(most).toBe(1);
  await db.close();
  server.close();
});

describe('a store that loses its connections to PostgreSQL', () => {
  let direct: string;
  let proxy: TcpProxy;
  let on: TestStore;
  /** The same database with a short timeout. */
  let impatient: OpenedStore;
  beforeEach(async () => {
    direct = await postgres.createMigrated('');
    const url = new URL(direct);
    proxy = await openTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    on = await openTestStore({ ...postgres, createMigrated: async () => url.href });
    impatient = await answered(() => on.open(undefined, undefined, 1000));
  });

  test('a read is sent again if its connection is lost', async () => {
    const tenant = await on.tenant();
    const { reading } = await duringTransaction(direct, 'lock table tenants', async () => {
      const reading = Promise.resolve(on.store.tenants.get(tenant));
      await untilBlocked(direct);
      proxy.disconnect();
      return { reading };
    });
    expect(await reading).toMatchObject({ id: tenant });
  });

  test('the pool is replaced if all of its connections hang', async () => {
    const tenant = await on.tenant();
    const reads = () =>
      Promise.allSettled(
        Array.from({ length: 20 }, () => Promise.resolve(impatient.store.tenants.get(tenant))),
      );
    await reads();
    proxy.setMode('swallow');
    for (const { status } of await reads()) expect(status).toBe('rejected');
    proxy.setMode('pass');
    expect(await answered(async () => impatient.store.tenants.get(tenant))).toMatchObject({ id: tenant });
  });

  test('exclusive work times out if its connection hangs, and succeeds the next time', async () => {
    await on.tenant();
    const exclusive = () => impatient.maintenance.createFirstTenant(newTenant('test', 1));
    const { waiting } = await duringTransaction(direct, maintenanceLock, async () => {
      const waiting = exclusive().catch((error: unknown) => error);
      await untilBlocked(direct);
      proxy.setMode('swallow');
      return { waiting };
    });
    expect(await waiting).toBeInstanceOf(DbUnavailable);
    proxy.setMode('pass');
    expect(await answered(exclusive)).toBe(false);
  });
});

test('a read that reaches its time limit runs once', async () => {
  const on = await openTestStore(postgres);
  await on.runSql('create sequence attempts');
  const db = openPostgres(on.url, undefined, 3000);
  const slow = "select nextval('attempts') as attempt, pg_sleep(60)";
  await expect(Promise.try(() => db.get(slow))).rejects.toThrow(DbUnavailable);
  expect(await on.runSql<object>('select last_value from attempts')).toEqual([{ last_value: '1' }]);
  await expect(Promise.try(() => db.all(slow))).rejects.toThrow(DbUnavailable);
  expect(await on.runSql<object>('select last_value from attempts')).toEqual([{ last_value: '2' }]);
  await db.close();
});

test('a join of a few rows with a table of some thousand rows uses its index', async () => {
  const url = await postgres.createEmpty('');
  await runSql(url, 'create table keys (digest bytea primary key)');
  await runSql(url, 'insert into keys select sha256(n::text::bytea) from generate_series(1, 5000) n');
  await runSql(url, 'analyze keys');
  const db = openPostgres(url, undefined, generousTimeout);
  const few = 'select sha256(n::text::bytea) as digest from generate_series(1, 100) n';
  const plan = await db.all<object>(
    `explain select * from (${few}) s left join keys k on k.digest = s.digest`,
  );
  expect(JSON.stringify(plan)).toContain('Index Only Scan using keys_pkey');
  await db.close();
});

describe('the store on PostgreSQL while another transaction holds a lock', () => {
  let on: TestStore;
  /** The same database with a short timeout. */
  let impatient: OpenedStore;
  beforeEach(async () => {
    on = await openTestStore(postgres, defaultConnections);
    impatient = await answered(() => on.open(undefined, undefined, 3000));
  });

  test('a change that timed out is not committed later, and other changes succeed', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant);
    const sessions = `select pid from pg_stat_activity
      where application_name = 'sallyport' and datname = current_database() order by pid`;
    const update = (by: Store) =>
      by.applications.update(tenant, id, { by: id, at: 1 }, (current) => ({ ...current, name: 'new' }));
    const before = await on.runSql(sessions);
    const outcome = await duringTransaction(
      on.url,
      `select 1 from applications where id = '${id}' for update`,
      async () => {
        const updating = update(impatient.store).catch((error: unknown) => error);
        let pending = true;
        void updating.then(() => {
          pending = false;
        });
        await until('the change has timed out', async () => {
          expect(await impatient.store.credentials.find(key)).toBeDefined();
          return !pending;
        });
        return updating;
      },
    );
    expect(outcome).toBeInstanceOf(DbUnavailable);
    expect(await on.runSql(sessions)).toEqual(expect.arrayContaining(before));
    expect(await on.store.applications.get(tenant, id)).toMatchObject({ name: 'an application' });
    expect(await update(on.store)).toMatchObject({ name: 'new' });
  });

  test('a single-statement change that timed out waiting for a connection is not committed later', async () => {
    const tenant = await on.tenant();
    const busy = await duringTransaction(on.url, maintenanceLock, async () => {
      const first = Array.from({ length: 10 }, () =>
        impatient.maintenance.createFirstTenant(newTenant('test', 1)).catch((error: unknown) => error),
      );
      await untilBlocked(on.url, defaultConnections);
      await expect(impatient.maintenance.tenants.rename(tenant, 'late')).rejects.toThrow(DbUnavailable);
      return { first };
    });
    await Promise.all(busy.first);
    await on.maintenance.tenants.disable(tenant);
    expect(await on.store.tenants.get(tenant)).toMatchObject({ name: 'test' });
  });

  test('a session is not created if its application is deleted concurrently', async () => {
    const tenant = await on.tenant();
    const { id } = await on.application(tenant, { type: 'public' });
    const session = newSession(on.clock.now(), id, on.mint('ses', tenant), on.mint('non', tenant));
    const creating = await duringTransaction(
      on.url,
      `delete from applications where id = '${id}'`,
      async () => {
        const created = Promise.resolve(on.store.sessions.create(tenant, session)).catch((error) => error);
        await untilBlocked(on.url);
        return { created };
      },
    );
    expect(await creating.created).toMatchObject({ code: 'unauthenticated' });
  });

  test('the clock of the database decides when no other is given', async () => {
    const { store, close } = await openStore(on.url, { timeout: generousTimeout });
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant, { type: 'public' });
    const now = async () => {
      const sql = 'select floor(extract(epoch from clock_timestamp()) * 1000) as now';
      return Number((await on.runSql<{ now: string }>(sql))[0]?.now);
    };
    const before = await now();
    const found = await store.credentials.find(key);
    expect(found?.now).toBeWithin(before, (await now()) + 1);
    expect(found?.applicationId).toBe(id);
    await close();
  });
});
