/**
 * Storage operations for operators: background jobs, CLI commands and the tools in src/operations. Request handlers use
 * store.ts. Methods that change a tenant return false if it does not exist or is being deleted.
 */
import type { Database } from 'bun:sqlite';
import type { AuditSource } from '../audit/delivery.ts';
import type { LogMaintenance } from '../audit/log.ts';
import type { Proof } from '../audit/proof.ts';
import type { Rotated, Rotation } from '../db/keys/key-rotation.ts';
import type { ChainKeys, MasterKeys } from '../db/keys/keyring.ts';
import type { ApplicationAccess, AuditRow, Closed } from '../domain/access/revocation.ts';
import type { Minted } from '../domain/key.ts';
import type { CopyOptions } from './copy-to-postgres.ts';
import type { Nodes } from './nodes.ts';
import type { Expiring } from './operator-queries.ts';
import type { NewApplication, NewEntry, StoreTransaction, Tenant } from './store.ts';
import type { TenantMoves } from './tenant-move.ts';

export interface NewTenant {
  readonly id: string;
  readonly tag: string;
  readonly name: string;
  readonly createdAt: number;
  readonly application: NewApplication;
  readonly key: Minted;
}

export interface Tenants {
  /** Creates the tenant together with its first management application. */
  create(tenant: NewTenant): Promise<void>;
  get(id: string): Promise<Tenant | undefined>;
  /** Oldest first. */
  list(): Promise<Tenant[]>;
  /** Whether there is a tenant, without those that have moved to other installations. */
  exist(): Promise<boolean>;
  rename(id: string, name: string): Promise<boolean>;
  /**
   * Limits the lifetime of applications and keys to `max` milliseconds, for every request sent after this resolves.
   * Existing applications and keys are unchanged. `undefined` removes the limit.
   */
  limitLifetime(id: string, max: number | undefined): Promise<boolean>;
  /** Limits the purposes that requests may state, for every request sent after this resolves. `undefined`: no limit. */
  setPurposes(id: string, purposes: readonly string[] | undefined): Promise<boolean>;
  /**
   * Makes the keys of the tenant's applications and sessions invalid, for every request sent after this resolves. Its
   * data is unchanged.
   */
  disable(id: string): Promise<boolean>;
  /** Makes the keys of a disabled tenant valid again, unless they were revoked or have expired. */
  enable(id: string): Promise<boolean>;
  /** Whether a move from or to another installation is not finished. The tenant must not be changed until then. */
  isMoving(id: string): Promise<boolean>;
  /**
   * Replaces the key of the search index. `Maintenance.reindexSearch` indexes the tokens again. Until then, searches find
   * tokens with both keys. Also returns false if the previous rotation has not ended, or if the tenant has no tokens yet.
   */
  rotateSearchKey(id: string): Promise<boolean>;
  /**
   * Disables the tenant permanently and deletes its data key, so that its encrypted data can no longer be decrypted.
   */
  markDeleted(id: string): Promise<boolean>;
}

export interface TenantRemoval {
  /** The number of deleted rows, without rows that foreign keys deleted. */
  readonly removed: number;
  /** Whether no rows of the tenant remain. */
  readonly done: boolean;
}

/**
 * The audit log for operators: one chain of segments per tenant, and the system chain for entries without a tenant.
 * Methods that read return only sealed entries: call `seal` first to include all entries.
 */
export type AuditMaintenance = LogMaintenance & Proof;

export interface Gauges {
  readonly bytes: number;
  /** Estimated rows by table. */
  readonly rows: Readonly<Record<string, number>>;
  /** Applications that expire within a week. */
  readonly expiring: number;
  /** Keys that expire within a week, not counting the expiry of their application. */
  readonly expiringKeys: number;
  /** Seconds since the expiry of the oldest expired row that the sweep has not removed. */
  readonly sweepLag: number;
  /** Audit entries that are not sealed yet. From 10,000 on, an estimate on PostgreSQL; on SQLite not more. */
  readonly unsealed: number;
  /** 1 if the disk of a SQLite database is full, otherwise 0. */
  readonly diskFull: number | undefined;
  /** PostgreSQL only. Undefined if the server does not provide these numbers. */
  readonly connections?: Connections | undefined;
}

/** Connections to the PostgreSQL server by the database user of the service. */
export interface Connections {
  readonly busy: number;
  readonly idle: number;
  /** Maximum number of connections that the server accepts, without those that are reserved for superusers. */
  readonly max: number;
}

export interface Settings {
  /**
   * Stores the value of a setting. Returns undefined if the value is unchanged. Otherwise stores the time of the change
   * and returns the previous value as `from`; `from` is undefined for a new setting.
   */
  replace(
    name: string,
    value: string,
    at: number,
  ): Promise<{ readonly from: string | undefined } | undefined>;
}

