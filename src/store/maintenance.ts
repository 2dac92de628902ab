/**
 * Storage operations of the operator: background jobs, CLI commands and the tools in src/operations. Request handlers
 * use store.ts. Methods that change a tenant return false if it does not exist or is being deleted.
 */
import type { LogEntry } from '../domain/audit.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Minted } from '../domain/key.ts';
import type { ChainKeys, SignedCheckpoint } from './audit/hash-chain.ts';
import type { Rotated, Rotation } from './crypto/key-rotation.ts';
import type { MasterKeys } from './crypto/keyring.ts';
import type { Db } from './engine/db.ts';
import type { AuditFilter, NewApplication, StoreTransaction, Tenant } from './store.ts';

export interface NewTenant {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
  readonly application: NewApplication;
  readonly key: Minted;
}

export interface Tenants {
  /** Creates the tenant together with its first management application. */
  create(tenant: NewTenant): Promise<void>;
  /** Returns undefined if the tenant does not exist. */
  get(id: string): Awaitable<Tenant | undefined>;
  /** Oldest first. */
  list(): Awaitable<Tenant[]>;
  rename(id: string, name: string): Promise<boolean>;
  /**
   * The keys of its applications and sessions are invalid for every request sent after this resolves. Its data is
   * unchanged.
   */
  disable(id: string): Promise<boolean>;
  /** Its keys work again, unless they were revoked or have expired. */
  enable(id: string): Promise<boolean>;
  /** Disables it permanently and deletes its data key: its encrypted data cannot be decrypted any more. */
  markDeleted(id: string): Promise<boolean>;
}

export interface TenantRemoval {
  /** Rows that were deleted, without cascaded ones. */
  readonly removed: number;
  /** No rows of the tenant remain. */
  readonly done: boolean;
}

export interface ChainedEntries {
  readonly entries: LogEntry[];
  /** The last sequence number that was examined; absent if the whole range was. */
  readonly end?: number | undefined;
}

export interface AuditChain {
  /**
   * Appends at most `limit` entries that are not yet chained to the hash chain and signs a checkpoint. Returns how many.
   * If several nodes call it concurrently, one of them does it. On SQLite entries are chained when they are written.
   */
  append(limit: number): Promise<number>;
  /** The last checkpoint; undefined if the chain is empty. */
  head(): Awaitable<SignedCheckpoint | undefined>;
  /**
   * The matching entries with a sequence number above `after` and up to `upTo`, in ascending order. Examines a bounded
   * number of rows, starting at the given end of the range.
   */
  range(
    filter: AuditFilter & { readonly tenant?: string | undefined },
    range: { readonly after: number; readonly upTo: number },
    from: 'oldest' | 'newest',
  ): Awaitable<ChainedEntries>;
  /** The lines of an export: every entry that is chained now, with its proof. */
  export(at: number): AsyncIterable<string>;
}

export interface Gauges {
  readonly bytes: number;
  /** Estimated rows by table. */
  readonly rows: Readonly<Record<string, number>>;
  /** Applications that expire within a week. */
  readonly expiring: number;
  /** Seconds since the oldest row that the sweep has not removed yet expired. */
  readonly sweepLag: number;
  /** Audit entries that are not yet chained, counted up to 10,000. */
  readonly unchained: number;
}

export interface Settings {
  /** Returns the previous value if it was different or there was none. Returns undefined if the value is unchanged. */
  replace(name: string, value: string): Promise<{ readonly from: string | undefined } | undefined>;
}

export interface TenantTransaction extends Omit<StoreTransaction, 'tokens' | 'idempotency'> {
  readonly tenants: Tenants;
  readonly settings: Settings;
}

export interface Maintenance {
  readonly tenants: Tenants;
  readonly audit: AuditChain;
  /** Runs `work` in one transaction. Durable when it resolves. Rolled back if `work` throws. */
  changeTenants<T>(work: (transaction: TenantTransaction) => Awaitable<T>): Promise<T>;
  /**
   * Creates the tenant if the database has none. If several nodes call it concurrently, one returns true. `prepare` runs
   * in the transaction that creates the tenant, which is rolled back if it throws.
   */
  createFirstTenant(tenant: NewTenant, prepare?: () => void): Promise<boolean>;
  /**
   * Deletes about `limit` rows of a tenant that was marked as deleted, and with the last of them the tenant. The audit
   * log is not deleted. May be interrupted and called again. Does nothing for other tenants.
   */
  removeTenantRows(id: string, limit: number): Promise<TenantRemoval>;
  /** Rewraps every data key with the next master key. Other nodes can read and write while it runs. */
  rotateMasterKey(rotation: Rotation): Promise<Rotated>;
  /**
   * Removes at most `limit` rows of each kind that are expired or belong to a deleted application, and returns how
   * many. Any node may call it.
   */
  sweep(limit: number): Promise<number>;
  /** Analyzes the tables that have grown much since the last time and returns their names. On SQLite none. */
  analyzeTables(): Promise<readonly string[]>;
  /** Cheap enough to be called every few seconds. Rejects like `ping`. */
  gauges(): Promise<Gauges>;
  /** How many statements and transactions are waiting for the database. */
  inFlight(): number;
  /** For tools that run their own SQL. */
  readonly db: Db;
  readonly masters: MasterKeys;
  /** The keys of the hash chain; rejects if the store was opened without a master key. */
  chainKeys(): Awaitable<ChainKeys>;
}
