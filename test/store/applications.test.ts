import { describe, expect, test } from 'bun:test';
import { Rule } from '../../src/domain/rule.ts';
import { databases } from '../support/test-server.ts';
import { newApplication, newSession, openTestStore } from '../support/test-store.ts';

const all = { size: 1000, page: 1 };
const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';

describe.each(databases)('the store on %s: applications', async (_, database) => {
  const on = await openTestStore(database, 8);

  const change = () => ({ by: someone, at: on.clock.now() });

  test('a created application and its key are visible to every node when create resolves', async () => {
    const [tenant, node] = [await on.tenant(), await on.openNode()];
    const rule = Rule.parse({
      priority: 1,
      container: '/pci/',
      transform: 'mask',
      permissions: ['token:read'],
    });
    const application = newApplication(on.clock.now(), {
      name: 'Zoë 🗝 backend',
      permissions: ['token:create', 'invoice:pay'],
      rules: [rule],
      createdBy: someone,
      expiresAt: on.clock.now() + 1000,
    });
    const key = on.mint('pvt', tenant);
    const made = await on.store.applications.create(tenant, application, key);
    expect(made).toEqual({
      id: application.id,
      tenant_id: tenant,
      name: 'Zoë 🗝 backend',
      type: 'private',
      permissions: ['token:create', 'invoice:pay'],
      rules: [rule],
      created_by: someone,
      created_at: new Date(on.clock.now()).toISOString(),
      expires_at: new Date(on.clock.now() + 1000).toISOString(),
    });
    expect(await node.applications.get(tenant, application.id)).toEqual(made);
    expect(await node.credentials.find(key)).toMatchObject({
      kind: 'application',
      tenantId: tenant,
      applicationId: application.id,
      application: made,
      now: on.clock.now(),
    });
  });

  test('an application whose key cannot be stored is not created', async () => {
    const tenant = await on.tenant();
    const taken = await on.application(tenant);
    const second = newApplication(on.clock.now());
    const creating = on.store.applications.create(tenant, second, taken.key);
    expect(await creating.catch(() => 'refused')).toBe('refused');
    expect(await on.store.applications.get(tenant, second.id)).toBeUndefined();
    expect(await on.store.credentials.find(taken.key)).toMatchObject({
      applicationId: taken.id,
    });
  });

  test('each of many concurrent updates on several nodes sees the result of those before it', async () => {
    const [tenant, nodes] = [await on.tenant(), [on.store, await on.openNode(), await on.openNode()]];
    const { id } = await on.application(tenant, { permissions: ['own:first'] });
    const names = Array.from({ length: 15 }, (_, index) => `own:p${String.fromCharCode(97 + index)}`);
    await Promise.all(
      names.map((name, index) =>
        nodes[index % nodes.length]!.applications.update(tenant, id, change(), (current) => ({
          ...current,
          permissions: [...current.permissions, name],
        })),
      ),
    );
    const after = await on.store.applications.get(tenant, id);
    expect(after?.permissions.toSorted()).toEqual(['own:first', ...names].toSorted());
  });

  test('an update replaces the fields, records who and when, and does not change the key', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant);
    const before = await on.store.applications.get(tenant, id);
    on.clock.advance(5);
    const after = await on.store.applications.update(tenant, id, change(), () => ({
      name: 'other',
      permissions: ['token:create'],
      rules: [],
    }));
    expect(after).toEqual({
      ...before!,
      name: 'other',
      permissions: ['token:create'],
      modified_by: someone,
      modified_at: new Date(on.clock.now()).toISOString(),
    });
    expect(await on.store.applications.get(tenant, id)).toEqual(after);
    expect(await on.store.credentials.find(key)).toMatchObject({ application: after! });
  });

  test('an update or regeneration whose callback throws changes nothing', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant);
    const before = await on.store.applications.get(tenant, id);
    const refuse = () => {
      throw new Error('no');
    };
    await expect(on.store.applications.update(tenant, id, change(), refuse)).rejects.toThrow('no');
    await expect(on.store.applications.regenerate(tenant, id, change(), refuse)).rejects.toThrow('no');
    expect(await on.store.applications.get(tenant, id)).toEqual(before);
    expect(await on.store.credentials.find(key)).toBeDefined();
  });

  test('when regenerate resolves, the old key is invalid on every node and the new one works', async () => {
    const [tenant, node] = [await on.tenant(), await on.openNode()];
    const { id, key } = await on.application(tenant);
    const keys = [key, on.mint('pvt', tenant), on.mint('pvt', tenant)];
    for (const [index, next] of keys.entries()) {
      if (index === 0) continue;
      const done = await on.store.applications.regenerate(tenant, id, change(), (current) => {
        expect(current.id).toBe(id);
        return next;
      });
      expect(done?.application).toMatchObject({ id, modified_by: someone });
      expect(done?.key).toBe(next);
      for (const old of keys.slice(0, index)) {
        expect(await node.credentials.find(old)).toBeUndefined();
      }
      expect(await node.credentials.find(next)).toMatchObject({ applicationId: id });
    }
  });

  test('after several concurrent regenerations, exactly one key is valid', async () => {
    const [tenant, nodes] = [await on.tenant(), [on.store, await on.openNode()]];
    const { id } = await on.application(tenant);
    const keys = Array.from({ length: 8 }, () => on.mint('pvt', tenant));
    await Promise.all(
      keys.map((key, index) => nodes[index % 2]!.applications.regenerate(tenant, id, change(), () => key)),
    );
    const found = await Promise.all(keys.map((key) => on.store.credentials.find(key)));
    expect(found.filter(Boolean)).toHaveLength(1);
  });

  test('exactly one of several concurrent deletions returns the application', async () => {
    const [tenant, nodes] = [await on.tenant(), [on.store, await on.openNode()]];
    const { id } = await on.application(tenant);
    const gone = await Promise.all(
      Array.from({ length: 8 }, (_, index) => nodes[index % 2]!.applications.delete(tenant, id)),
    );
    expect(gone.filter(Boolean)).toHaveLength(1);
  });

  test('an application exists until the millisecond before expires_at, and nowhere after', async () => {
    const tenant = await on.tenant();
    const { applications, credentials, sessions } = on.store;
    const { id, key } = await on.application(tenant, { type: 'public', expiresAt: on.clock.now() + 1000 });
    const session = await on.session(tenant, id, { expiresAt: on.clock.now() + 5000 });
    on.clock.advance(999);
    expect(await applications.get(tenant, id)).toBeDefined();
    expect(await credentials.find(key)).toBeDefined();
    expect(await credentials.find(session.key)).toBeDefined();
    on.clock.advance(1);
    const never = () => {
      throw new Error('an expired application was returned');
    };
    expect(await applications.get(tenant, id)).toBeUndefined();
    expect((await applications.list(tenant, {}, all)).rows.map((row) => row.id)).not.toContain(id);
    expect(await applications.list(tenant, { ids: [id] }, all)).toMatchObject({ rows: [], total: 0 });
    expect(await applications.update(tenant, id, change(), never)).toBeUndefined();
    expect(await applications.regenerate(tenant, id, change(), never)).toBeUndefined();
    expect(await applications.delete(tenant, id)).toBeUndefined();
    expect(await credentials.find(key)).toBeUndefined();
    expect(await credentials.find(session.key)).toBeUndefined();
    const late = on.mint('ses', tenant);
    await sessions.create(tenant, newSession(on.clock.now(), id, late, on.mint('non', tenant)));
    expect(await credentials.find(late)).toBeUndefined();
  });

  test('an application of another tenant is not found by any method', async () => {
    const [tenant, other] = [await on.tenant(), await on.tenant()];
    const { applications } = on.store;
    const { id, key } = await on.application(tenant);
    const before = await applications.get(tenant, id);
    const never = () => {
      throw new Error('an application of another tenant was returned');
    };
    expect(await applications.get(other, id)).toBeUndefined();
    expect((await applications.list(other, {}, all)).rows.map((row) => row.id)).not.toContain(id);
    expect(await applications.list(other, { ids: [id] }, all)).toMatchObject({ rows: [], total: 0 });
    expect(await applications.update(other, id, change(), never)).toBeUndefined();
    expect(await applications.regenerate(other, id, change(), never)).toBeUndefined();
    expect(await applications.delete(other, id)).toBeUndefined();
    expect(await applications.get(tenant, id)).toEqual(before);
    expect(await on.store.credentials.find(key)).toMatchObject({ tenantId: tenant });
  });
});
