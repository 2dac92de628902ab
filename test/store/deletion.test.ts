/** The cost of deleting an application does not depend on its number of sessions. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases } from '../support/test-server.ts';
import { grants, newSession, openTestStore } from '../support/test-store.ts';

const someone = '01900000-0000-7000-8000-000000000001';

describe.each(databases)('the store on %s: an application with many sessions', async (_, database) => {
  let tenant: string;
  const on = await openTestStore(database);
  beforeEach(async () => {
    while ((await on.maintenance.sweep(1000)) > 0);
    tenant = await on.tenant();
  });

  const rows = async (table: string, application: string) => {
    const column = table === 'applications' ? 'id' : 'application_id';
    return (await on.runSql(`select 1 from ${table} where ${column} = '${application}'`)).length;
  };

  async function crowded(count: number, fields = {}) {
    const { id, key } = await on.application(tenant, { type: 'public', ...fields });
    const sessions = [];
    for (let made = 0; made < count; made++) sessions.push(await on.session(tenant, id));
    return { id, key, sessions };
  }

  test('deleting it invalidates its keys and sessions immediately, and the sweep removes the rows', async () => {
    const { id, key, sessions } = await crowded(7);
    const other = await crowded(1);
    const node = await on.openNode();
    expect((await on.store.applications.delete(tenant, id))?.id).toBe(id);
    expect(await node.credentials.find(other.sessions[0]!.key)).toBeDefined();
    expect(await rows('sessions', id)).toBe(7);
    expect(await rows('application_keys', id)).toBe(0);
    expect(await node.credentials.find(key)).toBeUndefined();
    for (const { id: session, key, nonce } of sessions) {
      expect(await node.credentials.find(key)).toBeUndefined();
      const authorization = {
        ...grants,
        by: someone,
        ceiling: undefined,
        expiresAt: undefined,
        maxLifetime: 9e9,
      };
      expect(await node.sessions.authorize(tenant, nonce.digest, authorization)).toEqual({
        outcome: 'unknown',
      });
      expect(await node.sessions.end(tenant, session)).toBeUndefined();
    }
    const window = { size: 9, page: 1, before: undefined };
    expect(await node.sessions.list(tenant, { application: id }, window)).toMatchObject({
      rows: [],
      total: 0,
    });
    expect(await node.sessions.list(tenant, {}, window)).toMatchObject({ total: 1 });
    expect(await node.applications.get(tenant, id)).toBeUndefined();
    expect(await node.keys.list(tenant, id)).toEqual([]);
    expect(await node.applications.delete(tenant, id)).toBeUndefined();
  });

  test('the sweep removes them in batches, on any node, and the application last', async () => {
    const { id } = await crowded(7);
    const kept = await crowded(2);
    await on.store.applications.delete(tenant, id);
    const left: number[][] = [];
    for (const { maintenance } of [on, await on.open(), await on.open()]) {
      expect(await maintenance.sweep(3)).toBeLessThanOrEqual(3);
      left.push([await rows('sessions', id), await rows('applications', id)]);
    }
    expect(left).toEqual([
      [4, 1],
      [1, 1],
      [0, 0],
    ]);
    expect(await rows('application_keys', id)).toBe(0);
    expect(await rows('sessions', kept.id)).toBe(2);
    expect(await on.store.credentials.find(kept.key)).toBeDefined();
  });

  test('the sweep removes those of an expired application in batches', async () => {
    const { id } = await crowded(5, { expiresAt: on.clock.now() + 1000 });
    on.clock.advance(1000);
    await on.maintenance.sweep(3);
    expect([await rows('sessions', id), await rows('applications', id)]).toEqual([2, 1]);
    await on.maintenance.sweep(3);
    expect([await rows('sessions', id), await rows('applications', id)]).toEqual([0, 0]);
  });

  test('a session that is created while its application is deleted never works and is swept', async () => {
    const { id } = await crowded(0);
    await on.store.applications.delete(tenant, id);
    const key = on.mint('ses', tenant);
    await Promise.try(() =>
      on.store.sessions.create(tenant, newSession(on.clock.now(), id, key, on.mint('non', tenant))),
    );
    expect(await on.store.credentials.find(key)).toBeUndefined();
    await on.maintenance.sweep(10);
    expect([await rows('sessions', id), await rows('applications', id)]).toEqual([0, 0]);
  });
});
