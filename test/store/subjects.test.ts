/** The contract of `Subjects`, beyond what access reviews and AuthZEN requests check. */
import { describe, expect, test } from 'bun:test';
import { newId } from '../../src/domain/key.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const maxId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

describe.each(databases)('subjects on %s', async (_, database) => {
  const on = await openTestStore(database);

  test('a scan reads batches newest first, and counts rows that it leaves out', async () => {
    const tenant = await on.tenant();
    const ids = [];
    for (const name of ['a', 'b', 'b', 'c', 'd']) {
      const permissions = name === 'c' ? ['token:create'] : ['token:read'];
      ids.push(
        (await on.application(tenant, { id: newId(on.clock.now()), name, permissions, rules: [] })).id,
      );
    }
    const scan = async (before: string, uniqueNames = false) => {
      const options = { permission: 'token:read', before, limit: 3, uniqueNames };
      const batch = await on.store.subjects.scan(tenant, 'application', options);
      return { ...batch, subjects: batch.subjects.map(({ id }) => id) };
    };
    const [a, firstB, secondB, , d] = ids as [string, string, string, string, string];
    const first = await scan(maxId);
    expect(first).toMatchObject({ subjects: [d, secondB], examined: 3, next: secondB });
    // The management application of the tenant is the oldest.
    const second = await scan(secondB);
    expect(second.subjects.slice(0, 2)).toEqual([firstB, a]);
    expect((await scan(maxId, true)).subjects).toEqual([d]);
    expect((await scan(secondB, true)).subjects[0]).toBe(a);
    const end = await scan(firstB);
    expect([end.next, end.examined]).toEqual([undefined, end.subjects.length]);
  });

  test('the last use counts for the permission, in the container, below and above', async () => {
    const tenant = await on.tenant();
    const { id } = await on.application(tenant);
    const { id: unused } = await on.application(tenant);
    const at = on.clock.now();
    const uses = new Map([
      ['/cards/', at - 3],
      ['/cards/42/', at - 2],
      ['/cards-other/', at - 1],
    ]);
    const permissions = new Map([
      ['token:read', uses],
      ['token:create', new Map([['/cards/', at]])],
    ]);
    await on.store.usage.write([{ tenantId: tenant, applicationId: id, at, keys: new Map(), permissions }]);
    const lastUse = async (container: string) =>
      Object.fromEntries(await on.store.subjects.lastUses(tenant, [id, unused], 'token:read', container));
    const time = (earlier: number) => new Date(at - earlier).toISOString();
    expect(await lastUse('/cards/')).toEqual({ [id]: time(2) });
    expect(await lastUse('/cards/42/')).toEqual({ [id]: time(2) });
    expect(await lastUse('/')).toEqual({ [id]: time(1) });
    expect(await lastUse('/cards/43/')).toEqual({ [id]: time(3) });
    expect(await lastUse('/card/')).toEqual({});
  });
});