/** Access that was revoked after the backup and is valid again. */
export interface Revived {
  readonly tenants: readonly RevivedTenant[];
  /** Without those of deleted tenants. */
  readonly applications: readonly RevivedApplication[];
}

export interface RevivedTenant {
  readonly tenant_id: string;
  readonly name: string;
  readonly closed: Closed;
}

export interface RevivedApplication {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly name: string;
  /** Whether the application was deleted. */
  readonly deleted: boolean;
  /** Keys that were revoked and are valid again. */
  readonly keys: readonly { readonly id: string; readonly ending: string }[];
  /** The last grants, origins, networks and expiry before the restore, if they allowed less than those in the backup. */
  readonly access?: ApplicationAccess;
  /** Whether the application was in quarantine. */
  readonly quarantined: boolean;
}

export interface Recovered {
  readonly sessions: number;
  readonly replies: number;
}

export interface TenantTransaction extends Omit<StoreTransaction, 'tokens' | 'idempotency'> {
  readonly tenants: Tenants;
  readonly settings: Settings;
}

export interface Maintenance {
  readonly tenants: Tenants;
  readonly audit: AuditMaintenance;
  readonly sinks: AuditSource;
  readonly nodes: Nodes;
  /** Runs `work` in one transaction. Durable when it resolves. Rolled back if `work` throws. */
  changeTenants<T>(work: (transaction: TenantTransaction) => Promise<T>): Promise<T>;
  /**
   * Creates the tenant if the database has none. If several nodes call this concurrently, only one returns true.
   * `prepare` runs in the transaction that creates the tenant. If `prepare` throws, the transaction is rolled back.
   */
  createFirstTenant(tenant: NewTenant, prepare?: () => void): Promise<boolean>;
  /**
   * Deletes about `limit` rows of a tenant that was marked as deleted. When no rows remain, deletes the tenant itself.
   * The audit log is not deleted. May be interrupted and called again. Does nothing for other tenants.
   */
  removeTenantRows(id: string, limit: number): Promise<TenantRemoval>;
  /**
   * Rewraps every data key and the audit keys with the next master key. Other nodes can read and write while this runs.
   */
  rotateMasterKey(rotation: Rotation): Promise<Rotated>;
  currentMasterKey(): Promise<string>;
  /** The ids of the current master key, and of the one that `rotateMasterKey` would use. Changes nothing. */
  nextMasterKey(rotation: Rotation): Promise<{ readonly current: string; readonly next: string }>;
  readonly moves: TenantMoves;
  /**
   * Moves a tenant to another server of a Citus cluster, such as `host:5432`. Returns the server that had its rows.
   * Until then, changes of the tenant wait or fail, and so do those of tenants in the same shard. Calls `onStart` unless the
   * tenant is there already. Throws `NoSuchServer`.
   */
  moveToServer(id: string, server: string, onStart: (from: string) => Promise<void>): Promise<string>;
  /** Copies all rows of a SQLite database to this database, which must be empty. See `copyToPostgres`. */
  copyFrom(source: Database, options: CopyOptions): Promise<Record<string, number>>;
  /** Finds what the audit entries `rows` revoked and this database still allows. */
  lookUpRevived(rows: readonly AuditRow[]): Promise<Revived>;
  /**
   * Deletes all sessions, nonces and idempotency records, revokes `revoke` again, and writes `entries` and those about
   * the revocations, at the time `at`, in one transaction. The rows of deleted tenants remain.
   */
  repeatRevocations(revoke: Revived, at: number, entries: readonly NewEntry[]): Promise<Recovered>;
  /** Lists at most `limit` applications and keys that expire within `within` milliseconds, earliest first. */
  expiring(within: number, limit: number): Promise<Expiring[]>;
  /**
   * Removes at most `limit` rows of each kind that are expired or belong to a deleted application, or on PostgreSQL ten
   * times as many sessions. Returns the number of removed rows. Any node may call this.
   */
  sweep(limit: number): Promise<number>;
  /**
   * Writes audit entries about applications and keys that expire in 7 days or 1 day, each once. Returns the number of
   * entries, at most four times `limit`. Any node may call this.
   */
  writeExpiryNotices(limit: number): Promise<number>;
  /**
   * Indexes some tokens with the search key that `Tenants.rotateSearchKey` has created, and returns their number: 0 when
   * none is left. Any node may call this, at any time.
   */
  reindexSearch(): Promise<number>;
  /**
   * Runs `analyze` on tables that have grown much since it last ran, and returns their names. Does nothing on SQLite.
   */
  analyzeTables(): Promise<readonly string[]>;
  /**
   * Cheap enough to be called every few seconds. Rejects if the database cannot be reached, or if a SQLite file is no
   * longer at its path.
   */
  gauges(): Promise<Gauges>;
  /** How many statements and transactions are waiting for the database. */
  inFlight(): number;
  readonly masters: MasterKeys;
  /** The keys of the audit log; rejects if the store was opened without a master key. */
  chainKeys(): Promise<ChainKeys>;
}
