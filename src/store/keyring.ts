/** Data keys, one a tenant, and those of the audit chain, sealed by a master key. Opened keys stay in memory; they never change. */
import { randomBytes } from 'node:crypto';
import { fail } from '../domain/error.ts';
import { type ChainKeys, newChainKeys, packChainKeys, unpackChainKeys } from './chain.ts';
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
  /** The same, of a tenant whose key was asked for before: within a transaction nothing may be waited for. */
  opened(tenant: string): Uint8Array;
  /** The keys of the audit chain, made at their first use. */
  ofChain(): Awaitable<ChainKeys>;
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
  await tx.run(
    `insert into master_key (one, id, proof) values (1, $1, $2)
     on conflict (one) do update set id = excluded.id, proof = excluded.proof`,
    [id, seal(bytes, proof.place, proof.word)],
  );
}

/** Where a sealed key is kept: one a tenant, and one for the audit chain. */
interface Slot {
  readonly table: string;
  readonly column: string;
  readonly value: string | number;
  readonly place: string;
}

const slotOf = (tenant: string): Slot => ({
  table: 'data_keys',
  column: 'tenant_id',
  value: tenant,
  place: `sallyport data key ${tenant}`,
});
const chainSlot: Slot = { table: 'audit_key', column: 'one', value: 1, place: 'sallyport audit key' };

export interface SealedKey {
  readonly sealed: Uint8Array;
  readonly master_id: string;
}

/** The keys of the audit chain as they are kept. */
export function sealedChainKeys(db: Queries): Awaitable<SealedKey | undefined> {
  return db.get<SealedKey>('select sealed, master_id from audit_key where one = 1');
}

/** Undefined if they were sealed with another master key. */
export function openChainKeys(master: MasterKey, sealed: Uint8Array): ChainKeys | undefined {
  const packed = open(master.bytes, chainSlot.place, sealed);
  return packed && unpackChainKeys(packed);
}

export function keyring(db: Db, masters: MasterKeys): Keyring {
  const known = new Map<string, Uint8Array>();
  let chain: ChainKeys | undefined;

  /** What is in the slot, or what `fresh` makes; if another node makes it at the same time, one wins. */
  async function load(slot: Slot, fresh: () => Uint8Array): Promise<Uint8Array> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const key = (await stored(slot)) ?? (await make(slot, fresh()));
      if (key) return key;
    }
    throw fail('unavailable', {
      cause: new Error('the master key of the database is not among those given'),
    });
  }

  async function stored({ table, column, value, place }: Slot): Promise<Uint8Array | undefined> {
    const row = await db.get<SealedKey>(`select sealed, master_id from ${table} where ${column} = $1`, [
      value,
    ]);
    const master = row && masters.find(row.master_id);
    return master && open(master.bytes, place, row.sealed);
  }

  /** Only under the master key that seals at this moment, so that a rotation leaves none behind. */
  function make({ table, column, value, place }: Slot, key: Uint8Array): Promise<Uint8Array | undefined> {
    return db.transaction(async (tx) => {
      const current = await tx.get<{ id: string }>(`select id from master_key where one = 1 ${forShare(db)}`);
      const master = current && masters.find(current.id);
      if (!master) return undefined;
      const made = await tx.run(
        `insert into ${table} (${column}, sealed, master_id) values ($1, $2, $3) on conflict do nothing`,
        [value, seal(master.bytes, place, key), master.id],
      );
      return made > 0 ? key : undefined;
    });
  }

  async function ofTenant(tenant: string): Promise<Uint8Array> {
    const key = await load(slotOf(tenant), () => randomBytes(32));
    known.set(tenant, key);
    return key;
  }

  async function loadChain(): Promise<ChainKeys> {
    chain = unpackChainKeys(await load(chainSlot, () => packChainKeys(newChainKeys())));
    return chain;
  }

  return {
    of: (tenant) => known.get(tenant) ?? ofTenant(tenant),
    opened: (tenant) => {
      const key = known.get(tenant);
      if (!key) throw new Error('the data key of the tenant was not asked for before');
      return key;
    },
    ofChain: () => chain ?? loadChain(),
  };
}

/** So that a rotation waits for a key that is being made. */
function forShare(db: Pick<Db, 'dialect'>): string {
  return db.dialect === 'postgres' ? 'for share' : '';
}

export interface Rotated {
  readonly from: string;
  readonly to: string;
  readonly resealed: number;
}

/**
 * Seals every key with another master key, while nodes go on serving: whoever opens one finds the master key
 * by its fingerprint. Nothing is left on the old one when this resolves.
 */
export async function rotateMasterKey(db: Db, masters: MasterKeys, to: MasterKey): Promise<Rotated> {
  return db.exclusively(async (tx) => {
    const row = await tx.get<{ id: string }>('select id from master_key where one = 1');
    await writeMasterKey(tx, to);
    const tenants = await tx.all<{ tenant_id: string }>(
      'select tenant_id from data_keys where master_id <> $1',
      [to.id],
    );
    const slots = [chainSlot, ...tenants.map(({ tenant_id }) => slotOf(tenant_id))];
    for (const slot of slots) await reseal(tx, slot, masters, to);
    return { from: row?.id ?? to.id, to: to.id, resealed: tenants.length };
  });
}

async function reseal(tx: Queries, slot: Slot, masters: MasterKeys, to: MasterKey): Promise<void> {
  const { table, column, value, place } = slot;
  const row = await tx.get<SealedKey>(`select sealed, master_id from ${table} where ${column} = $1`, [value]);
  if (!row || row.master_id === to.id) return;
  const master = masters.find(row.master_id);
  const key = master && open(master.bytes, place, row.sealed);
  if (!key)
    throw new WrongMasterKey(`the ${place.replace('sallyport ', '')} needs the master key ${row.master_id}`);
  await tx.run(`update ${table} set sealed = $2, master_id = $3 where ${column} = $1`, [
    value,
    seal(to.bytes, place, key),
    to.id,
  ]);
}
