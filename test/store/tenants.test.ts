import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { newTenant } from '../../src/bootstrap.ts';
import { openStores, type Stores } from '../support/stores.ts';
import { databases } from '../support/world.ts';

describe.each(databases)('the store on %s: tenants', (_, database) => {
  let on: Stores;
  beforeEach(async () => {
    on = await openStores(database);
  });
  afterEach(() => on.close());

  test('a tenant comes with a management Application whose key works', async () => {
    const tenant = newTenant('acme', on.clock.now());
    await on.store.tenants.create(tenant);
    const { key, application } = tenant;
    expect(await on.store.credentials.find('mgt', key.digest)).toMatchObject({
      kind: 'application',
      tenantId: tenant.id,
      applicationId: application.id,
      application: { type: 'management', permissions: application.permissions },
    });
  });

  test('a tenant whose key cannot be stored is not created either', async () => {
    const first = newTenant('first', on.clock.now());
    await on.store.tenants.create(first);
    const second = { ...newTenant('second', on.clock.now()), key: first.key };
    expect(await on.store.tenants.create(second).catch(() => 'refused')).toBe('refused');
    expect((await on.store.tenants.list()).map(({ name }) => name)).toEqual(['first']);
  });

  test('they are listed oldest first', async () => {
    const names = ['one', 'two', 'three'];
    for (const name of names) {
      await on.store.tenants.create(newTenant(name, on.clock.now()));
      on.clock.advance(1);
    }
    const listed = await on.store.tenants.list();
    expect(listed.map(({ name }) => name)).toEqual(names);
    expect(listed[0]!.created_at).toBe('2026-11-15T12:00:00.000Z');
  });

  test('of several nodes that start at once on an empty database, exactly one makes the first tenant', async () => {
    const nodes = [on.store, await on.another(), await on.another()];
    const tenants = Array.from({ length: 9 }, () => newTenant('default', on.clock.now()));
    const made = await Promise.all(
      tenants.map((tenant, index) => nodes[index % nodes.length]!.tenants.createFirst(tenant)),
    );
    expect(made.filter(Boolean)).toHaveLength(1);
    const winner = tenants[made.indexOf(true)]!;
    expect((await on.store.tenants.list()).map(({ id }) => id)).toEqual([winner.id]);
    expect(await on.store.credentials.find('mgt', winner.key.digest)).toBeDefined();
  });

  test('where there is a tenant already, none is the first', async () => {
    await on.store.tenants.create(newTenant('acme', on.clock.now()));
    expect(await on.store.tenants.createFirst(newTenant('default', on.clock.now()))).toBe(false);
    expect(await on.store.tenants.list()).toHaveLength(1);
  });
});
