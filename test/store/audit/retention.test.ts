import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chainAll } from '../../../src/operations/audit-files.ts';
import type { Retention } from '../../../src/store/audit/delivered.ts';
import type { Verdict } from '../../../src/store/audit/verify.ts';
import { verifyParts } from '../../../src/store/audit/verify.ts';
import { Faults } from '../../../torture/crash/faults.ts';
import { entry, masters, named } from '../../support/audit-export.ts';
import { databases, startTime } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

const hour = 3_600_000;

describe.each(databases)('the retention of the audit log in %s', (_, database) => {
  let testStore: TestStore;
  let tenant: string;
  beforeEach(async () => {
    testStore = await openTestStore(database);
    tenant = await testStore.tenant();
  });
  afterEach(() => testStore.close());

  /** Advances the clock, and writes one entry per hour. */
  async function write(count: number): Promise<void> {
    const entries = Array.from({ length: count }, (_, number) => {
      testStore.clock.advance(hour);
      return { ...entry(number, tenant), at: testStore.clock.now() };
    });
    await testStore.store.audit.write(entries);
    await chainAll(testStore.maintenance);
  }

  function retention(deliveredUpTo: Retention['deliveredUpTo'], goOn = () => true): Retention {
    return { age: 24 * hour, deliveredUpTo, goOn };
  }

  const first = async () =>
    (await testStore.maintenance.audit.heads()).map(({ tenantId, baseSeq }) => [tenantId, baseSeq + 1]);

  async function verified(): Promise<Verdict> {
    await chainAll(testStore.maintenance);
    return verifyParts(await testStore.maintenance.audit.export(startTime), { masters });
  }

  test('deletes nothing without sinks', async () => {
    await write(40);
    expect(await testStore.maintenance.audit.deleteDelivered(retention(() => undefined))).toBe(0);
    expect(await first()).toEqual([[tenant, 1]]);
  });

  test('deletes entries that are old enough and that all sinks have received', async () => {
    await write(40);
    const asked: unknown[] = [];
    const { audit } = testStore.maintenance;
    const upTo = (seq: number) => (id: unknown) => {
      asked.push(id);
      return seq;
    };
    expect(await audit.deleteDelivered(retention(upTo(0)))).toBe(0);
    expect(await audit.deleteDelivered(retention(upTo(7)))).toBe(1);
    expect(await first()).toEqual([[tenant, 8]]);
    expect(await audit.deleteDelivered(retention(upTo(1000)))).toBe(1);
    expect(await first()).toEqual([[tenant, 16]]);
    expect(new Set(asked)).toEqual(new Set([tenant]));
    const verdict = await verified();
    expect(verdict).toMatchObject({ ok: true, rows: 27, findings: [] });
    expect(verdict.notes).toEqual([
      `rows 8 to 15 of chain ${tenant} were deleted after delivery to all sinks`,
      `rows 1 to 7 of chain ${tenant} were deleted after delivery to all sinks`,
    ]);
    const { entries } = await testStore.store.audit.list(
      tenant,
      { operation: 'audit.retention' },
      { limit: 9 },
    );
    expect(entries.map(({ difference }) => difference?.entries)).toEqual([
      { from: 8, to: 15 },
      { from: 1, to: 7 },
    ]);
  });

  test('deletes nothing if only its own entries are old enough', async () => {
    await write(5);
    const { audit } = testStore.maintenance;
    for (const expected of [1, 0, 0]) {
      testStore.clock.advance(100 * hour);
      expect(await audit.deleteDelivered(retention(() => 1000))).toBe(expected);
      await chainAll(testStore.maintenance);
    }
    expect(await first()).toEqual([[tenant, 6]]);
  });

  test('deletes nothing from a chain that does not verify', async () => {
    await write(40);
    const { audit } = testStore.maintenance;
    for (const change of ['at = at + 1', 'mac = null']) {
      await testStore.runSql(`update audit set ${change} where seq = 3`);
      await expect(audit.deleteDelivered(retention(() => 1000))).rejects.toThrow('does not verify');
    }
    expect(await first()).toEqual([[tenant, 1]]);
    expect(named(await verified())).toContain('foreign_row 3');
  });

  test('loses nothing that was not delivered if the database fails at any step', async () => {
    const faults = new Faults();
    const { maintenance } = await testStore.open(undefined, faults.through);
    await write(30);
    let delivered = 0;
    for (let call = 1, hit = true; hit; call++) {
      await write(3);
      delivered += 2;
      faults.arm('down', call);
      await maintenance.audit.deleteDelivered(retention(() => delivered)).catch(() => {});
      hit = faults.disarm().hit;
      const { ok, findings } = await verified();
      expect({ ok, findings }).toEqual({ ok: true, findings: [] });
      const [[, oldest]] = (await first()) as [[string, number]];
      expect(oldest).toBeLessThanOrEqual(delivered + 1);
    }
    await maintenance.audit.deleteDelivered(retention(() => delivered));
    expect(await first()).toEqual([[tenant, delivered + 1]]);
  });

  test('stops between two batches', async () => {
    await write(600);
    let batches = 2;
    await testStore.maintenance.audit.deleteDelivered(
      retention(
        () => 1000,
        () => batches-- > 0,
      ),
    );
    expect(await first()).toEqual([[tenant, 251]]);
    expect((await verified()).ok).toBe(true);
  });
});
