/** Records changes of `SALLYPORT_AUDIT_READS` in the audit log. */
import { type AuditedReads, byOperator, readsOperation, readsSetting } from '../domain/audit.ts';
import type { Maintenance } from '../store/maintenance.ts';

/** Writes an entry at the first start, and if the setting has changed since the last start. */
export async function recordAuditedReads(
  { changeTenants }: Pick<Maintenance, 'changeTenants'>,
  reads: AuditedReads,
  now: number,
): Promise<void> {
  await changeTenants(async (tx) => {
    const changed = await tx.settings.replace(readsSetting, reads, now);
    if (!changed) return;
    const from = changed.from !== undefined && { from: changed.from };
    const difference = { SALLYPORT_AUDIT_READS: { ...from, to: reads } };
    tx.record({ ...byOperator, at: now, operation: readsOperation, difference });
  });
}
