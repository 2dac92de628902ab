import { describe, expect, test } from 'bun:test';
import type { Maintenance } from '../../src/store/maintenance.ts';
import { unknownKey } from '../support/keys.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const day = 86_400_000;

describe.each(databases)('key.expiring on %s', async (_, database) => {
  const data = await openTestStore(database);
  const nodes: Maintenance[] = [data.maintenance, (await data.open()).maintenance];

  /** Runs the job on two nodes at the same time, and returns what the audit log of the tenant has. */
  async function notices(tenant: string) {
    await Promise.all(nodes.map((node) => node.writeExpiryNotices(100)));
    const { entries } = await data.maintenance.audit.list(
      tenant,
      { operation: 'key.expiring' },
      { limit: 100 },
    );
    return entries.map(({ entity, difference, actor }) => ({ entity, difference, actor })).reverse();
  }

  const rows = (table: string, tenant: string) =>
    data.runSql(`select * from ${table} where tenant_id = '${tenant}'`);
  const noticeOf = (id: string, expiresAt: number) => ({
    actor: { kind: 'operator' as const },
    entity: { kind: 'application', id },
    difference: { expires_at: { to: new Date(expiresAt).toISOString() } },
  });

  test('is written 7 days and 1 day before, once each, also by several nodes', async () => {
    const tenant = await data.tenant();
    const expiresAt = data.clock.now() + 10 * day;
    const { id } = await data.application(tenant, { expiresAt });
    await data.application(tenant);
    expect(await notices(tenant)).toEqual([]);
    data.clock.advance(3 * day - 1);
    expect(await notices(tenant)).toEqual([]);
    data.clock.advance(1);
    expect(await notices(tenant)).toEqual([noticeOf(id, expiresAt)]);
    data.clock.advance(6 * day - 1);
    expect(await notices(tenant)).toHaveLength(1);
    data.clock.advance(1);
    expect(await notices(tenant)).toEqual([noticeOf(id, expiresAt), noticeOf(id, expiresAt)]);
    data.clock.advance(day);
    expect(await notices(tenant)).toHaveLength(2);
  });

  test('is written once if both times have passed, and again for a later expiry time', async () => {
    const tenant = await data.tenant();
    const expiresAt = data.clock.now() + 10 * day;
    const { id } = await data.application(tenant, { expiresAt });
    data.clock.advance(9.5 * day);
    expect(await notices(tenant)).toEqual([noticeOf(id, expiresAt)]);
    const later = expiresAt + 5 * day;
    await data.runSql(`update applications set expires_at = ${later} where id = '${id}'`);
    expect(await notices(tenant)).toEqual([noticeOf(id, expiresAt), noticeOf(id, later)]);
  });

  test('is written for a key that expires before its application, once per expiry time', async () => {
    const tenant = await data.tenant();
    const now = data.clock.now();
    const { id } = await data.application(tenant, { expiresAt: now + 100 * day });
    const add = async (expiresAt: number) => {
      const by = { by: crypto.randomUUID(), at: now };
      return (await data.store.keys.create(tenant, id, by, () => unknownKey('pvt'), { expiresAt }))!.created;
    };
    const { id: key, ending } = await add(now + 10 * day);
    await add(now + 100 * day);
    const notice = (expiresAt: number) => ({
      ...noticeOf(id, expiresAt),
      difference: {
        keys: { from: { id: key, ending } },
        expires_at: { to: new Date(expiresAt).toISOString() },
      },
    });
    data.clock.advance(3 * day - 1);
    expect(await notices(tenant)).toEqual([]);
    data.clock.advance(1);
    expect(await notices(tenant)).toEqual([notice(now + 10 * day)]);
    expect(await notices(tenant)).toHaveLength(1);
    await data.runSql(`update application_keys set expires_at = ${now + 9 * day} where id = '${key}'`);
    expect(await notices(tenant)).toEqual([notice(now + 10 * day), notice(now + 9 * day)]);
    data.clock.advance(6 * day);
    await data.maintenance.sweep(100);
    expect(await rows('key_expiry_notices', tenant)).toEqual([]);
  });

  test('is not written for applications that live for less than the notice, or of deleted tenants', async () => {
    const [tenant, deleted] = [await data.tenant(), await data.tenant()];
    const now = data.clock.now();
    const { id } = await data.application(tenant, { expiresAt: now + 2 * day });
    await data.application(tenant, { expiresAt: now + day / 2 });
    await data.application(deleted, { expiresAt: now + 10 * day });
    await data.maintenance.tenants.markDeleted(deleted);
    expect(await notices(tenant)).toEqual([]);
    data.clock.advance(1.5 * day);
    expect(await notices(tenant)).toEqual([noticeOf(id, now + 2 * day)]);
    data.clock.advance(8 * day);
    expect(await notices(deleted)).toEqual([]);
    expect(await rows('expiry_notices', tenant)).toHaveLength(1);
    expect(await rows('expiry_notices', deleted)).toEqual([]);
  });
});
