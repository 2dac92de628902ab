import { describe, expect, test } from 'bun:test';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe.each(databases)('the store on %s: tenants', async (_, database) => {
  const on = await openTestStore(database);

  const now = () => new Date(on.clock.now()).toISOString();
  const listed = async () => (await on.maintenance.tenants.list()).map(({ id }) => id);

  test('a new tenant has a management application whose key works', async () => {
    const tenant = newTenant('acme', on.clock.now());
    await on.maintenance.tenants.create(tenant);
    const { key, application } = tenant;
    expect(await on.store.credentials.find(key)).toMatchObject({
      kind: 'application',
      tenantId: tenant.id,
      applicationId: application.id,
      application: { type: 'management', permissions: application.permissions },
    });
  });

  test('a tenant whose key cannot be stored is not created either', async () => {
    const first = newTenant('first', on.clock.now());
    await on.maintenance.tenants.create(first);
    const second = newTenant('second', on.clock.now());
    const invalid = { ...second, key: { ...second.key, ending: null as never } };
    expect(await on.maintenance.tenants.create(invalid).catch(() => 'refused')).toBe('refused');
    const ids = await listed();
    expect([ids.includes(first.id), ids.includes(second.id)]).toEqual([true, false]);
  });

  test('tenants are listed oldest first', async () => {
    const names = ['one', 'two', 'three'];
    const times: string[] = [];
    for (const name of names) {
      on.clock.advance(1);
      times.push(now());
      await on.maintenance.tenants.create(newTenant(name, on.clock.now()));
    }
    const newest = (await on.maintenance.tenants.list()).slice(-3);
    expect(newest.map(({ name }) => name)).toEqual(names);
    expect(newest.map(({ created_at }) => created_at)).toEqual(times);
  });

  test('if several nodes start concurrently on an empty database, one creates the first tenant', async () => {
    const empty = await openTestStore(database);
    const nodes = [empty, await empty.open(), await empty.open()];
    const tenants = Array.from({ length: 9 }, () => newTenant('default', empty.clock.now()));
    const made = await Promise.all(
      tenants.map((tenant, index) => nodes[index % nodes.length]!.maintenance.createFirstTenant(tenant)),
    );
    expect(made.filter(Boolean)).toHaveLength(1);
    const winner = tenants[made.indexOf(true)]!;
    expect((await empty.maintenance.tenants.list()).map(({ id }) => id)).toEqual([winner.id]);
    expect(await empty.store.credentials.find(winner.key)).toBeDefined();
  });

  test('the first tenant is not created if the database has one', async () => {
    await on.maintenance.tenants.create(newTenant('acme', on.clock.now()));
    const before = await listed();
    expect(await on.maintenance.createFirstTenant(newTenant('default', on.clock.now()))).toBe(false);
    expect(await listed()).toEqual(before);
  });

  test('an unknown tenant cannot be renamed, disabled, enabled or deleted', async () => {
    const { tenants } = on.maintenance;
    const nobody = crypto.randomUUID();
    expect(await tenants.get(nobody)).toBeUndefined();
    expect(await tenants.rename(nobody, 'x')).toBe(false);
    expect(await tenants.disable(nobody)).toBe(false);
    expect(await tenants.enable(nobody)).toBe(false);
    expect(await tenants.markDeleted(nobody)).toBe(false);
    expect(await on.maintenance.removeTenantRows(nobody, 10)).toEqual({ removed: 0, done: true });
  });

  test('disabling twice does not change the recorded time, and enabling restores the tenant', async () => {
    const { tenants } = on.maintenance;
    const id = await on.tenant();
    const before = await tenants.get(id);
    expect(await tenants.disable(id)).toBe(true);
    const disabled = await tenants.get(id);
    expect(disabled?.disabled_at).toBe(now());
    on.clock.advance(1000);
    await tenants.disable(id);
    expect(await tenants.get(id)).toEqual(disabled!);
    expect(await tenants.enable(id)).toBe(true);
    expect(await tenants.get(id)).toEqual(before!);
  });

  test('deleting a tenant deletes its data key immediately and cannot be undone', async () => {
    const { tenants } = on.maintenance;
    const id = await on.tenant();
    await on.store.tokens.get(id, 'none');
    const keys = () => on.runSql(`select 1 from data_keys where tenant_id = '${id}'`);
    expect(await keys()).toHaveLength(1);
    expect(await tenants.markDeleted(id)).toBe(true);
    expect(await keys()).toHaveLength(0);
    const { disabled_at, deleted_at } = (await tenants.get(id))!;
    expect([disabled_at, deleted_at]).toEqual([now(), now()]);
    const again = [tenants.enable(id), tenants.disable(id), tenants.rename(id, 'x'), tenants.markDeleted(id)];
    expect(await Promise.all(again)).toEqual([false, false, false, false]);
  });

  test('the rows of a tenant that is not deleted are not removed', async () => {
    const id = await on.tenant();
    const { key } = await on.application(id);
    await on.maintenance.tenants.disable(id);
    expect(await on.maintenance.removeTenantRows(id, 10)).toEqual({ removed: 0, done: true });
    await on.maintenance.tenants.enable(id);
    expect(await on.store.credentials.find(key)).toBeDefined();
  });

  test('the rows of a deleted tenant are removed in batches while running requests add more', async () => {
    const [id, other] = [await on.tenant(), await on.tenant()];
    const web = await on.application(id, { type: 'public' });
    for (let i = 0; i < 25; i++) await on.session(id, web.id);
    for (let i = 0; i < 7; i++) await on.application(id);
    await on.maintenance.tenants.markDeleted(id);
    const late = [
      ...Array.from({ length: 10 }, () => on.session(id, web.id).catch(() => 'too late')),
      ...Array.from({ length: 10 }, () => on.application(id).catch(() => 'too late')),
    ];
    const steps: number[] = [];
    for (let done = false; !done; ) {
      const step = await on.maintenance.removeTenantRows(id, 10);
      steps.push(step.removed);
      done = step.done;
    }
    await Promise.all(late);
    expect(Math.max(...steps)).toBeLessThanOrEqual(10);
    expect(steps.length).toBeGreaterThan(4);
    const ids = await listed();
    expect([ids.includes(id), ids.includes(other)]).toEqual([false, true]);
    for (const table of ['applications', 'sessions', 'application_keys'])
      expect(await on.runSql(`select 1 from ${table} where tenant_id = '${id}'`)).toEqual([]);
  });

  test('rows added after the last batch are removed with the tenant', async () => {
    const id = await on.tenant();
    const { maintenance } = await on.open(undefined, (db) => ({
      ...db,
      transaction: async (work) => {
        await on.application(id);
        return db.transaction(work);
      },
    }));
    await on.maintenance.tenants.markDeleted(id);
    while (!(await maintenance.removeTenantRows(id, 100)).done);
    expect(await on.store.tenants.get(id)).toBeUndefined();
    expect(await on.runSql(`select 1 from application_keys where tenant_id = '${id}'`)).toEqual([]);
  });

  async function gone(nodes: readonly Pick<TestStore, 'store'>[] = []): Promise<string> {
    const id = await on.tenant();
    for (const node of nodes) await node.store.tokens.get(id, 'none');
    await on.maintenance.tenants.markDeleted(id);
    while (!(await on.maintenance.removeTenantRows(id, 100)).done);
    return id;
  }

  test('a request that is running when the tenant is removed fails as unauthenticated', async () => {
    const id = await gone();
    const code = (work: Promise<unknown>) => work.then(() => 'done').catch((error) => error.code);
    expect(await code(on.application(id))).toBe('unauthenticated');
    expect(await code(Promise.resolve(on.store.tokens.get(id, 'none')))).toBe('unauthenticated');
  });

  test('the next sweep removes the data key of a deleted tenant from the cache of every node', async () => {
    const nodes = [on, await on.open()];
    const [id, other] = [await gone(nodes), await on.tenant()];
    for (const { store, maintenance } of nodes) {
      await store.tokens.get(other, 'none');
      expect(await Promise.resolve(store.tokens.get(id, 'none'))).toBeUndefined();
      await maintenance.sweep(10);
      await expect(Promise.resolve(store.tokens.get(id, 'none'))).rejects.toMatchObject({
        code: 'unauthenticated',
      });
      expect(await Promise.resolve(store.tokens.get(other, 'none'))).toBeUndefined();
    }
  });
});
