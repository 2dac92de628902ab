/**
 * The data key of each tenant and the keys of the audit chain, wrapped by a master key. Unwrapped keys are cached in
 * memory; they never change.
 */

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { fail } from '../../domain/error.ts';
import { type Db, type Queries, rowLock } from '../db.ts';
import { WorkerUnreachable } from '../postgres/postgres-errors.ts';
import { everyTenant } from '../sql.ts';
import { none, raw, sql } from '../statement.ts';
import { decrypt, encrypt, type MasterKey } from './cipher.ts';

/** The configured master keys. A new database is bound to the first one. All of them can unwrap keys. */
export interface MasterKeys {
  current(): MasterKey;
  /** Reads the configuration again if the key is not known yet. */
  find(id: string): MasterKey | undefined;
  /** The ids of all configured keys. Reads a key file again, but does not run a command again. */
  ids(): readonly string[];
  /** The end of an error message about a missing key. It says where the key was looked for. */
  readonly missingReason?: () => string;
}

/** A master key that the database needs is not configured. */
export class WrongMasterKey extends Error {}

export interface ChainKeys {
  /** For the MACs of audit entries. */
  readonly mac: Uint8Array;
  /** For the signatures of segments: an Ed25519 key in PKCS #8. */
  readonly signing: Uint8Array;
}

/** Creates keys and packs them into one value, which the master key can wrap. */
export function newChainKeys(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ed25519');
  return Buffer.concat([randomBytes(32), privateKey.export({ type: 'pkcs8', format: 'der' })]);
}

export function unpackChainKeys(packed: Uint8Array): ChainKeys {
  return { mac: packed.slice(0, 32), signing: packed.slice(32) };
}

export interface Keyring {
  /** The tenant's data key, created on first use. */
  dataKey(tenant: string): Promise<Uint8Array>;
  /**
   * Loads the data key before a transaction starts, because the transaction must not wait for it. If loading fails, the
   * returned function throws the error.
   */
  prepareDataKey(tenant: string): Promise<() => Uint8Array>;
  /** Drops keys of deleted tenants from memory. */
  forget(): Promise<void>;
  /** The keys of the audit chain. Created when the database is first opened, so that every backup has them. */
  chainKeys(): Promise<ChainKeys>;
}

const proof = { context: 'sallyport proof', text: Buffer.from('sallyport') };

/**
 * Checks that all master keys that the database needs are configured; throws `WrongMasterKey` if one is not. Unless
 * `readOnly`, binds a new database to the current key, under a lock.
 */
export async function bindMasterKey(db: Db, masters: MasterKeys, readOnly = false): Promise<void> {
  // Essential, so that a service starts on a full disk.
  const check = (inUse?: typeof mastersInUse) =>
    db.change((tx) => checkMasterKeys(tx, masters, inUse), undefined, undefined, true);
  const isBound = await check().catch((error) => {
    if (!(error instanceof WorkerUnreachable)) throw error;
    // While a worker of a Citus cluster is lost, nodes start for the tenants of the others.
    return check(async () => []);
  });
  if (isBound || readOnly) return;
  await db.exclusively(async (tx) => {
    if (!(await checkMasterKeys(tx, masters))) await writeMasterKey(tx, masters.current());
  });
}

/** Returns false if the database is not bound to a master key yet. */
async function checkMasterKeys(tx: Queries, masters: MasterKeys, inUse = mastersInUse): Promise<boolean> {
  const row = await tx.get<{ id: string; proof: Uint8Array }>(
    'select id, proof from master_key where one = 1',
  );
  if (!row) return false;
  const key = masters.find(row.id);
  if (!key || !decrypt(key.bytes, proof.context, row.proof))
    throw new WrongMasterKey(`the database needs the master key ${row.id}, ${missingReason(masters)}`);
  const missing = (await inUse(tx)).find((id) => !masters.find(id));
  if (missing === undefined) return true;
  throw new WrongMasterKey(
    `a rotation of the master key is not finished and needs the old key ${missing}, ${missingReason(masters)}`,
  );
}

export function missingReason(masters: Pick<MasterKeys, 'missingReason'>): string {
  return masters.missingReason?.() ?? 'which was not given';
}

export async function currentMaster(tx: Queries, lock = none): Promise<string> {
  const row = await tx.get<{ id: string }>(sql`select id from master_key where one = 1 ${lock}`);
  return row?.id as string;
}

/** Like `currentMaster`. Locks the row, so that a rotation waits until the transaction ends. */
export function lockCurrentMaster(tx: Queries): Promise<string> {
  return currentMaster(tx, rowLock(tx, 'for share'));
}

/** The ids of all master keys that are needed to unwrap something. */
export async function mastersInUse(tx: Queries): Promise<string[]> {
  const rows = await tx.all<{ id: string }>(sql`
    select id from master_key union select master_id from data_keys
      union select master_id from audit_key ${everyTenant}`);
  return rows.map(({ id }) => id);
}

