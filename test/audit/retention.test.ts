import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Retention, Verdict } from '../../src/audit/proof.ts';
import { type Db, defaultTimeout } from '../../src/db/db.ts';
import { Faults } from '../../torture/crash/faults.ts';
import { entry, named, verifyDatabase } from '../support/audit-export.ts';
import { duringTransaction, untilBlocked } from '../support/postgres-locks.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const hour = 3_600_000;

describe.each(databases)('the retention of the audit log in %s', (kind, database) => {
  let testStore: TestStore;
  let tenant: string;
  beforeEach(async () => {
    testStore = await openTestStore(database);
    tenant = await testStore.tenant();
  });
  afterEach(() => testStore.close());

  /** Advances the clock, and writes one segment with two entries per hour. */
  async function write(count: number): Promise<void> {
    for (let number = 0; number < count; number++) {
      testStore.clock.advance(hour);
      const at = testStore.clock.now();
      await testStore.store.audit.write([1, 2].map((one) => ({ ...entry(one, tenant), at })));
      await testStore.maintenance.audit.seal();
    }
  }

  function retention(deliveredUpTo: Retention['deliveredUpTo'], goOn = () => true): Retention {
    return { age: 4 * hour, deliveredUpTo, goOn };
  }

  const first = async () => {
    const rows = await testStore.runSql<{ tenant_id: string; base_number: number }>(
      'select tenant_id, base_number from audit_chains',
    );
    return rows.map(({ tenant_id, base_number }) => [tenant_id, Number(base_number) + 1]);
  };

  /** Pending entries are not sealed before: the record of a deletion is sealed with it. */
  const verified = async (): Promise<Verdict> => {
    const parts = await testStore.maintenance.audit.parts(startTime);
    return verifyDatabase(testStore, { archives: 'required', parts });
  };

  test('deletes nothing without sinks', async () => {
    await write(20);
    expect(await testStore.maintenance.audit.deleteDelivered(retention(async () => undefined))).toBe(0);
    expect(await first()).toEqual([[tenant, 1]]);
  });

  test('deletes entries that are old enough and that all sinks have received', async () => {
    await write(20);
    const asked: unknown[] = [];
    const { audit } = testStore.maintenance;
    const upTo = (number: number) => async (id: unknown) => {
      asked.push(id);
      return number;
    };
    expect(await audit.deleteDelivered(retention(upTo(0)))).toBe(0);
    expect(await audit.deleteDelivered(retention(upTo(7)))).toBe(1);
    expect(await first()).toEqual([[tenant, 8]]);
    expect(await audit.deleteDelivered(retention(upTo(1000)))).toBe(1);
    expect(await first()).toEqual([[tenant, 16]]);
    expect(new Set(asked)).toEqual(new Set([tenant]));
    const verdict = await verified();
    expect(verdict).toMatchObject({ ok: true, entries: 12, findings: [] });
    expect(verdict.notes).toEqual([
      `segments 8 to 15 of chain ${tenant} were deleted after delivery to all sinks`,
      `segments 1 to 7 of chain ${tenant} were deleted after delivery to all sinks`,
    ]);
    const { entries } = await testStore.store.audit.list(
      tenant,
      { operation: 'audit.retention' },
      { limit: 9 },
    );
    expect(entries.map(({ difference }) => difference?.segments)).toEqual([
      { from: 8, to: 15 },
      { from: 1, to: 7 },
    ]);
  });

  test('records a deletion once, also if its first attempts fail after the record', async () => {
    const faults = new Faults();
    const { maintenance } = await testStore.open(undefined, faults.through);
    await write(20);
    for (let call = 1, hit = true; hit; call++) {
      faults.arm('down', call);
      await maintenance.audit.deleteDelivered(retention(async () => 7)).catch(() => {});
      hit = faults.disarm().hit;
    }
    expect(await first()).toEqual([[tenant, 8]]);
    const filter = { operation: 'audit.retention' };
    const { entries } = await testStore.store.audit.list(tenant, filter, { limit: 100 });
    expect(entries.map(({ difference }) => difference?.segments)).toEqual([{ from: 1, to: 7 }]);
    expect(await verified()).toMatchObject({ ok: true, findings: [] });
  });

  test('deletes nothing if only its own entries are old enough', async () => {
    await write(5);
    const { audit } = testStore.maintenance;
    for (const expected of [1, 0, 0]) {
      testStore.clock.advance(100 * hour);
      expect(await audit.deleteDelivered(retention(async () => 1000))).toBe(expected);
      await testStore.maintenance.audit.seal();
    }
    expect(await first()).toEqual([[tenant, 6]]);
  });

  test('deletes nothing from a chain that does not verify', async () => {
    await write(20);
    const { audit } = testStore.maintenance;
    await testStore.runSql('update audit_segments set failures = 9 where number = 3');
    await expect(audit.deleteDelivered(retention(async () => 1000))).rejects.toThrow('does not verify');
    expect(await first()).toEqual([[tenant, 1]]);
    expect(named(await verified())).toContain('changed_segment 3');
  });

  test('loses no undelivered entry if the database fails at any step', async () => {
    const faults = new Faults();
    const { maintenance } = await testStore.open(undefined, faults.through);
    await write(12);
    let delivered = 0;
    for (let call = 1, hit = true; hit; call++) {
      await write(5);
      delivered += 2;
      faults.arm('down', call);
      await maintenance.audit.deleteDelivered(retention(async () => delivered)).catch(() => {});
      hit = faults.disarm().hit;
      const { ok, findings } = await verified();
      expect({ ok, findings }).toEqual({ ok: true, findings: [] });
      const [[, oldest]] = (await first()) as [[string, number]];
      expect(oldest).toBeLessThanOrEqual(delivered + 1);
      // Segments that only record deletions are not deleted alone. Of three segments, one has other entries.
      delivered += 3;
      await maintenance.audit.deleteDelivered(retention(async () => delivered));
      expect(await first()).toEqual([[tenant, delivered + 1]]);
    }
  });

  describe('by month', () => {
    let other: string;
    beforeEach(async () => {
      other = await testStore.tenant();
    });

    /** Writes a segment of each tenant on the first three days of the month of 2030. */
    async function writeMonths(...months: number[]): Promise<void> {
      for (const month of months)
        for (const day of [1, 2, 3]) {
          const at = Date.UTC(2030, month - 1, day);
          testStore.clock.advance(at - testStore.clock.now());
          await testStore.store.audit.write([tenant, other].map((id) => ({ ...entry(1, id), at })));
          await testStore.maintenance.audit.seal();
        }
    }

    /** Entries are deleted when two months have passed after theirs. Returns the number of shortened chains. */
    const run = (deliveredUpTo: Retention['deliveredUpTo'] = async () => 1000) =>
      testStore.maintenance.audit.deleteDelivered({ ...retention(deliveredUpTo), age: { months: 2 } });

    const firsts = async () => {
      const numbers = new Map((await first()) as [string, number][]);
      return [tenant, other].map((id) => numbers.get(id));
    };

    const isPostgres = database.name === 'PostgreSQL';

    /** Segments per partition; the last one also has the records of deletions. Rows that were deleted one by one leave pages. */
    const stored = async () => {
      const found: Record<string, number | 'empty' | 'pages'> = {};
      for (const month of '0123456789abcde') {
        const table = `audit_segments_m${month}`;
        const [row] = await testStore.runSql<{ segments: string; bytes: string }>(
          `select count(*) as segments, pg_relation_size('${table}') + pg_relation_size('audit_index_m${month}') as bytes
           from ${table}`,
        );
        if (Number(row?.segments) > 0) found[month] = Number(row?.segments);
        else if (Number(row?.bytes) > 0) found[month] = 'pages';
      }
      return found;
    };

    test('keeps whole months, and empties the partitions of the others on PostgreSQL', async () => {
      await writeMonths(1, 2, 3, 4);
      if (isPostgres) expect(Object.values(await stored())).toEqual([6, 6, 6, 6]);
      expect(await run()).toBe(2);
      expect(await firsts()).toEqual([4, 4]);
      if (isPostgres) expect(Object.values(await stored())).toEqual([6, 6, 8]);
      expect(await run()).toBe(0);
      await writeMonths(6);
      expect(await run()).toBe(isPostgres ? 4 : 2);
      expect(await firsts()).toEqual([10, 10]);
      const { ok, findings, notes } = await verified();
      expect({ ok, findings }).toEqual({ ok: true, findings: [] });
      expect(notes).toContain(`segments 1 to 3 of chain ${tenant} were deleted after delivery to all sinks`);
      const { entries } = await testStore.store.audit.list(
        other,
        { operation: entry(1).operation },
        { limit: 99 },
      );
      expect(entries).toHaveLength(6);
    });

    test('deletes row by row if one tenant keeps its segments', async () => {
      await writeMonths(1, 2, 3, 4);
      expect(await run(async (id) => (id === other ? 2 : 1000))).toBe(2);
      expect(await firsts()).toEqual([4, 3]);
      if (isPostgres) expect(Object.values(await stored())).toEqual([1, 6, 6, 8]);
      expect((await verified()).ok).toBe(true);
    });

    test('deletes row by row from a month with segments of a tenant that has no chain', async () => {
      await writeMonths(1, 2, 3, 4);
      await testStore.runSql(`delete from audit_chains where tenant_id = '${other}'`);
      expect(await run()).toBe(1);
      if (isPostgres) expect(Object.values(await stored())).toEqual([3, 6, 6, 7]);
    });

    test('keeps a segment that is sealed into a month while it is emptied', async () => {
      await writeMonths(1);
      const at = testStore.clock.now();
      await testStore.store.audit.write([{ ...entry(2, tenant), at }]);
      testStore.clock.advance(90 * 24 * hour);
      const lock = `select 1 from audit_pending where tenant_id = '${tenant}' for update`;
      // In a Citus cluster, the connections wait on a worker.
      if (kind === 'PostgreSQL')
        await duringTransaction(testStore.url, lock, async (sql) => {
          const sealing = testStore.maintenance.audit.seal();
          await untilBlocked(testStore.url);
          const running = run(async () => 3);
          await untilBlocked(testStore.url, 2);
          await sql('commit');
          await sealing;
          await running;
        });
      else await testStore.maintenance.audit.seal();
      await run(async () => 3);
      expect(await firsts()).toEqual([4, 4]);
      const { ok, findings } = await verified();
      expect({ ok, findings }).toEqual({ ok: true, findings: [] });
      const recorded = { operation: 'audit.retention' };
      // On PostgreSQL, the month was not emptied after the record, only by the second run.
      expect((await testStore.store.audit.list(tenant, recorded, { limit: 9 })).entries).toHaveLength(1);
    });

    test.if(isPostgres)(
      'keeps all segments if another program has inserted copies into another month',
      async () => {
        for (const day of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) {
          const at = Date.UTC(2030, 0, day);
          testStore.clock.advance(at - testStore.clock.now());
          await testStore.store.audit.write([{ ...entry(1, tenant), at }]);
          await testStore.maintenance.audit.seal();
        }
        testStore.clock.advance(90 * 24 * hour);
        await testStore.runSql('create table copied as select * from audit_segments');
        for (const number of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) {
          await testStore.runSql(`update copied set month = '0'`);
          await testStore.runSql(`insert into audit_segments select * from copied where number = ${number}`);
          expect(named(await verified())).toEqual([`broken_chain ${number}`]);
          await expect(run()).rejects.toThrow('does not verify');
          expect(await firsts()).toEqual([1, undefined]);
          await testStore.runSql(`delete from audit_segments where month = '0'`);
        }
        for (const month of '123456789abcde') {
          await testStore.runSql(`update copied set month = '${month}'`);
          await testStore.runSql(
            'insert into audit_segments select * from copied where number = 2 on conflict do nothing',
          );
        }
        expect(new Set(named(await verified()))).toEqual(new Set(['broken_chain 2']));
      },
    );

    test.if(kind === 'PostgreSQL')('fails no search, and records nothing, while a backup runs', async () => {
      await writeMonths(1, 2, 3, 4);
      const { store } = await testStore.open(undefined, undefined, defaultTimeout);
      const list = async (operation: string) =>
        (await store.audit.list(tenant, { operation }, { limit: 99 })).entries.length;
      const backup = 'lock table audit_segments, audit_index in access share mode';
      await duringTransaction(testStore.url, backup, async () => {
        const running = run().catch(String);
        await untilBlocked(testStore.url);
        expect(await list(entry(1).operation)).toBe(12);
        expect(await running).toContain('lock timeout');
      });
      expect(await list('audit.retention')).toBe(0);
      expect(await run()).toBe(2);
    });

    test('loses no entry of a kept month if the database fails at any step', async () => {
      const faults = new Faults();
      const { maintenance } = await testStore.open(undefined, faults.through);
      await writeMonths(1, 2, 3);
      for (let call = 1, hit = true; hit; call++) {
        await writeMonths(call + 3);
        faults.arm('down', call);
        const months = { ...retention(async () => 1000), age: { months: 2 } };
        await maintenance.audit.deleteDelivered(months).catch(() => {});
        hit = faults.disarm().hit;
        const { ok, findings } = await verified();
        expect({ ok, findings }).toEqual({ ok: true, findings: [] });
        await maintenance.audit.deleteDelivered(months);
        const filter = { operation: entry(1).operation };
        const { entries } = await testStore.store.audit.list(tenant, filter, { limit: 99 });
        expect(entries).toHaveLength(9);
      }
    });
  });

  test('reports no damage if another node deletes the same entries at any step', async () => {
    let calls = Number.NaN;
    const other = () => testStore.maintenance.audit.deleteDelivered(retention(async () => 1000));
    const { maintenance } = await testStore.open(undefined, (db) => {
      const before = async <T>(make: () => T) => {
        calls -= 1;
        if (calls === 0) await other();
        return make();
      };
      return {
        ...db,
        get: (sql, params) => before(() => db.get(sql, params)),
        all: (sql, params) => before(() => db.all(sql, params)),
      } as Db;
    });
    await write(4);
    for (let call = 1, hit = true; hit; call++) {
      await write(5);
      calls = call;
      await maintenance.audit.deleteDelivered(retention(async () => 1000));
      hit = calls <= 0;
      const { ok, findings } = await verified();
      expect({ ok, findings }).toEqual({ ok: true, findings: [] });
    }
  });

  test('stops between two segments', async () => {
    await write(20);
    let segments = 3;
    await testStore.maintenance.audit.deleteDelivered(
      retention(
        async () => 1000,
        () => segments-- > 0,
      ),
    );
    expect(await first()).toEqual([[tenant, 3]]);
    expect((await verified()).ok).toBe(true);
  });
});
