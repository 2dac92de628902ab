import { beforeEach, describe, expect, test } from 'bun:test';
import type { Retention, Verdict } from '../../src/audit/proof.ts';
import type { Db } from '../../src/db/db.ts';
import { Faults } from '../../torture/crash/faults.ts';
import { entry, named, verifyDatabase } from '../support/audit-export.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const hour = 3_600_000;

describe.each(databases)('the retention of the audit log in %s', (_, database) => {
  let testStore: TestStore;
  let tenant: string;
  beforeEach(async () => {
    testStore = await openTestStore(database);
    tenant = await testStore.tenant();
  });

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

  test('keeps whole months', async () => {
    const days = [1, 2, 3].flatMap((month) => [1, 2, 28].map((day) => Date.UTC(2030, month, day)));
    for (const at of days) {
      testStore.clock.advance(at - testStore.clock.now());
      await testStore.store.audit.write([{ ...entry(1, tenant), at }]);
      await testStore.maintenance.audit.seal();
    }
    const months = { ...retention(async () => 1000), age: { months: 2 } };
    expect(await testStore.maintenance.audit.deleteDelivered(months)).toBe(0);
    testStore.clock.advance(4 * 24 * hour);
    expect(await testStore.maintenance.audit.deleteDelivered(months)).toBe(1);
    expect(await first()).toEqual([[tenant, 4]]);
    expect(await testStore.maintenance.audit.deleteDelivered(months)).toBe(0);
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
        get: (statement) => before(() => db.get(statement)),
        all: (statement) => before(() => db.all(statement)),
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
