/** Data keys, one a tenant, sealed by a master key. Opened keys stay in memory; they never change. */
import { randomBytes } from 'node:crypto';
import { fail } from '../domain/error.ts';
import { type MasterKey, open, seal } from './cipher.ts';
import type { Awaitable, Db, Queries } from './db.ts';

/** The master keys that the operator has given; the first seals, all of them open. */
export interface MasterKeys {
  current(): MasterKey;
  /** Looks again at what was given if the key is not among those known so far. */
  find(id: string): MasterKey | undefined;
}

/** None of the master keys given is the one that this database was sealed with. */
export class WrongMasterKey extends Error {}

export interface Keyring {
  /** The tenant's data key, made at its first use. */
  of(tenant: string): Awaitable<Uint8Array>;
}

const proof = { place: 'sallyport proof', word: Buffer.from('sallyport') };

/** Refuses a database that was sealed with another master key; a new one is bound to the current key. */
export async function bindMasterKey(db: Db, masters: MasterKeys): Promise<void> {
  await db.exclusively(async (tx) => {
    const row = await tx.get<{ id: string; proof: Uint8Array }>(
      'select id, proof from master_key where one = 1',
    );
    if (!row) return writeMasterKey(tx, masters.current());
    const key = masters.find(row.id);
    if (key && open(key.bytes, proof.place, row.proof)) return;
    throw new WrongMasterKey(
      `the database was sealed with the master key ${row.id}, which SALLYPORT_MASTER_KEY or SALLYPORT_MASTER_KEY_FILE does not hold`,
    );
  });
}

async function writeMasterKey(tx: Queries, { id, bytes }: MasterKey): Promise<void> {
  await tx.run('delete from master_key');
  await tx.run('insert into master_key (one, id, proof) values (1, $1, $2)', [
    id,
    seal(bytes, proof.place, proof.word),
  ]);
}

const placeOf = (tenant: string) => `sallyport data key ${tenant}`;

export function keyring(db: Db, masters: MasterKeys): Keyring {
  const opened = new Map<string, Uint8Array>();

  async function load(tenant: string): Promise<Uint8Array> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const key = (await stored(tenant)) ?? (await make(tenant));
      if (!key) continue;
      opened.set(tenant, key);
      return key;
    }
    throw fail('unavailable', {
      cause: new Error('the master key of the database is not among those given'),
    });
  }

  async function stored(tenant: string): Promise<Uint8Array | undefined> {
    const row = await db.get<{ sealed: Uint8Array; master_id: string }>(
      'select sealed, master_id from data_keys where tenant_id = $1',
      [tenant],
    );
    const master = row && masters.find(row.master_id);
    return master && open(master.bytes, placeOf(tenant), row.sealed);
  }

  /** Only under the master key that seals at this moment, so that a rotation leaves none behind. */
  async function make(tenant: string): Promise<Uint8Array | undefined> {
    const current = await db.get<{ id: string }>('select id from master_key where one = 1');
    const master = current && masters.find(current.id);
    if (!master) return undefined;
    const key = randomBytes(32);
    const made = await db.run(
      `insert into data_keys (tenant_id, sealed, master_id)
       select $1, $2, m.id from master_key m where m.id = $3 on conflict do nothing`,
      [tenant, seal(master.bytes, placeOf(tenant), key), master.id],
    );
    return made > 0 ? key : undefined;
  }

  return { of: (tenant) => opened.get(tenant) ?? load(tenant) };
}

export interface Rotated {
  readonly from: string;
  readonly to: string;
  readonly resealed: number;
}

/**
 * Seals every data key with another master key, while nodes go on serving: whoever opens one finds the key by
 * its fingerprint. Nothing is left on the old key when this resolves.
 */
export async function rotateMasterKey(db: Db, masters: MasterKeys, to: MasterKey): Promise<Rotated> {
  return db.exclusively(async (tx) => {
    const row = await tx.get<{ id: string }>('select id from master_key where one = 1');
    await writeMasterKey(tx, to);
    const keys = await tx.all<{ tenant_id: string; sealed: Uint8Array; master_id: string }>(
      `select tenant_id, sealed, master_id from data_keys where master_id <> $1 ${db.dialect === 'postgres' ? 'for update' : ''}`,
      [to.id],
    );
    for (const { tenant_id, sealed, master_id } of keys) {
      const master = masters.find(master_id);
      const key = master && open(master.bytes, placeOf(tenant_id), sealed);
      if (!key)
        throw new WrongMasterKey(`the data key of tenant ${tenant_id} needs the master key ${master_id}`);
      const resealed = seal(to.bytes, placeOf(tenant_id), key);
      await tx.run('update data_keys set sealed = $2, master_id = $3 where tenant_id = $1', [
        tenant_id,
        resealed,
        to.id,
      ]);
    }
    return { from: row?.id ?? to.id, to: to.id, resealed: keys.length };
  });
}
