/** The first page of a search says which entries may be missing. */

import { describe, expect, test } from 'bun:test';
import type { AuditedReads } from '../../src/domain/audit.ts';
import { recordAuditedReads } from '../../src/operations/bootstrap.ts';
import { entry } from '../support/audit-export.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const hour = 3_600_000;
const time = (hours: number) => startTime + hours * hour;
const iso = (hours: number) => new Date(time(hours)).toISOString();

describe.each(databases)('gaps in the audit log on %s', async (_, database) => {
  const folder = temporaryFolder();
  const testStore = await openTestStore(database);
  const [tenant, other] = [await testStore.tenant(), await testStore.tenant()];
  const { maintenance, store } = testStore;
  for (const [at, reads] of [
    [0, 'reveal'],
    [10, 'off'],
    [20, 'all'],
  ] as [number, AuditedReads][])
    await recordAuditedReads(maintenance, reads, time(at));
  const at = (hours: number) => ({ ...entry(hours, tenant), at: time(hours) });
  for (const hours of [1, 5, 12, 30]) {
    await store.audit.write([at(hours)]);
    await maintenance.audit.seal();
  }
  await maintenance.audit.archive({ folder, now: time(40), before: time(6), tenantId: tenant });
  await maintenance.audit.seal();

  const gaps = async (filter = {}, window = {}, of = tenant) =>
    (await testStore.store.audit.list(of, filter, { limit: 10, ...window })).gaps;

  const archived = { reason: 'archived', to: iso(12) };
  const off = { reason: 'reads_not_recorded', from: iso(10), to: iso(20) };
  const masked = { reason: 'reads_not_recorded', from: iso(0), to: iso(10), transforms: ['redact', 'mask'] };

  test('are archived entries, and reads that were not recorded', async () => {
    expect(await gaps()).toEqual([
      archived,
      masked,
      { ...off, transforms: ['redact', 'mask', 'reveal'] },
    ] as never);
  });

  test('are also returned with counts', async () => {
    const counted = await testStore.store.audit.count(tenant, { operation: 'token.delete' }, time(40));
    expect(counted.gaps).toEqual([archived] as never);
    const { gaps: none } = await testStore.store.audit.count(tenant, { from: time(20) }, time(40));
    expect(none).toEqual([]);
  });

  test('are those of the transform that the filter asks for', async () => {
    expect(await gaps({ transform: 'reveal' }, {}, other)).toEqual([
      { ...off, transforms: ['reveal'] },
    ] as never);
  });

  test.each([{ operation: 'token.delete' }, { result: 'denied' }, { entity: 'card-1' }])(
    'do not include reads if the filter %p excludes them',
    async (filter) => {
      expect(await gaps(filter)).toEqual([archived] as never);
    },
  );

  test('are those in the period of the filter', async () => {
    expect(await gaps({ from: time(20) })).toEqual([]);
    expect(await gaps({ from: time(19), transform: 'reveal' })).toMatchObject([off]);
    expect(await gaps({ to: time(10) })).toEqual([archived, masked] as never);
    expect(await gaps({ from: time(11), to: time(12), operation: 'token.delete' })).toEqual([
      archived,
    ] as never);
  });

  test('are not repeated on further pages', async () => {
    const { next } = await testStore.store.audit.list(tenant, {}, { limit: 1 });
    expect(await gaps({}, { before: next })).toBeUndefined();
    expect(await gaps({}, { after: next })).toBeUndefined();
  });
});
