import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import { postgres, sqlite } from '../../support/test-server.ts';
import { openTestStore } from '../../support/test-store.ts';

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
  await more(101, 5000);
  expect(await plan()).toContain('Seq Scan');
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
  await testStore.close();
});

test('SQLite needs no analyze', async () => {
  const testStore = await openTestStore(sqlite);
  expect(await testStore.maintenance.analyzeTables()).toEqual([]);
  await testStore.close();
});
