/**
 * Another master key, while nodes go on serving: whoever opens a key finds its master key by the fingerprint.
 * Keys are sealed anew a few at a time, so that nobody waits long for one. Wherever it breaks off, everything
 * can be opened with the master keys that are kept, and another rotation finishes it.
 */

import type { Db, Queries } from '../engine/db.ts';
import type { MasterKey } from './cipher.ts';
import {
  chainSlot,
  heldSealingMaster,
  type MasterKeys,
  mastersInUse,
  openKey,
  type SealedKey,
  type Slot,
  sealingMaster,
  sealKey,
  slotOf,
  WrongMasterKey,
  writeMasterKey,
} from './keyring.ts';

/** What the operator's side does; each is called while every other rotation is held off. */
export interface Rotation {
  /** The master key that is to seal from now on. It is kept beside the others when this returns. */
  next(current: string): MasterKey;
  /** Nothing is sealed with any but these any more. */
  done(inUse: readonly string[]): void;
}

export interface Rotated {
  readonly from: string;
  readonly to: string;
  readonly resealed: number;
}

const batch = 50;

export async function rotateMasterKey(db: Db, masters: MasterKeys, rotation: Rotation): Promise<Rotated> {
  const { from, to } = await db.exclusively(async (tx) => {
    const from = await sealingMaster(tx);
    const to = rotation.next(from);
    if (to.id !== from) await writeMasterKey(tx, to);
    return { from, to };
  });
  const find = (id: string) => (id === to.id ? to : masters.find(id));
  let resealed = 0;
  for (let last = batch; last > 0; resealed += last)
    last = await db.transaction((tx) => resealSome(db, tx, find));
  await db.exclusively(async (tx) => rotation.done(await mastersInUse(tx)));
  return { from, to: to.id, resealed };
}

/** With whichever master key seals now: if a second rotation has overtaken this one, with that one's. */
async function resealSome(db: Db, tx: Queries, find: MasterKeys['find']): Promise<number> {
  const to = known(find, await heldSealingMaster(db, tx));
  const chain = await tx.all<SealedKey>('select sealed, master_id from audit_key where master_id <> $1', [
    to.id,
  ]);
  const tenants = await tx.all<SealedKey & { tenant_id: string }>(
    'select tenant_id, sealed, master_id from data_keys where master_id <> $1 limit $2',
    [to.id, batch],
  );
  const found: [Slot, SealedKey][] = [
    ...chain.map((row): [Slot, SealedKey] => [chainSlot, row]),
    ...tenants.map((row): [Slot, SealedKey] => [slotOf(row.tenant_id), row]),
  ];
  for (const [slot, row] of found) {
    const key = openKey(slot, row, known(find, row.master_id));
    await tx.run(`update ${slot.table} set sealed = $2, master_id = $3 where ${slot.column} = $1`, [
      slot.value,
      sealKey(slot, key, to),
      to.id,
    ]);
  }
  return found.length;
}

function known(find: MasterKeys['find'], id: string): MasterKey {
  const key = find(id);
  if (!key) throw new WrongMasterKey(`the rotation needs the master key ${id}, which was not given`);
  return key;
}
