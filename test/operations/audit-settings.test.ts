import { expect, test } from 'bun:test';
import type { AuditedReads } from '../../src/domain/audit.ts';
import { recordAuditedReads } from '../../src/operations/bootstrap.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import type { NewEntry } from '../../src/store/store.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

test.each(databases)('a start on %s records which reads are audited, if it differs', async (_, database) => {
  const on = await openTestStore(database);
  const recorded: NewEntry[] = [];
  const start = async (reads: AuditedReads, { changeTenants }: Maintenance = on.maintenance) => {
    await recordAuditedReads(
      {
        changeTenants: (work) =>
          changeTenants((tx) => {
            const record = (entry: NewEntry) => {
              recorded.push(entry);
              tx.record(entry);
            };
            return work({ ...tx, settings: tx.settings, record });
          }),
      },
      reads,
      1,
    );
    return recorded.splice(0).map(({ operation, difference }) => [operation, difference]);
  };
  const entry = (from: AuditedReads | undefined, to: AuditedReads) => [
    ['audit.reads', { SALLYPORT_AUDIT_READS: { ...(from && { from }), to } }],
  ];
  const other = await on.open();
  const both = await Promise.all([start('reveal'), start('reveal', other.maintenance)]);
  expect(both.flat()).toEqual(entry(undefined, 'reveal'));
  expect(await start('reveal')).toEqual([]);
  expect(await start('off', other.maintenance)).toEqual(entry('reveal', 'off'));
  expect(await start('all')).toEqual(entry('off', 'all'));
});
