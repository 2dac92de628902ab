import { expect, test } from 'bun:test';
import { compilePolicy } from '../../../src/domain/policy.ts';
import type { Principal } from '../../../src/domain/principal.ts';
import { storedInterval, totalOf } from '../../../src/domain/request-counts.ts';
import { type RequestCounter, requestCounter } from '../../../src/http/pipeline/request-counter.ts';
import type { CountedInterval, RequestCounts } from '../../../src/store/store.ts';
import { principalBase } from '../../support/grants.ts';

const principal = (tenantId: string, now: number): Principal => ({
  ...principalBase,
  kind: 'session',
  tenantId,
  applicationId: 'web',
  sessionId: 'session',
  authorizedBy: undefined,
  policy: compilePolicy({ permissions: [], rules: [] }),
  ceiling: undefined,
  now,
});

/** Records what is written. `fail` decides about each batch. */
function opened(fail: (batch: number) => boolean = () => false) {
  const written: CountedInterval[] = [];
  let batch = 0;
  const add: RequestCounts['add'] = async (intervals) => {
    if (fail(batch++)) throw new Error('the database is unreachable');
    written.push(...intervals);
  };
  const list: RequestCounts['list'] = async () => ({ start: 0, length: 1, end: 1, counts: [] });
  return { counter: requestCounter({ requestCounts: { add, list } }), written };
}

const countAll = (counter: RequestCounter, tenants: number) => {
  for (let at = 0; at < tenants; at++) counter.count(principal(`tenant-${at}`, 1000), 200, 1);
};

test('requests are counted by tenant and interval, also if the clock is set back', async () => {
  const { counter, written } = opened();
  const last = storedInterval - 1;
  for (const now of [0, last, storedInterval, last]) counter.count(principal('a', now), 200, 1);
  counter.count(principal('b', 7), 403, 1);
  await counter.flush();
  expect(written.map((each) => [each.tenantId, each.start, totalOf(each), each.denied])).toEqual([
    ['a', 0, 3, 0],
    ['a', storedInterval, 1, 0],
    ['b', 0, 1, 1],
  ]);
  await counter.flush();
  expect(written).toHaveLength(3);
});

test('a failed flush loses nothing, writes no batch twice, and does not stop the batches of other tenants', async () => {
  const { counter, written } = opened((batch) => batch === 1);
  countAll(counter, 250);
  const flushed = counter.flush();
  countAll(counter, 1);
  await expect(flushed).rejects.toThrow('the database is unreachable');
  expect(written).toHaveLength(249);
  counter.count(principal('tenant-1', 1000), 403, 9999);
  await counter.flush();
  const requests = written.reduce((sum, each) => sum + totalOf(each), 0);
  expect([written.length, requests]).toEqual([251, 252]);
  expect(written.find(({ tenantId }) => tenantId === 'tenant-1')?.denied).toBe(1);
});

test('the number of intervals in memory is bounded', async () => {
  const { counter, written } = opened();
  countAll(counter, 30_000);
  await counter.flush();
  expect(written).toHaveLength(20_000);
  countAll(counter, 1);
  await counter.flush();
  expect(written).toHaveLength(20_001);
});
