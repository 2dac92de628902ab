/** Sealing entries into segments of the chains of their tenants. */

import { describe, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { headersIn, segmentsIn } from '../../src/audit/log/chain.ts';
import { entryWriter, tenantsIn } from '../../src/audit/log/pending.ts';
import { sealer } from '../../src/audit/log/seal.ts';
import { parsePosition, systemTenant } from '../../src/audit/records.ts';
import { type Db, DbUnavailable } from '../../src/db/db.ts';
import { boundOf } from '../../src/db/statement.ts';
import { headsOperation, type LogEntry } from '../../src/domain/audit.ts';
import type { NewEntry } from '../../src/store/store.ts';
import { exportOf, verify } from '../support/audit-export.ts';
import { recorder } from '../support/statement-recorder.ts';
import { databases, postgres, sqlite, startTime } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';
import { until } from '../support/until.ts';

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

describe.each(databases)('sealing the audit log on %s', async (_, database) => {
  const on = await openTestStore(database);

  const seal = () => on.maintenance.audit.seal();
  const headOf = async (tenant: string) =>
    (await on.maintenance.audit.heads()).find(({ tenantId }) => tenantId === tenant);
  const sealedEntries = async (tenant: string, after = 0) => {
    const segments = await segmentsIn(on.db, tenant, { first: after + 1, last: 1000 }, 'asc', 1000);
    return segments.flatMap(({ packed }) => packed.all() ?? []);
  };
  const operationsOf = async (tenant: string, after = 0) =>
    (await sealedEntries(tenant, after)).map(({ text }) => JSON.parse(text).operation);

  test('each tenant has its own chain, in order of arrival, and entries without a tenant have one', async () => {
    const [a, b] = [await on.tenant(), await on.tenant()];
    const before = (await headOf(systemTenant))?.number ?? 0;
    await on.store.audit.write([entry('a1', a), entry('b1', b, startTime - 5000), entry('s1', undefined)]);
    await on.store.audit.write([entry('b2', b), entry('a2', a, startTime - 9000)]);
    await seal();
    expect([await operationsOf(a), await operationsOf(b)]).toEqual([
      ['a1', 'a2'],
      ['b1', 'b2'],
    ]);
    expect(await operationsOf(systemTenant, before)).toEqual(['s1']);
    expect(await headOf(b)).toMatchObject({ number: 1, seq: 2 });
  });

  test('a segment has at most 1024 entries and about a megabyte', async () => {
    const [a, b] = [await on.tenant(), await on.tenant()];
    await on.store.audit.write(entries(1500, a));
    const reason = 'x'.repeat(400_000);
    for (let written = 0; written < 4; written++) await on.store.audit.write([{ ...entry('x', b), reason }]);
    await seal();
    const headers = async (tenant: string) => headersIn(on.db, tenant, { first: 1, last: 9 }, 'asc', 9);
    expect((await headers(a)).map(({ first, last }) => [first, last])).toEqual([
      [1, 1024],
      [1025, 1500],
    ]);
    expect((await headers(b)).map(({ first, last }) => [first, last])).toEqual([
      [1, 3],
      [4, 4],
    ]);
    expect((await sealedEntries(a)).map(({ text }) => JSON.parse(text).operation)).toEqual(
      entries(1500, a).map(({ operation }) => operation),
    );
  });

  test('sealing the entries of a tenant takes six statements, each about one table, and once a second reads the end of the system chain', async () => {
    const [tenant, statements] = [await on.tenant(), recorder()];
    let now = 0;
    const seals = sealer({ db: statements.through(on.db), keys: on.maintenance.chainKeys }, () => now);
    const sealed = async () => {
      await on.store.audit.write(entries(3, tenant));
      expect(await seals.sealTenant(tenant)).toBe(3);
      const taken = statements.take().map(({ sql }) => sql.replace(/\s+/g, ' '));
      expect(taken.filter((sql) => /\bjoin\b|\bwith\b|\(select\b/.test(sql))).toEqual([]);
      const tables = taken.map((sql) => /(?:from|into|update) (\w+)/.exec(sql)?.[1]);
      return tables.filter((table) => table !== 'audit_index').toSorted();
    };
    const system = async () =>
      parsePosition((await headersIn(on.db, tenant, { first: 1, last: 9 }, 'asc', 9)).at(-1)?.system ?? '');
    const others = ['audit_chains', 'audit_chains', 'audit_pending', 'audit_pending', 'audit_segments'];
    await on.store.audit.write([...entries(1, tenant), ...entries(1, undefined)]);
    await seal();
    expect(await sealed()).toEqual(['audit_chains', ...others]);
    const before = await system();
    await on.store.audit.write(entries(1, undefined));
    await seal();
    now = 999;
    expect(await sealed()).toEqual(others);
    expect(await system()).toEqual(before);
    now = 1000;
    expect(await sealed()).toEqual(['audit_chains', ...others]);
    expect((await system())?.number).toBe((before?.number as number) + 1);
    await on.store.audit.write(entries(1, undefined));
    await seals.sealAll();
    statements.take();
    expect(await sealed()).toEqual(['audit_chains', ...others]);
    expect((await system())?.number).toBe((before?.number as number) + 2);
  });

  test('entries of many tenants are found, one row of each', async () => {
    await seal();
    const tenants = Array.from({ length: 205 }, () => crypto.randomUUID());
    await on.store.audit.write(tenants.flatMap((tenant) => entries(3, tenant)));
    expect(await Array.fromAsync(tenantsIn(on.db))).toEqual(tenants.toSorted());
    expect(await seal()).toBe(3 * tenants.length);
    await on.maintenance.audit.recordHeads();
  });

  test('tenants whose server is lost do not stop the sealing of others, for a few seconds', async () => {
    const tenants = await Promise.all(Array.from({ length: 5 }, () => on.tenant()));
    const [, other, , , last] = tenants as [string, string, string, string, string];
    await seal();
    let time = 0;
    const all: Db['all'] = async (statement) => {
      const isLost = tenants.some(
        (tenant) => tenant !== other && tenant !== last && boundOf(statement)[1].includes(tenant),
      );
      if (!isLost) return on.db.all(statement);
      time += 3000;
      throw new DbUnavailable('the worker is lost');
    };
    const log = { db: Object.assign(Object.create(on.db), { all }) as Db, keys: on.maintenance.chainKeys };
    const seals = sealer(log, () => time);
    const write = entryWriter(log, seals.written);
    for (const tenant of tenants) await log.db.transaction((tx) => write(tx, entries(1, tenant)), tenant);
    time = 5000;
    await expect(seals.sealDue()).rejects.toThrow('the worker is lost');
    expect([(await headOf(other))?.seq, await headOf(last)]).toEqual([1, undefined]);
    expect(await seals.sealDue()).toBe(1);
    expect((await headOf(last))?.seq).toBe(1);
    await seal();
  });

  test('this process seals its tenants when 1024 entries wait, or after five seconds', async () => {
    const [busy, slow] = [await on.tenant(), await on.tenant()];
    await seal();
    let time = 0;
    const log = { db: on.db, keys: on.maintenance.chainKeys };
    const seals = sealer(log, () => time);
    const write = entryWriter(log, seals.written);
    await log.db.transaction((tx) => write(tx, [...entries(1024, busy), ...entries(3, slow)]));
    expect(await seals.sealDue()).toBe(1024);
    expect([(await headOf(busy))?.seq, await headOf(slow)]).toEqual([1024, undefined]);
    time = 4999;
    expect(await seals.sealDue()).toBe(0);
    time = 5000;
    expect(await seals.sealDue()).toBe(3);
    await log.db.transaction((tx) => write(tx, entries(1, slow)));
    await seals.sealForReader(slow);
    expect((await headOf(slow))?.seq).toBe(4);
    await log.db.transaction((tx) => write(tx, entries(1, slow)));
    for (const [now, expected] of [
      [5999, 4],
      [6000, 5],
    ] as const) {
      time = now;
      await seals.sealForReader(slow);
      expect((await headOf(slow))?.seq).toBe(expected);
    }
  });

  test('entries of other processes are sealed, except of tenants whose entries this process will seal', async () => {
    const [own, other] = [await on.tenant(), await on.tenant()];
    await seal();
    const log = { db: on.db, keys: on.maintenance.chainKeys };
    const seals = sealer(log);
    await log.db.transaction((tx) => entryWriter(log, seals.written)(tx, entries(1, own)));
    await log.db.transaction((tx) => entryWriter(log, () => {})(tx, entries(2, other)));
    expect(await seals.sealRest(() => true)).toBe(2);
    expect([await headOf(own), (await headOf(other))?.seq]).toEqual([undefined, 2]);
    expect(await seals.sealAll()).toBe(1);
  });

  test('concurrent nodes seal every entry once, while others are written', async () => {
    const tenants = await Promise.all(Array.from({ length: 4 }, on.tenant));
    const nodes = [on.maintenance, (await on.open()).maintenance, (await on.open()).maintenance];
    const writing = tenants.map(async (tenant) => {
      for (let batch = 0; batch < 10; batch++) await on.store.audit.write(entries(5, tenant, `${batch}-`));
    });
    const sealing = nodes.map(async ({ audit }) => {
      for (let round = 0; round < 15; round++) await audit.seal();
    });
    await Promise.all([...writing, ...sealing]);
    await seal();
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
    await seal();
    const read: LogEntry[] = [];
    await until('40 entries', async () => {
      await seal();
      const after = read.at(-1)?.id ?? first?.id;
      read.push(...(await on.store.audit.list(tenant, {}, { limit: 7, after })).entries);
      return read.length >= 40;
    });
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
      await seal();
      const filter = { operation: headsOperation };
      const { entries: found } = await on.maintenance.audit.list(systemTenant, filter, { limit: 1 });
      return found[0]?.difference ?? {};
    };
    const tenant = await on.tenant();
    await on.store.audit.write(entries(2, tenant));
    await seal();
    await on.maintenance.audit.recordHeads();
    const end = `1:${(await headOf(tenant))?.hash}`;
    expect((await recorded())[tenant]).toEqual({ to: end });
    await on.store.audit.write(entries(1, tenant));
    await seal();
    await on.maintenance.audit.recordHeads();
    expect((await recorded())[tenant]).toEqual({ to: end });
    on.clock.advance(60_000);
    await on.maintenance.audit.recordHeads();
    const difference = await recorded();
    expect(Object.keys(difference)).toEqual([tenant]);
    expect(difference[tenant]?.to).toStartWith('2:');
    await on.store.audit.write(entries(1, tenant));
    await seal();
    await on.maintenance.audit.recordHeads('all');
    expect((await recorded())[tenant]?.to).toStartWith('3:');
  });
});

test('a chain that another node has locked is left to that node', async () => {
  const on = await openTestStore(postgres);
  const { audit } = on.maintenance;
  const [locked, free] = [await on.tenant(), await on.tenant()];
  await on.store.audit.write([...entries(1, locked), ...entries(1, free)]);
  await audit.seal();
  await on.store.audit.write([...entries(2, locked), ...entries(2, free)]);
  const other = new SQL(on.url, { max: 1 });
  await other.begin(async (tx) => {
    await tx`select 1 from audit_chains where tenant_id = ${locked} for update`;
    expect(await audit.seal()).toBe(2);
    expect(await audit.seal()).toBe(0);
  });
  expect(await audit.seal()).toBe(2);
  await other.close();
});

test('concurrent writes share a commit', async () => {
  const on = await openTestStore(sqlite);
  const tenant = await on.tenant();
  const generation = () => on.db.local?.generation() as number;
  await on.store.audit.write(entries(1, tenant));
  const before = generation();
  await on.store.audit.write(entries(1, tenant));
  const perCommit = generation() - before;
  const start = generation();
  await Promise.all(
    Array.from({ length: 100 }, (_, number) => on.store.audit.write([entry(`${number}`, tenant)])),
  );
  expect((generation() - start) / perCommit).toBeLessThanOrEqual(3);
});
