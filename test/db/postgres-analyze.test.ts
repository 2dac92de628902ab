import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import { keysOfTables } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { clause, lookup } from '../../src/db/statement.ts';
import { generousTimeout, postgres, sqlite } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

test('a cached plan uses the index after the table has grown quickly', async () => {
  const testStore = await openTestStore(postgres);
  const { maintenance, runSql } = testStore;
  const tenant = await testStore.tenant();
  const { id: application } = await testStore.application(tenant);
  const session = new SQL(testStore.url, { max: 1 });
  /** The server counts the changed rows before it answers. */
  const counted = async (sql: string) => {
    await session.unsafe(sql);
    await session.unsafe('select pg_stat_force_next_flush()');
  };
  const more = (from: number, to: number) =>
    counted(`insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at)
      select '${tenant}', '${application}', gen_random_uuid(), sha256(('k' || i)::bytea), sha256(('n' || i)::bytea), '[]', '[]', 1, 9e15
      from generate_series(${from}, ${to}) as i`);
  const plan = async () =>
    JSON.stringify(await session.unsafe(`explain execute by_key('${tenant}', array['\\x00'::bytea])`));

  await runSql('alter table sessions set (autovacuum_enabled = off)');
  await more(1, 100);
  await counted('analyze sessions');
  await session.unsafe('set plan_cache_mode = force_generic_plan');
  await session.unsafe(
    'prepare by_key (uuid, bytea[]) as select id from sessions where tenant_id = $1 and key_digest = any($2)',
  );
  expect(await plan()).toContain('Seq Scan');
  expect(await maintenance.analyzeTables()).toEqual([]);
  // The server may make the plan again here, because of other databases.
  await more(101, 5000);
  expect(await maintenance.analyzeTables()).toEqual(['sessions']);
  expect(await plan()).toContain('key_digest_key');
  expect(await maintenance.analyzeTables()).toEqual([]);
  await counted(`delete from sessions where key_digest <> sha256('k5000')`);
  await counted('vacuum analyze sessions');
  await more(5001, 9999);
  expect(await maintenance.analyzeTables()).toEqual(['sessions']);
  expect(await plan()).toContain('key_digest_key');
  expect(await maintenance.analyzeTables()).toEqual([]);
  await session.close();
});

test('lookups in a large tenant among small ones read only the rows of their keys, with a plan that is not made again', async () => {
  const testStore = await openTestStore(postgres);
  const tenant = await testStore.tenant();
  await testStore.runSql('alter table sessions drop constraint sessions_tenant_id_application_id_fkey');
  const insert = (from: number, to: number, owner: string) =>
    testStore.runSql(`insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at)
      select ${owner}, gen_random_uuid(), gen_random_uuid(), sha256(('k' || i)::bytea), sha256(('n' || i)::bytea), '[]', '[]', 1, 9e15
      from generate_series(${from}, ${to}) as i`);
  await insert(1, 3000, `'${tenant}'`);
  await insert(3001, 5000, 'gen_random_uuid()');
  await testStore.runSql('analyze sessions');
  const db = openPostgres(testStore.url, undefined, generousTimeout, 1);
  const byKey = lookup<object>(
    'bytea',
    (key, tenant) => clause`select key_digest as key, expires_at from sessions
      where tenant_id = ${tenant} and key_digest = ${key} and expires_at > :now`,
  );
  const find = (at: number) => {
    const key = new Bun.CryptoHasher('sha256').update(`k${at}`).digest();
    return db.lookup(byKey, key, tenant);
  };
  for (let at = 1; at < 20; at += 2)
    expect(await Promise.all([find(at), find(at + 1)])).not.toContain(undefined);
  const [planned] = await db.all<{ name: string; made: string }>(
    `select name, custom_plans as made from pg_prepared_statements where statement like '%from sessions%'`,
  );
  expect(Number(planned?.made)).toBeLessThan(6);
  const keys = "array[sha256('k1'), sha256('k2')]";
  const plan = JSON.stringify(
    await db.all<object>(
      `explain analyze execute "${planned?.name}" (${keys}, array['${tenant}', '${tenant}']::uuid[])`,
    ),
  );
  expect(plan).toContain('key_digest_key');
  expect(plan).not.toContain('Rows Removed');
  await db.close();
});

/** Tables whose statistics know one tenant. */
const tablesOfOneTenant = `select relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
  where a.attname = 'tenant_id' and c.relkind = 'r' and 'n_distinct=1' = any(a.attoptions) order by relname`;

test('the statistics of every table with several rows of a tenant know one tenant, so that plans suit large ones', async () => {
  const db = openPostgres(await postgres.createMigrated(''), undefined, generousTimeout, 1);
  const expected = [...keysOfTables('postgres')].filter(
    ([, [first, second]]) => first === 'tenant_id' && second,
  );
  const found = await db.all<{ name: string }>(tablesOfOneTenant);
  expect(found.map(({ name }) => name)).toEqual(expected.map(([name]) => name).sort());
  await db.run(`insert into audit_index (tenant_id, term, number, offsets)
    select gen_random_uuid(), i, 1, '' from generate_series(1, 100) as i`);
  await db.run('analyze audit_index');
  const statistics = 'select n_distinct from pg_stats where attname = $1 and tablename = $2';
  expect(await db.get<object>([statistics, ['tenant_id', 'audit_index']])).toEqual({ n_distinct: 1 });
  await db.close();
});

test('SQLite needs no analyze', async () => {
  const testStore = await openTestStore(sqlite);
  expect(await testStore.maintenance.analyzeTables()).toEqual([]);
});
