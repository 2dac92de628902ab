/** Data keys, one a tenant, and those of the audit chain, sealed by a master key. Opened keys stay in memory; they never change. */
import { randomBytes } from 'node:crypto';
import type { Awaitable } from '../../domain/awaitable.ts';
import { fail } from '../../domain/error.ts';
import { type ChainKeys, newChainKeys, packChainKeys, unpackChainKeys } from '../audit/hash-chain.ts';
import { type Db, type Queries, rowLock } from '../engine/db.ts';
import { type MasterKey, open, seal } from './cipher.ts';

/** The master keys that the operator has given; the first seals, all of them open. */
export interface MasterKeys {
  current(): MasterKey;
  /** Looks again at what was given if the key is not among those known so far. */
  find(id: string): MasterKey | undefined;
  /** Says behind the name of a key where it was looked for in vain. */
  readonly lacking?: () => string;
}

/** None of the master keys given is the one that this database was sealed with. */
export class WrongMasterKey extends Error {}

/** Returns the data key of the tenant that it was prepared for. */
export type DataKey = (tenant: string) => Uint8Array;

export interface Keyring {
  /** The tenant's data key, created on first use. */
  of(tenant: string): Awaitable<Uint8Array>;
  /** The same for use within a transaction, which cannot wait for it. An error is thrown when the key is used. */
  prepare(tenant: string): Awaitable<DataKey>;
  /** Drops keys of deleted tenants from memory. */
  forget(): Promise<void>;
  /** The keys of the audit chain, made when the database is opened first, so that every backup has them. */
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
    if (!key || !open(key.bytes, proof.place, row.proof))
      throw new WrongMasterKey(`the database was sealed with the master key ${row.id}, ${lacking(masters)}`);
    const left = (await mastersInUse(tx)).find((id) => !masters.find(id));
    if (left === undefined) return;
    throw new WrongMasterKey(
      `a rotation was not finished, and still needs the master key ${left}, ${lacking(masters)}`,
    );
  });
}

export function lacking(masters: Pick<MasterKeys, 'lacking'>): string {
  return masters.lacking?.() ?? 'which was not given';
}

/** The fingerprint of the one that seals what is new. */
export async function sealingMaster(tx: Queries, lock = ''): Promise<string> {
  const row = await tx.get<{ id: string }>(`select id from master_key where one = 1 ${lock}`);
  return row?.id as string;
}

/** The same, and it stays so until the transaction ends: a rotation waits for whoever goes by it. */
export function heldSealingMaster(db: Pick<Db, 'dialect'>, tx: Queries): Promise<string> {
  return sealingMaster(tx, rowLock(db, 'for share'));
}

/** The fingerprints of all that something is sealed with. */
export async function mastersInUse(tx: Queries): Promise<string[]> {
  const rows = await tx.all<{ id: string }>(
    'select id from master_key union select master_id from data_keys union select master_id from audit_key',
  );
  return rows.map(({ id }) => id);
}

export async function writeMasterKey(tx: Queries, { id, bytes }: MasterKey): Promise<void> {
  await tx.run(
    `insert into master_key (one, id, proof) values (1, $1, $2)
     on conflict (one) do update set id = excluded.id, proof = excluded.proof`,
    [id, seal(bytes, proof.place, proof.word)],
  );
}

/** Where a sealed key is kept: one a tenant, and one for the audit chain. */
export interface Slot {
  readonly table: string;
  readonly column: string;
  readonly value: string | number;
  /** Of the key in it, which is sealed for this slot alone. */
  readonly name: string;
}

export const slotOf = (tenant: string): Slot => ({
  table: 'data_keys',
  column: 'tenant_id',
  value: tenant,
  name: `data key ${tenant}`,
});
export const chainSlot: Slot = { table: 'audit_key', column: 'one', value: 1, name: 'audit key' };

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
  const packed = opened(chainSlot, sealed, master);
  return packed && unpackChainKeys(packed);
}

export function sealKey({ name }: Slot, key: Uint8Array, master: MasterKey): Uint8Array {
  return seal(master.bytes, `sallyport ${name}`, key);
}

function opened({ name }: Slot, sealed: Uint8Array, master: MasterKey): Uint8Array | undefined {
  return open(master.bytes, `sallyport ${name}`, sealed);
}

export function openKey(slot: Slot, { sealed }: SealedKey, master: MasterKey): Uint8Array {
  const key = opened(slot, sealed, master);
  if (!key) throw new Error(`the ${slot.name} does not open: its row was changed outside the program`);
  return key;
}

function ofOne(tenant: string, key: () => Uint8Array): DataKey {
  return (asked) => {
    if (asked === tenant) return key();
    throw new Error('a change uses the data of one tenant only');
  };
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
      cause: new Error(`the ${slot.name} needs a master key, ${lacking(masters)}`),
    });
  }

  async function stored(slot: Slot): Promise<Uint8Array | undefined> {
    const row = await db.get<SealedKey>(
      `select sealed, master_id from ${slot.table} where ${slot.column} = $1`,
      [slot.value],
    );
    const master = row && masters.find(row.master_id);
    return master && openKey(slot, row, master);
  }

  /** Only under the master key that seals at this moment, so that a rotation leaves none behind. */
  function make(slot: Slot, key: Uint8Array): Promise<Uint8Array | undefined> {
    return db.transaction(async (tx) => {
      const master = masters.find(await heldSealingMaster(db, tx));
      if (!master) return undefined;
      const made = await tx.run(
        `insert into ${slot.table} (${slot.column}, sealed, master_id) values ($1, $2, $3) on conflict do nothing`,
        [slot.value, sealKey(slot, key, master), master.id],
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
    prepare: (tenant) => {
      const key = known.get(tenant);
      if (key) return ofOne(tenant, () => key);
      return ofTenant(tenant).then(
        (loaded) => ofOne(tenant, () => loaded),
        (error) =>
          ofOne(tenant, () => {
            throw error;
          }),
      );
    },
    forget: async () => {
      const before = [...known.keys()];
      if (before.length === 0) return;
      const rows = await db.all<{ tenant_id: string }>('select tenant_id from data_keys');
      const there = new Set(rows.map(({ tenant_id }) => tenant_id));
      for (const tenant of before) if (!there.has(tenant)) known.delete(tenant);
    },
    ofChain: () => chain ?? loadChain(),
  };
}
