/**
 * Replaces the master key while nodes serve requests. Every wrapped key names its master key, so a node that has the
 * old and the new master key can unwrap all keys. Keys are rewrapped in small batches, so that locks are short. An
 * interrupted rotation is safe: the configured master keys can still unwrap all keys. Another rotation rewraps the
 * rest.
 */

import type { Db, Queries } from '../db.ts';
import { everyTenant } from '../sql.ts';
import { raw, sql } from '../statement.ts';
import type { MasterKey } from './cipher.ts';
import {
  chainSlot,
  currentMaster,
  lockCurrentMaster,
  type MasterKeys,
  mastersInUse,
  type Slot,
  slotOf,
  unwrapKey,
  type WrappedKey,
  WrongMasterKey,
  wrapKey,
  writeMasterKey,
} from './keyring.ts';

/** The operator's storage of master keys. No other rotation runs while one of these functions is called. */
export interface Rotation {
  /** Returns the new master key, after storing it next to the old ones. */
  next(current: string): MasterKey;
  /** Called at the end with the ids of all master keys that are still needed. */
  done(inUse: readonly string[]): void;
}

export interface Rotated {
  readonly from: string;
  readonly to: string;
  readonly rewrapped: number;
}

const batch = 50;

export async function rotateMasterKey(db: Db, masters: MasterKeys, rotation: Rotation): Promise<Rotated> {
  const { from, to } = await db.exclusively(async (tx) => {
    const from = await currentMaster(tx);
    const to = rotation.next(from);
    if (to.id !== from) await writeMasterKey(tx, to);
    return { from, to };
  });
  const find = (id: string) => (id === to.id ? to : masters.find(id));
  let rewrapped = 0;
  for (let last = batch; last > 0; rewrapped += last)
    last = await db.transaction((tx) => rewrapSome(tx, find));
  await db.exclusively(async (tx) => rotation.done(await mastersInUse(tx)));
  return { from, to: to.id, rewrapped };
}

/**
 * Rewraps one batch of keys and returns its size. Uses the current master key of the database, which a second rotation
 * may have changed.
 */
async function rewrapSome(tx: Queries, find: MasterKeys['find']): Promise<number> {
  const to = mustFind(find, await lockCurrentMaster(tx));
  const chain = await tx.all<WrappedKey>(sql`
    select wrapped, master_id from audit_key where master_id <> ${to.id}`);
  const tenants = await tx.all<WrappedKey & { tenant_id: string }>(sql`
    select tenant_id, wrapped, master_id from data_keys where master_id <> ${to.id} limit ${batch} ${everyTenant}`);
  const found: [Slot, WrappedKey][] = [
    ...chain.map((row): [Slot, WrappedKey] => [chainSlot, row]),
    ...tenants.map((row): [Slot, WrappedKey] => [slotOf(row.tenant_id), row]),
  ];
  for (const [slot, row] of found) {
    const key = unwrapKey(slot, row, mustFind(find, row.master_id));
    await tx.run(sql`update ${raw(slot.table)} set wrapped = ${wrapKey(slot, key, to)}, master_id = ${to.id}
      where ${raw(slot.column)} = ${slot.value}`);
  }
  return found.length;
}

function mustFind(find: MasterKeys['find'], id: string): MasterKey {
  const key = find(id);
  if (!key) throw new WrongMasterKey(`the rotation needs the master key ${id}, which was not given`);
  return key;
}
