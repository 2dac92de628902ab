/** Counting entries of the audit log by result and time. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { countDenials, countEntries } from '../../src/audit/log/count.ts';
import { maxExamined } from '../../src/audit/log/search.ts';
import type { Db } from '../../src/db/db.ts';
import type { RunSteps } from '../../src/domain/steps.ts';
import type { CountFilter, LogCounts, NewEntry, Store } from '../../src/store/store.ts';
import { plansOf, recorder, rowsVisited } from '../support/statement-recorder.ts';
import { databases, startTime, testMasterKey } from '../support/test-server.ts';
import { masterKeys, openTestStore, type TestStore } from '../support/test-store.ts';

const minute = 60_000;
const actors = [1, 2, 3].map((number) => `01900000-0000-7000-8000-00000000000${number}`);
const operations = ['token.read', 'token.update', 'application.update'];
const count = 5000;
const limits = { entries: 5000, segments: 1000, opened: 100, pending: maxExamined };
const step = 977;
const end = startTime + count * step;

/** Entries in the order in which they are chained. Some are up to two minutes older than the ones before them. */
const entryAt = (tenantId: string, number: number): NewEntry => ({
  tenantId,
  at: startTime + number * step - (number % 7 === 0 ? (number * 7919) % (2 * minute) : 0),
  actor: {
    kind: 'application',
    id: actors[number % 3] as string,
    application_id: actors[number % 3] as string,
  },
  operation: operations[number % 2 === 0 ? 0 : 1 + (number % 3 === 0 ? 1 : 0)] as string,
  resource: { ids: [`token-${number % 40}`], container: number % 4 === 0 ? '/pci/high/' : '/general/' },
  result: number % 9 === 0 ? 'denied' : 'success',
  ...(number % 9 === 0 && number % 2 === 0 && { count: 1 + (number % 5) }),
  from: {},
});

const filters: [name: string, filter: CountFilter][] = [
  ['no filter', {}],
  ['a start', { from: startTime + 1000 * step }],
  ['an end', { to: startTime + 3000 * step }],
  ['a period between two intervals', { from: startTime + 1234 * step + 5, to: startTime + 1240 * step }],
  ['a period before the first entry', { from: startTime - 100 * minute, to: startTime - 50 * minute }],
  ['a result', { result: 'denied', from: startTime }],
  ['successes', { result: 'success', from: startTime + 700 * step }],
  ['a result that never occurs', { result: 'failed' }],
  ['an actor and an operation', { actor: actors[0] as string, operation: 'token.update' }],
  ['a container and a result', { container: '/pci/', result: 'denied' }],
  ['a token', { token: 'token-7', from: startTime + 90 * step, to: end - 1 }],
  ['an operation that never occurs', { operation: 'session.create' }],
];

