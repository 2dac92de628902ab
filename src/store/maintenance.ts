/**
 * Storage operations of the operator: background jobs, CLI commands and the tools in src/operations. Request handlers
 * use store.ts. Methods that change a tenant return false if it does not exist or is being deleted.
 */
import type { LogEntry } from '../domain/audit.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Minted } from '../domain/key.ts';
import type { Retention } from './audit/delivered.ts';
import type { Deliveries } from './audit/deliveries.ts';
import type { ChainKeys, SignedCheckpoint } from './audit/hash-chain.ts';
import type { Reindexed } from './audit/reindex.ts';
import type { Part } from './audit/verify-chain-options.ts';
import type { Rotated, Rotation } from './crypto/key-rotation.ts';
import type { MasterKeys } from './crypto/keyring.ts';
import type { Db } from './engine/db.ts';
import type { Nodes } from './nodes.ts';
import type { AuditFilter, LogPage, LogWindow, NewApplication, StoreTransaction, Tenant } from './store.ts';

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
   * Limits the lifetime of applications and keys to `max` milliseconds, for every request sent after this resolves.
   * Existing ones are unchanged. Undefined removes the limit.
   */
  limitLifetime(id: string, max: number | undefined): Promise<boolean>;
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

/** An entry with its position in the chain. */
export type ChainedEntry = LogEntry & { readonly seq: number };

export interface ChainedEntries {
  readonly entries: ChainedEntry[];
  /** The position of the last entry, if there are more. */
  readonly end?: number | undefined;
}

/** The end of a chain. */
export interface ChainHead {
  /** Undefined for the chain of the entries without a tenant. */
  readonly tenantId: string | undefined;
  readonly seq: number;
  readonly hash: Uint8Array;
  /** The highest time of its entries. */
  readonly at: number;
  /** Entries up to this position were archived and deleted. */
  readonly baseSeq: number;
}

/**
 * The hash chains of the audit log: one per tenant, and one for the entries without a tenant, which `undefined` stands
 * for. Reading methods return chained entries: call `append` before, to include all that were written.
 */
export interface AuditChain {
  /**
   * Appends at most `limit` entries that are not yet chained to their hash chains, and signs checkpoints. Returns how
   * many. With `tenant`, which is null for entries without a tenant, waits for other nodes that append to that chain;
   * otherwise leaves such a chain to them.
   */
  append(limit: number, tenant?: string | null): Promise<number>;
  /** All chains, in the order of their first entries. */
  heads(): Promise<ChainHead[]>;
  /**
   * The entries of a chain with a position above `after` and up to `upTo`, in ascending order: at most `limit`, and
   * fewer if they are large.
   */
  range(
    tenant: string | undefined,
    range: { readonly after: number; readonly upTo?: number | undefined },
    limit: number,
  ): Promise<ChainedEntries>;
  /** The checkpoints of a chain above `afterSeq`, in ascending order. */
  checkpoints(tenant: string | undefined, afterSeq: number, limit: number): Promise<SignedCheckpoint[]>;
  /** Like `AuditLog.list`, for any chain. */
  list(tenant: string | undefined, filter: AuditFilter, window: LogWindow): Promise<LogPage>;
  /**
   * For every tenant chain that has grown, records its last entry in the system chain. This makes it detectable if the
   * end of a tenant's chain, or all of it, is deleted. Each chain is recorded at most once a minute, except with
   * `all`.
   */
  recordHeads(which?: 'all'): Promise<void>;
  /**
   * The parts of an export: every entry of all chains that is chained now, or of the chain of one tenant, which is
   * `systemTenant` for entries without one. Throws `EntriesDeleted` while it is read if entries are deleted meanwhile.
   */
  export(at: number, tenant?: string): Promise<Part[]>;
  /**
   * Rebuilds the index of the chain of one tenant, which is `systemTenant` for entries without one. Returns undefined if
   * it has no chain. Calls `between` between two transactions, which may throw to stop.
   */
  reindex(tenant: string, between?: () => Promise<void>): Promise<Reindexed | undefined>;
  /**
   * Deletes entries that are older than the retention and that every sink has received, in small batches. Returns how
   * many chains were shortened. Rejects if a chain does not verify, and deletes nothing from it. Any node may call it.
   */
  deleteDelivered(retention: Retention): Promise<number>;
}

export interface Gauges {
  readonly bytes: number;
  /** Estimated rows by table. */
  readonly rows: Readonly<Record<string, number>>;
  /** Applications that expire within a week. */
  readonly expiring: number;
  /** Keys with an expiry of their own within a week. */
  readonly expiringKeys: number;
  /** Seconds since the oldest row that the sweep has not removed yet expired. */
  readonly sweepLag: number;
  /** Audit entries that are not yet chained, counted up to 10,000. */
  readonly unchained: number;
  /** PostgreSQL only; undefined if the server does not tell. */
  readonly connections?: Connections | undefined;
}

/** Connections of the user of the service to its PostgreSQL server. */
export interface Connections {
  readonly busy: number;
  readonly idle: number;
  /** What the server accepts, without the connections that are reserved for superusers. */
  readonly max: number;
}

export interface Settings {
  /**
   * Returns the previous value if it was different or there was none, and stores the time of the change. Returns
   * undefined if the value is unchanged.
   */
  replace(
    name: string,
    value: string,
    at: number,
  ): Promise<{ readonly from: string | undefined } | undefined>;
}

export interface TenantTransaction extends Omit<StoreTransaction, 'tokens' | 'idempotency'> {
  readonly tenants: Tenants;
  readonly settings: Settings;
}

export interface Maintenance {
  readonly tenants: Tenants;
  readonly audit: AuditChain;
  readonly deliveries: Deliveries;
  readonly nodes: Nodes;
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
  /**
   * Writes audit entries about applications and keys that expire in 7 days or 1 day, each once. Returns how many, about `limit` at
   * most. Any node may call it.
   */
  writeExpiryNotices(limit: number): Promise<number>;
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
