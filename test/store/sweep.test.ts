import { beforeEach, describe, expect, test } from 'bun:test';
import { duringTransaction } from '../support/postgres-locks.ts';
import { databases, postgres, sqlite } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe.each(databases)('the store on %s: the sweep', (_, database) => {
  let on: TestStore;
  beforeEach(async () => {
    on = await openTestStore(database);
  });

  const rows = async (table: string) =>
    (await on.runSql<{ id: string }>(`select id from ${table} order by id`)).map(({ id }) => id);

  test('removes expired rows in batches, and no others', async () => {
    const tenant = await on.tenant();
    const web = await on.application(tenant, { type: 'public' });
    const live = await on.session(tenant, web.id, { expiresAt: on.clock.now() + 1001 });
    for (let index = 0; index < 5; index++) {
      await on.session(tenant, web.id, { expiresAt: on.clock.now() + 1000 });
      await on.application(tenant, { expiresAt: on.clock.now() + 1000 });
    }
    const kept = (await rows('applications')).length - 5;
    on.clock.advance(999);
    expect(await on.maintenance.sweep(100)).toBe(0);
    on.clock.advance(1);
    // On PostgreSQL, ten times as many sessions.
    const sessions = database === sqlite ? 3 : 5;
    expect(await on.maintenance.sweep(3)).toBe(sessions + 3);
    expect(await rows('sessions')).toHaveLength(1 + 5 - sessions);
    expect(await on.maintenance.sweep(3)).toBe(5 - sessions + 2);
    expect(await on.maintenance.sweep(3)).toBe(0);
    expect(await rows('sessions')).toEqual([live.id]);
    expect(await rows('applications')).toHaveLength(kept);
    expect(await rows('application_keys')).toHaveLength(kept);
    expect(await on.store.credentials.find(web.key)).toBeDefined();
    expect(await on.store.credentials.find(live.key)).toBeDefined();
  });

  test('removes idempotency records after a day', async () => {
    const tenant = await on.tenant();
    await on.store.tokens.get(tenant, 'none');
    const { id } = await on.application(tenant);
    const request = { caller: id, application: id, key: 'x', request: 'POST /tokens' };
    await on.store.change(tenant, (tx) =>
      tx.idempotency.save(tenant, request, { status: 204 }, on.clock.now()),
    );
    on.clock.advance(86_399_999);
    expect(await on.maintenance.sweep(10)).toBe(0);
    on.clock.advance(1);
    expect(await on.maintenance.sweep(10)).toBe(1);
    expect(await on.runSql('select 1 from idempotency')).toEqual([]);
  });

  test('several nodes sweep concurrently without blocking each other', async () => {
    const tenant = await on.tenant();
    const web = await on.application(tenant, { type: 'public' });
    for (let index = 0; index < 12; index++) await on.session(tenant, web.id);
    on.clock.advance(180_000);
    const nodes = [on, await on.open(), await on.open()];
    const swept = await Promise.all(nodes.map(({ maintenance }) => maintenance.sweep(12)));
    expect(swept.reduce((sum, count) => sum + count)).toBe(12);
    expect(await rows('sessions')).toEqual([]);
  });
});

test('on PostgreSQL, the sweep skips locked rows and removes them later', async () => {
  const on = await openTestStore(postgres);
  const tenant = await on.tenant();
  const web = await on.application(tenant, { type: 'public' });
  const ids = [];
  for (let index = 0; index < 3; index++) ids.push((await on.session(tenant, web.id)).id);
  on.clock.advance(180_000);
  const hold = `select 1 from sessions where id = '${ids[1]}' for update`;
  expect(await duringTransaction(on.url, hold, () => on.maintenance.sweep(10))).toBe(2);
  expect(await on.maintenance.sweep(10)).toBe(1);
});
