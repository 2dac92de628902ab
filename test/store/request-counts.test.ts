import { beforeEach, describe, expect, test } from 'bun:test';
import { durationLimits, storedInterval, totalOf } from '../../src/domain/request-counts.ts';
import type { CountedInterval } from '../../src/store/store.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const buckets = durationLimits.length + 1;
const day = 86_400_000;

/** `requests` in the first bucket and one in the last. */
function counted(tenantId: string, start: number, requests: number, denied = 0): CountedInterval {
  const durations = Array(buckets).fill(0);
  durations[0] = requests;
  durations[buckets - 1] = 1;
  return { tenantId, start, denied, durations };
}

describe.each(databases)('the store on %s: request counts', async (_, database) => {
  const on = await openTestStore(database);
  beforeEach(async () => {
    on.clock.jump(startTime - on.clock.now());
    await on.runSql('delete from request_counts');
  });

  const list = async (tenant: string, from?: number, to?: number) => {
    const { counts, ...rest } = await on.store.requestCounts.list(tenant, { from, to }, on.clock.now());
    return { ...rest, counts: counts.map((each) => [totalOf(each), each.denied]) };
  };
  const rows = () => on.runSql('select 1 as one from request_counts');

  test('concurrent writes of several nodes add up, in any order of tenants', async () => {
    const tenants = [await on.tenant(), await on.tenant(), await on.tenant()];
    const nodes = [on.store, await on.openNode(), await on.openNode()];
    const intervals = tenants.map((tenant) => counted(tenant, startTime, 5, 2));
    const rounds = 5;
    for (let round = 0; round < rounds; round++)
      await Promise.all(
        nodes.map((node, at) => node.requestCounts.add(at % 2 === 0 ? intervals : intervals.toReversed())),
      );
    for (const tenant of tenants) {
      const { counts } = await on.store.requestCounts.list(tenant, { from: startTime }, on.clock.now());
      const durations = Array(buckets).fill(0);
      durations[0] = 5 * rounds * nodes.length;
      durations[buckets - 1] = rounds * nodes.length;
      expect(counts).toEqual([{ denied: 2 * rounds * nodes.length, durations }]);
    }
  });

  test('counts of deleted tenants are dropped, and the rest is written', async () => {
    const [gone, stays] = [crypto.randomUUID(), await on.tenant()];
    await on.store.requestCounts.add([counted(gone, startTime, 1), counted(stays, startTime, 1)]);
    await on.store.requestCounts.add([]);
    expect(await rows()).toHaveLength(1);
    expect((await list(stays)).counts).toEqual([[2, 0]]);
  });

  test('stored intervals are added up to longer ones, only of the tenant and the period', async () => {
    const [tenant, other] = [await on.tenant(), await on.tenant()];
    const starts = [0, 1, 11, 12, 30].map((index) => startTime + index * storedInterval);
    await on.store.requestCounts.add(starts.map((start, at) => counted(tenant, start, at, at)));
    await on.store.requestCounts.add([counted(other, startTime, 100)]);
    on.clock.advance(3 * 3_600_000);
    expect(await list(tenant, startTime, startTime + 2 * storedInterval)).toEqual({
      start: startTime,
      length: storedInterval,
      end: startTime + 2 * storedInterval,
      counts: [
        [1, 0],
        [2, 1],
      ],
    });
    const hours = await list(tenant, startTime - day);
    expect([hours.start, hours.length, hours.counts.length]).toEqual([startTime - day, 3_600_000, 28]);
    expect(hours.counts.slice(-4)).toEqual([
      [1 + 2 + 3, 3],
      [4, 3],
      [5, 4],
      [0, 0],
    ]);
    // The first interval contains `from`, the last one starts before `to`. Both count completely.
    const start = await list(tenant, startTime, startTime + 6 * 60_000);
    expect([start.end, start.counts]).toEqual([
      startTime + 6 * 60_000,
      [
        [1, 0],
        [2, 1],
      ],
    ]);
    const part = await list(tenant, startTime + 6 * 60_000, startTime + 12 * storedInterval);
    expect(part.counts.reduce((sum, [requests]) => sum + (requests ?? 0), 0)).toBe(2 + 3);
  });

  test('without a period starts at the first count, and ends now', async () => {
    const tenant = await on.tenant();
    expect((await list(tenant)).counts).toEqual([[0, 0]]);
    await on.store.requestCounts.add([counted(tenant, startTime, 3)]);
    expect((await list(tenant)).counts).toEqual([[4, 0]]);
    on.clock.advance(storedInterval);
    expect(await list(tenant)).toMatchObject({
      start: startTime,
      counts: [
        [4, 0],
        [0, 0],
      ],
    });
  });

  test('the sweep removes counts after 30 days, in batches', async () => {
    const tenant = await on.tenant();
    const starts = [0, 1, 2, 3, 4].map((index) => startTime + index * storedInterval);
    await on.store.requestCounts.add(starts.map((start) => counted(tenant, start, 1)));
    on.clock.advance(30 * day - 1);
    expect(await on.maintenance.sweep(10)).toBe(0);
    on.clock.advance(1 + 3 * storedInterval);
    expect(await on.maintenance.sweep(3)).toBe(3);
    expect(await on.maintenance.sweep(3)).toBe(1);
    expect(await on.maintenance.sweep(3)).toBe(0);
    expect(await on.runSql<{ started_at: unknown }>('select started_at from request_counts')).toEqual([
      { started_at: expect.anything() },
    ]);
    expect((await list(tenant, starts[4] as number, (starts[4] as number) + 1)).counts).toEqual([[2, 0]]);
  });
});