export async function writeMasterKey(tx: Queries, { id, bytes }: MasterKey): Promise<void> {
  await tx.run(sql`
    insert into master_key (one, id, proof) values (1, ${id}, ${encrypt(bytes, proof.context, proof.text)})
     on conflict (one) do update set id = excluded.id, proof = excluded.proof`);
}

/** The place of a wrapped key in the database. There is one per tenant, and one for the audit chain. */
export interface Slot {
  readonly table: string;
  readonly column: string;
  readonly value: string | number;
  /** The context of the encryption, so that a wrapped key cannot be moved to another slot. */
  readonly name: string;
}

export const slotOf = (tenant: string): Slot => ({
  table: 'data_keys',
  column: 'tenant_id',
  value: tenant,
  name: `data key ${tenant}`,
});
export const chainSlot: Slot = { table: 'audit_key', column: 'one', value: 1, name: 'audit key' };

export interface WrappedKey {
  readonly wrapped: Uint8Array;
  readonly master_id: string;
}

export async function wrappedChainKeys(db: Queries): Promise<WrappedKey | undefined> {
  return db.get<WrappedKey>('select wrapped, master_id from audit_key where one = 1');
}

/** Returns undefined if another master key has wrapped the chain keys. */
export function unwrapChainKeys(master: MasterKey, wrapped: Uint8Array): ChainKeys | undefined {
  const packed = tryUnwrap(chainSlot, wrapped, master);
  return packed && unpackChainKeys(packed);
}

export function wrapKey({ name }: Slot, key: Uint8Array, master: MasterKey): Uint8Array {
  return encrypt(master.bytes, `sallyport ${name}`, key);
}

function tryUnwrap({ name }: Slot, wrapped: Uint8Array, master: MasterKey): Uint8Array | undefined {
  return decrypt(master.bytes, `sallyport ${name}`, wrapped);
}

export function unwrapKey(slot: Slot, { wrapped }: WrappedKey, master: MasterKey): Uint8Array {
  const key = tryUnwrap(slot, wrapped, master);
  if (!key) throw new Error(`the ${slot.name} cannot be unwrapped: its row was changed by another program`);
  return key;
}

export function keyring(db: Db, masters: MasterKeys): Keyring {
  const cache = new Map<string, Uint8Array>();
  let chainKeys: ChainKeys | undefined;

  /**
   * Loads the key of a slot, or creates it. If several nodes create it concurrently, all get the key that was stored.
   * Throws `unavailable` if the master key is not configured.
   */
  async function load(slot: Slot, create: () => Uint8Array): Promise<Uint8Array> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const key = (await stored(slot)) ?? (await insert(slot, create()));
      if (key) return key;
    }
    throw fail('unavailable', {
      cause: new Error(`the ${slot.name} needs a master key, ${missingReason(masters)}`),
    });
  }

  async function stored(slot: Slot): Promise<Uint8Array | undefined> {
    const row = await db.get<WrappedKey>(sql`
      select wrapped, master_id from ${raw(slot.table)} where ${raw(slot.column)} = ${slot.value}`);
    const master = row && masters.find(row.master_id);
    return master && unwrapKey(slot, row, master);
  }

  /**
   * Wraps the key with the current master key and stores it. Holds a lock, so that a rotation cannot miss the key.
   * Returns undefined if another node has stored a key first, or if the master key is not configured.
   */
  function insert(slot: Slot, key: Uint8Array): Promise<Uint8Array | undefined> {
    return db.transaction(async (tx) => {
      const master = masters.find(await lockCurrentMaster(tx));
      if (!master) return undefined;
      const inserted = await tx.run(sql`
        insert into ${raw(slot.table)} (${raw(slot.column)}, wrapped, master_id)
          values (${slot.value}, ${wrapKey(slot, key, master)}, ${master.id}) on conflict do nothing`);
      return inserted > 0 ? key : undefined;
    });
  }

  async function loadDataKey(tenant: string): Promise<Uint8Array> {
    const key = await load(slotOf(tenant), () => randomBytes(32));
    cache.set(tenant, key);
    return key;
  }

  async function loadChainKeys(): Promise<ChainKeys> {
    chainKeys = unpackChainKeys(await load(chainSlot, newChainKeys));
    return chainKeys;
  }

  return {
    dataKey: async (tenant) => cache.get(tenant) ?? loadDataKey(tenant),
    prepareDataKey: async (tenant) => {
      const cached = cache.get(tenant);
      if (cached) return () => cached;
      return loadDataKey(tenant).then(
        (key) => () => key,
        (error) => () => {
          throw error;
        },
      );
    },
    forget: async () => {
      const cached = [...cache.keys()];
      if (cached.length === 0) return;
      const rows = await db.all<{ tenant_id: string }>(sql`select tenant_id from data_keys ${everyTenant}`);
      const stored = new Set(rows.map(({ tenant_id }) => tenant_id));
      for (const tenant of cached) if (!stored.has(tenant)) cache.delete(tenant);
    },
    chainKeys: async () => chainKeys ?? loadChainKeys(),
  };
}
