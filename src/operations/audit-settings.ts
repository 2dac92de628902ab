/** Records in the audit log which reads it records. */
import { type AuditedReads, byOperator, readsOperation, readsSetting } from '../domain/audit.ts';
import type { Maintenance } from '../store/maintenance.ts';

/** Writes an entry if `SALLYPORT_AUDIT_READS` differs from the last start, and at the first start. */
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
