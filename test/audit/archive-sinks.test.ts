/** Entries stay in the database until every sink has received them, unless the operator skips the delivery. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Sink } from '../../src/audit/delivery.ts';
import type { ArchiveOptions, ArchiveResult } from '../../src/audit/proof.ts';
import { checkSinks } from '../../src/operations/diagnosis.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { openDelivery, openSink, type TestDelivery, writeEntries } from '../support/test-delivery.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe.each(databases)('archiving the audit log in %s', (_, database) => {
  let on: TestStore;
  let tenant: string;
  let folder: string;
  let sink: Sink;
  let delivery: TestDelivery;
  beforeEach(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    folder = temporaryFolder();
    sink = openSink({ name: 'local', type: 'file', path: join(folder, 'received') });
    delivery = openDelivery([sink], on, on.maintenance);
    await writeEntries(on, tenant, 'one', 'two', 'three');
  });
  afterEach(async () => {
    await delivery.stop();
  });

  const files = () => readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  const received = () =>
    readFileSync(join(folder, 'received'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ type, tenant_id }) => type === 'entry' && tenant_id === tenant)
      .map(({ operation }) => operation);

  function archive(options: Partial<ArchiveOptions> = {}): Promise<ArchiveResult> {
    const now = on.clock.now() + 10_000;
    return on.maintenance.audit.archive({ folder, now, before: now, sinks: ['local'], ...options });
  }

  const state = () => on.maintenance.sinks.deliveries.state('local');
  const waiting = (sinkName: string, received: number, entries: number) => ({
    archived: expect.anything(),
    held: [{ chain: tenant, sink: sinkName, received, entries }],
  });

  test('leaves entries that a sink has not received', async () => {
    expect(await archive()).toEqual({ ...waiting('local', 0, 3), archived: [] });
    await delivery.flush();
    await writeEntries(on, tenant, 'four');
    const result = await archive();
    expect(result).toEqual(waiting('local', 1, 1));
    expect(files()).toEqual([`audit-${tenant}-1-1.jsonl`]);
    await delivery.flush();
    expect((await archive()).held).toEqual([]);
    expect(received()).toEqual(['one', 'two', 'three', 'four', 'audit.archive']);
    expect(await state()).toMatchObject({ skippedEntries: 0, truncatedChains: 0 });
  });

  test('waits for the slowest sink, also for one of another node, but not for one that was removed', async () => {
    await delivery.flush();
    const other = openSink({ name: 'slow', type: 'file', path: join(folder, 'missing', 'file') });
    const node = openDelivery([other], on, on.maintenance);
    await node.flush();
    expect(node.logged.join()).toContain('ENOENT');
    const held = await archive();
    expect(held).toEqual({ ...waiting('slow', 0, 3), archived: [] });
    expect(await delivery.deliveredUpTo(tenant)).toBe(0);
    await node.stop();
    const [next] = await on.runSql<{ at: number }>('select max(retry_at) as at from audit_sinks');
    await on.runSql("update audit_sinks set retry_at = 0, lease_until = 0 where name = 'slow'");
    expect(Number(next?.at)).toBeGreaterThan(startTime);
    expect(await delivery.deliveredUpTo(tenant)).toBe(1);
    expect((await archive()).held).toEqual([]);
    expect(files()).toEqual([`audit-${tenant}-1-1.jsonl`]);
  });

  test('does not complete a file of an interrupted run before the delivery', async () => {
    await expect(
      archive({ skipUndelivered: true, between: () => Promise.reject(new Error('stopped')) }),
    ).rejects.toThrow('stopped');
    const left = files();
    expect(await archive()).toEqual({ ...waiting('local', 0, 3), archived: [] });
    expect(files()).toEqual(left);
  });

  test.each(['before it has received any entry', 'after it has received some'])(
    'with skipUndelivered shows the gap of a sink, %s',
    async (when) => {
      const first = when.startsWith('after') ? 3 : 0;
      if (first > 0) await delivery.flush();
      await writeEntries(on, tenant, 'four', 'five');
      const { archived, held } = await archive({ skipUndelivered: true });
      expect({ held, files: archived.map(({ last }) => last) }).toEqual({ held: [], files: [2] });
      expect(await state()).toMatchObject({ skippedEntries: 5 - first, lagEntries: 1 });
      await delivery.flush();
      expect(received()).toEqual([...['one', 'two', 'three'].slice(0, first), 'audit.archive']);
      const after = await state();
      expect(after).toMatchObject({ skippedEntries: 5 - first, lagEntries: 0, truncatedChains: 0 });
      expect(await checkSinks(on.db, on.maintenance.masters, ['local'])).toEqual([
        {
          name: 'sinks',
          state: 'warn',
          message: `local has never received ${5 - first} entries that were archived and deleted`,
          hint: 'copy them from the archives to the receiver if it needs them',
        },
      ]);
    },
  );

  test('does not cause a gap for a sink that is configured later', async () => {
    await delivery.flush();
    await archive();
    const later = openSink({ name: 'later', type: 'file', path: join(folder, 'later') });
    const node = openDelivery([later], on, on.maintenance);
    await node.flush();
    expect(await on.maintenance.sinks.deliveries.state('later')).toMatchObject({
      skippedEntries: 0,
      lagEntries: 0,
    });
    await node.stop();
  });
});
