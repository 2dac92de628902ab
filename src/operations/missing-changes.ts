/** Compares the changes in an audit export with the audit log of this database. */

import type { AuditRow } from '../domain/access/revocation.ts';
import type { Entry } from '../domain/audit.ts';
import { systemTenant } from '../store/audit/hash-chain.ts';
import { type Chain, chainOf } from '../store/audit/rows.ts';
import type { VerifiedRow } from '../store/audit/verify-chain-options.ts';
import type { Db, DbTime } from '../store/engine/db.ts';
import { Params } from '../store/engine/sql.ts';

const batchSize = 500;

/** A change in the export, with its position in the chain of its tenant. */
export interface ChangeRow extends AuditRow {
  readonly chain: string;
  readonly seq: number;
  readonly at: number;
  readonly mac: string | null;
}

export function toChange({ tenantId: chain, seq, at, mac, entry }: VerifiedRow): ChangeRow {
  const { operation, entity, result } = JSON.parse(entry) as Entry;
  const tenant = chain === systemTenant ? null : chain;
  return { chain, seq, at, mac, tenant_id: tenant, operation, entity_id: entity?.id ?? null, result, entry };
}

/**
 * Returns the changes of an export that this database does not have. Every change has an audit entry, so a change is
 * missing if its entry is. Both logs start with the same entries at the same positions, up to the time of the backup.
 * Entries that are archived here belong to this common start. Entries that were pending in the backup may have other
 * positions, so they are compared by their MAC.
 */
export async function missingIn(db: Db, changes: readonly ChangeRow[]): Promise<ChangeRow[]> {
  const missing: ChangeRow[] = [];
  for (const [tenantId, rows] of Map.groupBy(changes, ({ chain }) => chain)) {
    const chain = await chainOf(db, tenantId);
    const known = chain ? await macsAt(db, chain, rows) : new Map<number, string | null>();
    const isElsewhere = ({ seq, mac }: ChangeRow) => seq > (chain?.baseSeq ?? 0) && known.get(seq) !== mac;
    const elsewhere = rows.filter(isElsewhere);
    const moved = chain ? await macsSince(db, chain, elsewhere) : new Set();
    missing.push(...elsewhere.filter(({ mac }) => !moved.has(mac)));
  }
  return missing;
}

/**
 * Returns the MACs of `rows` that this log has at other positions. Entries that were not yet chained in the backup may
 * have other positions here than in the export. Starts at the time of the first row.
 */
async function macsSince(db: Db, chain: Chain, rows: readonly ChangeRow[]): Promise<Set<string | null>> {
  const macs = new Set<string | null>();
  if (rows.length === 0) return macs;
  const before = await db.get<{ seq: DbTime | null }>(
    'select max(seq) as seq from audit_checkpoints where chain = $1 and at < $2',
    [chain.number, Math.min(...rows.map(({ at }) => at))],
  );
  const wanted = new Set(rows.map(({ mac }) => mac));
  for (let after = Math.max(chain.baseSeq, Number(before?.seq ?? 0)); after < chain.seq; ) {
    const found = await db.all<{ seq: DbTime; mac: Uint8Array | null }>(
      'select seq, mac from audit where chain = $1 and seq > $2 order by seq limit $3',
      [chain.number, after, batchSize],
    );
    const last = found.at(-1);
    if (!last) break;
    for (const { mac } of found) {
      const text = mac && Buffer.from(mac).toString('hex');
      if (wanted.has(text)) macs.add(text);
    }
    after = Number(last.seq);
  }
  return macs;
}

/** The MACs of this log at the positions of the rows. */
async function macsAt(
  db: Db,
  { number }: Chain,
  rows: readonly ChangeRow[],
): Promise<Map<number, string | null>> {
  const macs = new Map<number, string | null>();
  for (let start = 0; start < rows.length; start += batchSize) {
    const params = new Params();
    const found = await db.all<{ seq: DbTime; mac: Uint8Array | null }>(
      `select seq, mac from audit where chain = ${params.add(number)}
       and seq in ${params.list(rows.slice(start, start + batchSize).map(({ seq }) => seq))}`,
      params.values,
    );
    for (const { seq, mac } of found) macs.set(Number(seq), mac && Buffer.from(mac).toString('hex'));
  }
  return macs;
}
