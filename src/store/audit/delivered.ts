/** Deletes old entries that every sink has received. */
import type { Awaitable } from '../../domain/awaitable.ts';
import type { MasterKeys } from '../crypto/keyring.ts';
import type { Db, DbTime } from '../engine/db.ts';
import { archivePart } from './export.ts';
import { type ChainKeys, systemTenant } from './hash-chain.ts';
import { deleteBatch, findCut, recordRemoval } from './retention.ts';
import { allChains, type Chain } from './rows.ts';
import { DamagedChain } from './signed-position.ts';
import { verifyParts } from './verify.ts';

export interface Retention {
  /** Milliseconds after which delivered entries are deleted. */
  readonly age: number;
  /**
   * The last position of a chain that every sink has received. Returns undefined if there are no sinks: then no entry
   * is deleted. `tenantId` is undefined for the system chain.
   */
  readonly deliveredUpTo: (tenantId: string | undefined) => Awaitable<number | undefined>;
  /** Called between batches. Returns false to stop. */
  readonly goOn: () => boolean;
}

/**
 * Deletes entries that are older than the retention and were delivered. They must verify first, so that evidence of
 * tampering is not deleted. Returns the number of shortened chains. If some chains fail, the others are still
 * processed, and the first error is thrown at the end.
 */
export async function deleteDelivered(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  masters: MasterKeys,
  retention: Retention,
): Promise<number> {
  const now = Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
  const errors: unknown[] = [];
  let shortened = 0;
  for (const chain of await chainsWithOldEntries(db, now - retention.age)) {
    if (!retention.goOn()) break;
    try {
      if (await shorten(db, chainKeys, masters, now, chain, retention)) shortened += 1;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return shortened;
}

/** Chains whose first entry in the database is older than `before`. */
async function chainsWithOldEntries(db: Db, before: number): Promise<Chain[]> {
  const rows = await db.all<{ number: number }>(
    `select c.number from audit_chains c join audit a on a.chain = c.number and a.seq = c.base_seq + 1
     where a.at < $1`,
    [before],
  );
  const old = new Set(rows.map(({ number }) => number));
  return (await allChains(db)).filter(({ number }) => old.has(number));
}

async function shorten(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  masters: MasterKeys,
  now: number,
  chain: Chain,
  { age, deliveredUpTo, goOn }: Retention,
): Promise<boolean> {
  const { tenantId, baseSeq } = chain;
  const delivered = await deliveredUpTo(tenantId === systemTenant ? undefined : tenantId);
  if (delivered === undefined || delivered <= baseSeq) return false;
  const keys = await chainKeys();
  const cut = await findCut(db, keys, chain, { before: now - age, now }, Math.min(delivered, chain.seq));
  if (!cut) return false;
  const part = await archivePart(db, chainKeys, now, chain, cut);
  const { ok } = await verifyParts([part], { masters, log: keys, archives: 'ignored' });
  if (!ok) throw new DamagedChain(tenantId);
  const last = { seq: cut.seq, hash: Buffer.from(cut.hash).toString('hex') };
  await recordRemoval(db, keys, now, tenantId, { first: baseSeq + 1, last });
  while (goOn() && (await deleteBatch(db, keys, tenantId, last)));
  return true;
}
