/** Ties the chains together: entries in the system chain mention the ends of the chains of the tenants. */
import { byOperator, headsOperation } from '../../domain/audit.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import { type Db, type DbTime, rowLock } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';
import { type ChainKeys, systemTenant } from './hash-chain.ts';
import { insertEntries } from './write.ts';

/** Chains per entry. */
const maxHeads = 100;
/** Milliseconds between two records of the same chain. */
const interval = 60_000;

interface HeadRow {
  readonly number: number;
  readonly tenant_id: string;
  readonly seq: DbTime;
  readonly hash: Uint8Array;
}

/** Each entry is written in a transaction that also marks its chains as recorded. */
export async function recordHeads(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  all: boolean,
): Promise<void> {
  const keys = await chainKeys();
  const now = Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
  while ((await recordSome(db, keys, now, all ? now : now - interval)) === maxHeads);
}

/** Records chains that were last recorded at `before` or earlier. Returns how many. */
async function recordSome(db: Db, keys: ChainKeys, now: number, before: number): Promise<number> {
  const where = 'seq > recorded_seq and recorded_at <= $1 and tenant_id <> $2';
  const values = [before, systemTenant];
  if (!(await db.get(`select 1 as one from audit_chains where ${where} limit 1`, values))) return 0;
  return db.transaction(async (tx) => {
    const rows = await tx.all<HeadRow>(
      `select number, tenant_id, seq, hash from audit_chains where ${where}
       order by number limit ${maxHeads} ${rowLock(db, 'for update skip locked')}`,
      values,
    );
    if (rows.length === 0) return 0;
    const params = new Params();
    await tx.run(
      `update audit_chains set recorded_seq = seq, recorded_at = ${params.add(now)}
       where number in ${params.list(rows.map(({ number }) => number))}`,
      params.values,
    );
    const difference = Object.fromEntries(
      rows.map(({ tenant_id, seq, hash }) => [
        tenant_id,
        { to: `${seq}:${Buffer.from(hash).toString('hex')}` },
      ]),
    );
    await insertEntries(tx, db.dialect, keys, [
      { ...byOperator, at: now, operation: headsOperation, difference },
    ]);
    return rows.length;
  });
}
