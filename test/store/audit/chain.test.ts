/** Moving entries into the hash chains of their tenants. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { headsOperation, type LogEntry } from '../../../src/domain/audit.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { exportOf, verify } from '../../support/audit-export.ts';
import { databases, postgres, sqlite, startTime } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

function entry(operation: string, tenantId: string | undefined, at = startTime): NewEntry {
  return {
    actor: { kind: 'operator' },
    operation,
    result: 'success',
    from: {},
    at,
    ...(tenantId && { tenantId }),
  };
}

const entries = (count: number, tenantId: string | undefined, name = 'x') =>
  Array.from({ length: count }, (_, number) => entry(`${name}${number}`, tenantId));

describe.each(databases)('the hash chains of the audit log on %s', (_, database) => {
  let on: TestStore;
  beforeAll(async () => {
    on = await openTestStore(database);
  });
  afterAll(() => on.close());

  const chainAll = async () => {
    while ((await on.maintenance.audit.append(500)) > 0);
  };
  const headOf = async (tenant: string | undefined) =>
    (await on.maintenance.audit.heads()).find(({ tenantId }) => tenantId === tenant);
  const operationsOf = async (tenant: string | undefined, after = 0) =>
    (await on.maintenance.audit.range(tenant, { after }, 1000)).entries.map(({ operation }) => operation);

  test('each tenant has its own chain, in order of arrival, and entries without a tenant have one', async () => {
    const [a, b] = [await on.tenant(), await on.tenant()];
    const before = (await headOf(undefined))?.seq ?? 0;
    await on.store.audit.write([entry('a1', a), entry('b1', b, startTime - 5000), entry('s1', undefined)]);
    await on.store.audit.write([entry('b2', b), entry('a2', a, startTime - 9000)]);
    await chainAll();
    expect([await operationsOf(a), await operationsOf(b)]).toEqual([
      ['a1', 'a2'],
      ['b1', 'b2'],
    ]);
    expect(await operationsOf(undefined, before)).toEqual(['s1']);
    expect(await headOf(b)).toMatchObject({ seq: 2, at: startTime, baseSeq: 0 });
  });

  test('append chains at most the limit, for one tenant or for all in turn', async () => {
    const [a, b] = [await on.tenant(), await on.tenant()];
    await on.store.audit.write([...entries(5, a), ...entries(5, b)]);
    expect(await on.maintenance.audit.append(3, a)).toBe(3);
    expect([(await headOf(a))?.seq, (await headOf(b))?.seq]).toEqual([3, undefined]);
    for (let calls = 0; calls < 2; calls++) expect(await on.maintenance.audit.append(2)).toBe(2);
    expect([(await headOf(a))?.seq, (await headOf(b))?.seq].toSorted()).toEqual([2, 5]);
    await chainAll();
    expect([(await headOf(a))?.seq, (await headOf(b))?.seq]).toEqual([5, 5]);
  });

  test('the last checkpoint and every 256th are kept', async () => {
    const tenant = await on.tenant();
    for (const count of [100, 200, 300]) {
      await on.store.audit.write(entries(count, tenant));
      await chainAll();
    }
    const checkpoints = await on.maintenance.audit.checkpoints(tenant, 0, 10);
    expect(checkpoints.map(({ seq }) => seq)).toEqual([256, 512, 600]);
    expect(await on.maintenance.audit.checkpoints(tenant, 256, 1)).toMatchObject([{ seq: 512 }]);
  });

  test('concurrent nodes chain every entry once, while others are written', async () => {
    const tenants = await Promise.all(Array.from({ length: 4 }, on.tenant));
    const nodes = [on.maintenance, (await on.open()).maintenance, (await on.open()).maintenance];
    const writing = tenants.map(async (tenant) => {
      for (let batch = 0; batch < 10; batch++) await on.store.audit.write(entries(5, tenant, `${batch}-`));
    });
    const chaining = nodes.map(async ({ audit }, number) => {
      for (let round = 0; round < 15; round++) await audit.append(7, number === 2 ? tenants[0] : undefined);
    });
    await Promise.all([...writing, ...chaining]);
    await chainAll();
    for (const tenant of tenants) {
      const operations = await operationsOf(tenant);
      expect(new Set(operations).size).toBe(50);
      expect(operations).toHaveLength(50);
    }
    expect((await verify(await exportOf(on))).findings).toEqual([]);
  });

  test('a list includes every entry that was committed before it', async () => {
    const tenant = await on.tenant();
    await on.store.audit.write(entries(3, tenant));
    const { entries: listed } = await on.store.audit.list(tenant, {}, { limit: 10 });
    expect(listed.map(({ operation }) => operation)).toEqual(['x2', 'x1', 'x0']);
  });

  test('reading after an entry returns every later one once, while entries are written', async () => {
    const tenant = await on.tenant();
    await on.store.audit.write(entries(1, tenant, 'first'));
    const [first] = (await on.store.audit.list(tenant, {}, { limit: 1 })).entries;
    const writing = (async () => {
      for (let number = 0; number < 40; number++) await on.store.audit.write([entry(`${number}`, tenant)]);
    })();
    const read: LogEntry[] = [];
    while (read.length < 40) {
      await new Promise(setImmediate);
      const after = read.at(-1)?.id ?? first?.id;
      read.push(...(await on.store.audit.list(tenant, {}, { limit: 7, after })).entries);
    }
    await writing;
    expect(read.map(({ operation }) => operation)).toEqual(
      Array.from({ length: 40 }, (_, number) => `${number}`),
    );
  });

  test('after rejects an id that is not of this log', async () => {
    const [tenant, other] = [await on.tenant(), await on.tenant()];
    await on.store.audit.write([entry('a', tenant), entry('b', other), entry('c', other)]);
    const ids = (await on.store.audit.list(other, {}, { limit: 2 })).entries.map(({ id }) => id);
    for (const after of [...ids, crypto.randomUUID()])
      await expect(on.store.audit.list(tenant, {}, { limit: 2, after })).rejects.toMatchObject({
        code: 'validation_failed',
        errors: { after: ['must be the id of an entry of this log'] },
      });
  });

  test('a page of large entries ends early, and the next page continues', async () => {
    const tenant = await on.tenant();
    const reason = 'x'.repeat(1_500_000);
    for (let written = 0; written < 5; written++)
      await on.store.audit.write([{ ...entry('x', tenant), reason }]);
    const sizes = [];
    for (let before: string | undefined, more = true; more; ) {
      const { entries: page, next } = await on.store.audit.list(tenant, {}, { limit: 20, before });
      sizes.push(page.length);
      [before, more] = [next, next !== undefined];
    }
    expect(sizes).toEqual([2, 2, 1]);
  });

  test('the ends of grown chains are recorded in the system chain, each at most once a minute', async () => {
    const recorded = async () => {
      await chainAll();
      const filter = { operation: headsOperation };
      const { entries: found } = await on.maintenance.audit.list(undefined, filter, { limit: 1 });
      return found[0]?.difference ?? {};
    };
    const tenant = await on.tenant();
    await on.store.audit.write(entries(2, tenant));
    await chainAll();
    await on.maintenance.audit.recordHeads();
    const head = await headOf(tenant);
    const anchor = `2:${Buffer.from(head?.hash ?? '').toString('hex')}`;
    expect((await recorded())[tenant]).toEqual({ to: anchor });
    await on.store.audit.write(entries(1, tenant));
    await chainAll();
    await on.maintenance.audit.recordHeads();
    expect((await recorded())[tenant]).toEqual({ to: anchor });
    on.clock.advance(60_000);
    await on.maintenance.audit.recordHeads();
    const difference = await recorded();
    expect(Object.keys(difference)).toEqual([tenant]);
    expect(difference[tenant]?.to).toStartWith('3:');
    await on.store.audit.write(entries(1, tenant));
    await chainAll();
    await on.maintenance.audit.recordHeads('all');
    expect((await recorded())[tenant]?.to).toStartWith('4:');
  });
});

test('a chain that another node has locked is left to that node', async () => {
  const on = await openTestStore(postgres);
  const [locked, free] = [await on.tenant(), await on.tenant()];
  await on.store.audit.write([...entries(1, locked), ...entries(1, free)]);
  while ((await on.maintenance.audit.append(10)) > 0);
  await on.store.audit.write([...entries(2, locked), ...entries(2, free)]);
  const other = new SQL(on.url, { max: 1 });
  await other.begin(async (tx) => {
    await tx`select 1 from audit_chains where tenant_id = ${locked} for update`;
    expect(await on.maintenance.audit.append(10)).toBe(2);
    expect(await on.maintenance.audit.append(10)).toBe(0);
  });
  expect(await on.maintenance.audit.append(10)).toBe(2);
  await other.close();
  await on.close();
});

test('concurrent writes share a commit', async () => {
  const on = await openTestStore(sqlite);
  const tenant = await on.tenant();
  const generation = () => on.maintenance.db.local?.generation() as number;
  await on.store.audit.write(entries(1, tenant));
  const before = generation();
  await on.store.audit.write(entries(1, tenant));
  const perCommit = generation() - before;
  const start = generation();
  await Promise.all(
    Array.from({ length: 100 }, (_, number) => on.store.audit.write([entry(`${number}`, tenant)])),
  );
  expect((generation() - start) / perCommit).toBeLessThanOrEqual(3);
  await on.close();
});