describe.each(databases)('counting the audit log on %s', (name, database) => {
  const statements = recorder();
  let on: TestStore;
  let watched: Store;
  let db: Db;
  let tenant: string;
  let entries: NewEntry[];

  beforeAll(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    entries = Array.from({ length: count }, (_, number) => entryAt(tenant, number));
    // The last entries are pending. Segments have different sizes.
    for (const [start, end] of [
      [0, 10],
      [10, 700],
      [700, 4900],
    ]) {
      await on.store.audit.write(entries.slice(start, end));
      await on.maintenance.audit.seal();
    }
    await on.store.audit.write(entries.slice(4900));
    if (name === 'PostgreSQL') await on.runSql('analyze');
    watched = await on.openNode(masterKeys(testMasterKey), (opened) => {
      db = opened;
      return statements.through(opened);
    });
  });

  const expected = (filter: CountFilter, { start, length, counts }: LogCounts, of = entries) => {
    const all = counts.map(() => ({ success: 0, denied: 0, failed: 0 }));
    for (const { at, actor, operation, resource, result } of of) {
      if (at < (filter.from ?? 0) || at >= (filter.to ?? Number.POSITIVE_INFINITY)) continue;
      if (filter.result && filter.result !== result) continue;
      if (filter.actor && filter.actor !== actor.id) continue;
      if (filter.operation && filter.operation !== operation) continue;
      if (filter.container && !resource?.container?.startsWith(filter.container)) continue;
      if (filter.token && !resource?.ids?.includes(filter.token)) continue;
      const interval = all[Math.min(Math.max(0, Math.floor((at - start) / length)), all.length - 1)];
      if (interval) interval[result]++;
    }
    return all;
  };

  test.each(filters)('with %s agrees with a count of all entries', async (_, filter) => {
    const counts = await on.store.audit.count(tenant, filter, end);
    expect(counts.counts as unknown).toEqual(expected(filter, counts));
    expect([counts.countedFrom, counts.end]).toEqual([undefined, filter.to ?? end]);
    expect(counts.start).toBeLessThanOrEqual(filter.from ?? startTime);
  });

  test.each(filters)('the denials with %s agree with the events of all entries', async (_, filter) => {
    const counts = await on.store.audit.count(tenant, filter, end, true);
    const [denials, applications] = [counts.counts.map(() => 0), new Map<string, number>()];
    for (const entry of entries) {
      const alone = expected(filter, counts, [entry]);
      const interval = alone.findIndex(({ denied }) => denied > 0);
      if (interval < 0) continue;
      const { actor, count = 1 } = entry;
      denials[interval]! += count;
      applications.set(actor.id as string, (applications.get(actor.id as string) ?? 0) + count);
    }
    expect(counts.denials?.counts as unknown).toEqual(denials);
    expect(counts.denials?.countedFrom).toBeUndefined();
    const found = counts.denials?.applications ?? [];
    expect(new Map(found.map(({ id, denials }) => [id, denials]))).toEqual(applications);
    expect(found.map(({ denials }) => denials)).toEqual([...applications.values()].sort((a, b) => b - a));
  });

  test('denials before the end of the budget are left out, and the result says so', async () => {
    const counts = await on.store.audit.count(tenant, {}, end, true);
    const some = await countDenials(db, tenant, {}, counts, 1000);
    const total = (list: readonly number[] = []) => list.reduce((sum, each) => sum + each, 0);
    expect(some.countedFrom).toBeGreaterThan(startTime);
    expect(total(some.counts)).toBeGreaterThan(0);
    expect(total(some.counts)).toBeLessThan(total(counts.denials?.counts));
  });

  test('a log without entries has no counts', async () => {
    const { counts } = await on.store.audit.count(await on.tenant(), {}, end);
    expect(counts.every(({ success, denied }) => success + denied === 0)).toBe(true);
  });

  test.each([
    ['entries', { entries: 2048 }],
    ['segments', { segments: 3 }],
  ])('counts only the newest %s of a long log, and says since when', async (_, fewer) => {
    const { counts, countedFrom = 0 } = await countEntries(db, tenant, {}, end, { ...limits, ...fewer });
    const sum = counts.reduce((total, { success, denied }) => total + success + denied, 0);
    expect(sum).toBeLessThan(3000);
    const sure = entries.filter(({ at }) => at > countedFrom).length;
    expect(sure).toBeLessThanOrEqual(sum);
    expect(sure).toBeGreaterThan(1000);
  });

  test('can pause at every statement, row of the index, pending entry, segment and chunk, and reserves the pending entries', async () => {
    let [steps, reserved] = [0, 0];
    const run: RunSteps = async (computation) => {
      for (let step = computation.next(); ; step = computation.next()) {
        if (step.done) return step.value;
        steps++;
      }
    };
    const reserve = (bytes: number) => {
      reserved += bytes;
    };
    const counted = async (isWithDenials: boolean) => {
      [steps, reserved] = [0, 0];
      statements.take();
      const filter = { operation: 'token.read', from: startTime };
      const { denials } = await watched.audit.count(tenant, filter, end, isWithDenials, { run, reserve });
      const sent = statements.take();
      expect(Math.max(...sent.map(({ rows }) => rows))).toBeLessThanOrEqual(250);
      expect(reserved).toBeGreaterThan(100 * 200);
      // Each statement is a step, except the two for the gaps.
      return { steps: steps - (sent.length - 2), denied: denials?.applications[0] };
    };
    // The times of the first segment are within one interval, so it is not decompressed.
    const [pending, segments, chunks] = [100, 7, 39];
    // One for the operation, and one for a result other than success.
    const rows = 2 * segments;
    const { steps: without } = await counted(false);
    expect(without).toBe(pending + rows + segments + chunks);
    const { steps: withDenials, denied } = await counted(true);
    expect(denied).toBeDefined();
    // Half of the entries are reads, and a ninth of these is denied.
    expect(withDenials - without).toBeGreaterThanOrEqual(pending + segments + Math.floor(4900 / 18));
  });

  test('counts only the newest of very many pending entries, and says since when', async () => {
    const busy = await on.tenant();
    const start = end + 60 * minute;
    const many = Array.from({ length: maxExamined + 100 }, (_, number) => ({
      ...entryAt(busy, 9),
      at: start + number,
    }));
    await on.store.audit.write(many.slice(0, 10));
    await on.maintenance.audit.seal();
    await on.store.audit.write(many.slice(10));
    const oldest = start + 100;
    const countFrom = async (filter: CountFilter, pending = maxExamined) => {
      const counted = await countEntries(db, busy, filter, start + 9999, { ...limits, pending });
      const denials = await countDenials(db, busy, filter, counted, undefined, pending);
      const total = counted.counts.reduce((sum, { denied }) => sum + denied, 0);
      expect(denials.counts.reduce((sum, each) => sum + each, 0)).toBe(total);
      expect(denials.countedFrom).toBe(counted.countedFrom);
      return [total, counted.countedFrom];
    };
    expect(await countFrom({})).toEqual([maxExamined, oldest]);
    expect(await countFrom({ from: oldest })).toEqual([maxExamined, undefined]);
    // Sealed entries of a period that ends before the pending ones that were not read.
    expect(await countFrom({ to: start + 10 })).toEqual([10, undefined]);
    expect(await countFrom({}, 2 * maxExamined)).toEqual([many.length, undefined]);
    await on.maintenance.audit.seal();
    expect(await countFrom({})).toEqual([many.length, undefined]);
  });

  test('segments that are not decompressed count in the interval of their end', async () => {
    const { counts } = await countEntries(db, tenant, {}, end, { ...limits, opened: 0 });
    expect(counts.reduce((total, { success, denied }) => total + success + denied, 0)).toBe(count);
  });

  test('reads far fewer rows than entries, all through an index', async () => {
    statements.take();
    await watched.audit.count(
      tenant,
      { operation: 'token.read', from: startTime + 2400 * step, to: startTime + 2600 * step },
      end,
    );
    const sent = statements.take();
    if (name === 'SQLite')
      for (const each of plansOf(on.url, sent, end)) expect(each).toMatch(/^SEARCH .* USING /);
    else expect(await rowsVisited(on.url, sent, end)).toBeLessThan(300);
    expect(sent.reduce((sum, { rows }) => sum + rows, 0)).toBeLessThan(300);
  });
});
