/**
 * The storage interface of the request handlers. Contract tests verify on SQLite and PostgreSQL what the comments here
 * promise. Operator tools use maintenance.ts.
 *
 * Methods that read or change a tenant's data take the tenant as an argument. Rows of another tenant and expired rows
 * are treated as missing.
 */
import type { AuditFilter, AuditLog, NewEntry } from '../audit/records.ts';
import type { ReportManifest } from '../domain/access/report.ts';
import type { Application, ApplicationKey } from '../domain/application.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Destination } from '../domain/destination.ts';
import type { Digest, Minted, ParsedKey } from '../domain/key.ts';
import type { Principal } from '../domain/principal.ts';
import type { Session } from '../domain/session.ts';
import type { KeyUsage, Use } from '../domain/usage.ts';
import type {
  ApplicationFilter,
  ApplicationUpdate,
  ApplicationUse,
  Authorization,
  Authorized,
  Change,
  CountedInterval,
  CountedSessions,
  DestinationFields,
  IdempotentRequest,
  KeyExpiry,
  ListPage,
  ListWindow,
  NewApplication,
  NewDelegation,
  NewIssuedKey,
  NewSession,
  RequestCountList,
  RevokedKey,
  SessionFilter,
  StoredDestination,
  Subject,
  SubjectBatch,
  SubjectScan,
  Tenant,
  WorkloadTarget,
} from './records.ts';
import type { Tokens } from './token-records.ts';

export type {
  AuditFilter,
  AuditLog,
  CountFilter,
  DenialCounts,
  LogCounts,
  LogPage,
  LogWindow,
  NewEntry,
} from '../audit/records.ts';
export type * from './records.ts';
export type * from './token-records.ts';

/** Every change of an application results in a later `modified_at`, also within one millisecond. */
export interface Applications {
  /** Creates the application together with its first key. */
  create(tenant: string, application: NewApplication, key: Minted): Promise<Application>;
  get(tenant: string, id: string): Promise<Application | undefined>;
  /** The order of `ids` is ignored. */
  list(tenant: string, filter: ApplicationFilter, window: ListWindow): Promise<ListPage<Application>>;
  /**
   * Applications that expired after `since`, but were not removed by the sweep yet, and those of which a rule may have
   * ended since, with the rules that have ended. No other method returns these. At most `limit` of each. Deleted
   * applications are left out.
   */
  endedSince(tenant: string, since: number, limit: number): Promise<Application[]>;
  /** Returns undefined if there are too many to count. */
  count(tenant: string): Promise<number | undefined>;
  /**
   * Calls `revise` with the current application and stores the fields that it returns. `stored` also has the rules that
   * have ended. Rejects without a change if `revise` throws. Concurrent updates run one after another, each on the result of the previous one. Returns
   * undefined if the application does not exist.
   */
  update(
    tenant: string,
    id: string,
    change: Change,
    revise: (current: Application, stored: Application) => ApplicationUpdate,
  ): Promise<Application | undefined>;
  /**
   * Puts the application into quarantine or releases it, for every request sent after this resolves. Does nothing if it
   * is already in that state. Rejects without a change if `check` throws. Returns undefined if the application does not
   * exist.
   */
  setQuarantine(
    tenant: string,
    id: string,
    change: Change,
    isQuarantined: boolean,
    check: (current: Application) => void,
  ): Promise<{ before: Application; after: Application } | undefined>;
  /**
   * Replaces all keys with the key that `rekey` returns. `rekey` gets the application and the number of old keys that
   * stay valid for a time. Rejects without a change if `rekey` throws. Without `oldKeysExpireAt`, the old keys are
   * invalid for every request sent after this resolves. Returns undefined if the application does not exist.
   */
  regenerate(
    tenant: string,
    id: string,
    change: Change,
    rekey: (current: Application, keys: number) => Minted,
    expiry?: KeyExpiry,
  ): Promise<{ application: Application; key: Minted } | undefined>;
  /**
   * Deletes the application. Its keys and sessions are invalid for every request sent after this resolves. The cost
   * does not depend on the number of sessions: the sweep removes their rows in batches. Rejects without a change if
   * `check` throws. Returns the deleted application, or undefined if it does not exist.
   */
  delete(
    tenant: string,
    id: string,
    check?: (current: Application) => void,
  ): Promise<Application | undefined>;
}

export interface Keys {
  /** Newest first. Empty if the application does not exist. */
  list(tenant: string, application: string): Promise<ApplicationKey[]>;
  /**
   * Calls `mint` with the application and its number of keys, and adds the key that it returns. Concurrent calls run
   * one after another. Rejects without a change if `mint` throws. Without `oldKeysExpireAt`, existing keys are
   * unchanged. Returns undefined if the application does not exist.
   */
  create(
    tenant: string,
    application: string,
    change: Change,
    mint: (current: Application, keys: number) => Minted,
    expiry?: KeyExpiry,
  ): Promise<{ created: ApplicationKey; key: Minted } | undefined>;
  /**
   * Calls `make` with the application and adds the key that it returns. `refused`: the application does not exist, or
   * `make` returned undefined. `used`: the JWT works once and was used before; of several concurrent calls with the same
   * JWT, exactly one returns `issued`. Concurrent calls for an application run one after another. A sign-in ends the
   * oldest sessions of the person if there are too many, `ended` of them.
   */
  issue(
    tenant: string,
    application: string,
    make: (current: Application) => NewIssuedKey | undefined,
  ): Promise<
    | {
        readonly outcome: 'issued';
        readonly issued: NewIssuedKey;
        readonly id: string;
        readonly ended: number;
      }
    | { readonly outcome: 'refused' }
    | { readonly outcome: 'used' }
    | { readonly outcome: 'too_many' }
  >;
  /** Extends the session of a person in the console, never beyond its end. Does nothing if it has ended. */
  renew(tenant: string, application: string, id: string, expiresAt: number): Promise<void>;
  /**
   * Deletes a key. The key, and every session whose ceiling it is, is invalid for every request sent after this
   * resolves. Rejects without a change if `check` throws. Returns undefined if the key does not exist.
   */
  delete(
    tenant: string,
    application: string,
    id: string,
    check: (current: Application) => void,
  ): Promise<ApplicationKey | undefined>;
}

export interface Destinations {
  /** Returns `too_many` if the tenant has `max` destinations, `name_taken` if one has the same name. */
  create(
    tenant: string,
    id: string,
    fields: DestinationFields,
    change: Change,
    max: number,
  ): Promise<StoredDestination | 'too_many' | 'name_taken'>;
  get(tenant: string, id: string): Promise<StoredDestination | undefined>;
  named(tenant: string, name: string): Promise<StoredDestination | undefined>;
  /** The ids of the destinations with these names or ids, by name or id. Those that do not exist are left out. */
  locate(tenant: string, references: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Newest first. */
  list(
    tenant: string,
    filter: { readonly ids?: readonly string[] | undefined; readonly name?: string | undefined },
    window: ListWindow,
  ): Promise<ListPage<Destination>>;
  /** Like `Applications.update`. The version changes with every update. */
  update(
    tenant: string,
    id: string,
    change: Change,
    revise: (current: StoredDestination) => Omit<DestinationFields, 'origin'>,
  ): Promise<StoredDestination | 'name_taken' | undefined>;
  /** Deletes the destination. Returns undefined if it does not exist. Rejects without a change if `check` throws. */
  delete(tenant: string, id: string, check: (current: Destination) => void): Promise<Destination | undefined>;
  /** Stops the use of the tokens at the destination by the application. Does nothing if the destination was deleted. */
  stop(tenant: string, id: string, application: string, tokens: readonly string[], at: number): Promise<void>;
  /** Whether the use of one of the tokens is stopped. */
  isStopped(tenant: string, id: string, application: string, tokens: readonly string[]): Promise<boolean>;
  /** Allows the use again. Returns whether it was stopped, or undefined if the destination does not exist. */
  allow(tenant: string, id: string, application: string, token: string): Promise<boolean | undefined>;
}

export interface Usage {
  /**
   * Stores the latest time of each use by applications of one tenant, and adds the requests of their keys; the order of
   * calls is irrelevant. Ignores applications and keys that no longer exist. The number of containers per permission is
   * limited: if there are more, they are merged into containers above them.
   */
  write(uses: readonly ApplicationUse[]): Promise<void>;
  /** Most recent first. */
  list(tenant: string, application: string): Promise<Use[]>;
  /** `list` for several applications, by id. Applications without uses are left out. */
  listAll(tenant: string, applications: readonly string[]): Promise<Map<string, Use[]>>;
  /** The requests with each key of an application, newest key first. */
  keys(tenant: string, application: string, now: number): Promise<KeyUsage[]>;
}

export interface RequestCounts {
  /** Adds to the stored counts of one tenant. Does nothing if the tenant no longer exists. */
  add(intervals: readonly CountedInterval[]): Promise<void>;
  /**
   * The counts of a period in at most `maxIntervals` intervals of equal length, five minutes or longer. Without `from`,
   * the period starts at the first count; without `to`, it ends now.
   */
  list(tenant: string, period: Pick<AuditFilter, 'from' | 'to'>, now: number): Promise<RequestCountList>;
}

export interface Sessions {
  /**
   * Throws `unauthenticated` if the application has no row. The row of a deleted or expired application exists until the
   * sweep. Until then a session of it may be created, but its key is never valid.
   */
  create(tenant: string, session: NewSession): Awaitable<void>;
  /**
   * Creates a delegation. Returns when it ends: at its own expiry, or that of its application or of the issuing key, if
   * earlier. Throws like `create`.
   */
  delegate(tenant: string, delegation: NewDelegation): Promise<number>;
  /** Counts a request of a delegation with limited uses. Returns false if no use was left. */
  spendUse(tenant: string, id: string): Promise<boolean>;
  /** How many of these sessions the application has, counted up to `max`. */
  count(tenant: string, application: string, counted: CountedSessions, max: number): Awaitable<number>;
  /** Exactly one of several concurrent calls with the same nonce returns `authorized`. */
  authorize(tenant: string, nonce: Digest, authorization: Authorization): Awaitable<Authorized>;
  /** Sessions whose key is valid. */
  list(tenant: string, filter: SessionFilter, window: ListWindow): Promise<ListPage<Session>>;
  /**
   * Ends a session. Its key and its nonce are invalid for every request sent after this resolves. Returns its
   * kind, or undefined if the session does not exist.
   */
  end(tenant: string, id: string): Promise<Session['kind'] | undefined>;
  /**
   * Ends every session of the subject whose authorization was committed before the call. A concurrent authorization
   * ends, too, or comes afterwards: of two that were committed one after the other, never only the second one ends. The
   * cost does not depend on the number of sessions.
   */
  endAll(tenant: string, subject: string): Promise<void>;
  /**
   * Puts the session into quarantine at the time `at`, or releases it if `at` is undefined, for every request sent
   * after this resolves. Does nothing if it is already in that state. Returns undefined if the session does not exist.
   */
  setQuarantine(
    tenant: string,
    id: string,
    at: number | undefined,
  ): Promise<{ before: Session; after: Session } | undefined>;
}

export interface Credentials {
  /** Whether `find` reads a database in this process and usually returns without waiting. */
  readonly isLocal: boolean;
  /**
   * The principal of a key, with every change that was committed before the call. Returns undefined if the key is
   * unknown or expired, if its tenant is disabled, or if it belongs to a session whose ceiling is no longer valid. Throws
   * `unavailable` while its tenant moves to another installation, and `tenant_moved` afterwards.
   */
  find(key: ParsedKey): Awaitable<Principal | undefined>;
}

export interface Subjects {
  /** The applications with these ids, in any order. Ids that do not exist are left out. */
  applications(tenant: string, ids: readonly string[]): Promise<Subject[]>;
  /** The applications with these names, in any order. A name that several applications have is left out. */
  named(tenant: string, names: readonly string[]): Promise<Subject[]>;
  /** The sessions with these ids whose key is valid, in any order. Ids that do not exist are left out. */
  sessions(tenant: string, ids: readonly string[]): Promise<Subject[]>;
  /** Reads a batch of applications, or of active sessions whose key is valid. */
  scan(tenant: string, kind: Subject['kind'], scan: SubjectScan): Promise<SubjectBatch>;
  /**
   * When each application last used the permission in the container, or in a container below or above it. Containers
   * above count, because uses of many containers are recorded for a container above them. Applications without such a
   * use are left out.
   */
  lastUses(
    tenant: string,
    applications: readonly string[],
    permission: string,
    container: string,
  ): Promise<Map<string, string>>;
}

export interface Idempotency {
  /**
   * Returns the reply to the same request within the last day, or undefined. Throws `idempotency_mismatch` if the key
   * was used for a different request, and `idempotency_running` if another transaction is using the key.
   */
  find(tenant: string, request: IdempotentRequest): Promise<unknown>;
  /**
   * Stores the reply, and counts it against the storage of the application. Throws `storage_full` if the application
   * would have more than `quota` bytes stored.
   */
  save(
    tenant: string,
    request: IdempotentRequest,
    reply: unknown,
    now: number,
    quota?: number,
  ): Promise<void>;
}

/** Repositories bound to one transaction: the change, its audit entry and its idempotency record commit together. */
export interface StoreTransaction {
  /** Reads the credentials again, with every change that was committed before. */
  readonly credentials: Pick<Credentials, 'find'>;
  readonly applications: Applications;
  readonly keys: Keys;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly destinations: Destinations;
  readonly idempotency: Idempotency;
  record(entry: NewEntry): void;
  /** Signs a report with the key of the audit log, together with the end of the tenant's chain. */
  signReport(report: Omit<ReportManifest, 'anchor' | 'signature'>): Promise<ReportManifest>;
}

export interface Store {
  readonly applications: Applications;
  readonly keys: Keys;
  readonly usage: Usage;
  readonly requestCounts: RequestCounts;
  readonly sessions: Sessions;
  readonly subjects: Subjects;
  readonly credentials: Credentials;
  readonly tokens: Tokens;
  readonly destinations: Destinations;
  readonly tenants: { get(id: string): Promise<Tenant | undefined> };
  readonly audit: AuditLog;
  /**
   * Runs `work` in one transaction. Durable when it resolves. Rolled back if `work` throws. `work` may await only the
   * transaction, and may run again if the transaction was rolled back. Changes of different entities may interleave.
   * Changes of the same entity run one after another, and so do changes without an entity. On a full disk, only
   * essential changes are made. Without `alone`, concurrent changes may share the transaction.
   */
  change<T>(
    tenant: string,
    work: (transaction: StoreTransaction) => Promise<T>,
    entity?: string | symbol,
    manner?: 'essential' | 'alone',
  ): Promise<T>;
  /** Resolves when everything that was read so far is on disk. What `change` resolves or rejects with is. */
  durable(): Promise<void>;
  /**
   * Revokes the application key with this tag and digest and ends all sessions that it authorized, or ends the session
   * with this tag and digest. Writes the audit entry that `entryOf` returns. The keys are invalid for every request sent after this
   * resolves. Runs the same statements if the key does not exist.
   */
  revokeKey(
    key: Pick<ParsedKey, 'tag' | 'digest'>,
    entryOf: (revoked: RevokedKey | undefined, at: number) => NewEntry,
  ): Promise<void>;
  /**
   * The application with this id in the tenant with this tag. Returns undefined if it does not exist or its tenant is
   * disabled. Runs the same statements then.
   */
  findWorkloadTarget(tag: string, application: string): Promise<WorkloadTarget | undefined>;
  /**
   * The management applications with trusted issuers of the tenant with this tag, oldest first. Without a tag, of the
   * only tenant. Returns undefined if no tenant matches, or several.
   */
  findSignInTargets(
    tag: string | undefined,
  ): Promise<{ readonly tenant: string; readonly targets: readonly WorkloadTarget[] } | undefined>;
  /**
   * The sessions in the console of all tenants with this session at the provider, or else of this subject, that began
   * before a time.
   */
  findPersonSessions(person: {
    readonly before: number;
    readonly issuer: string;
    readonly subject?: string | undefined;
    readonly sid?: string | undefined;
  }): Promise<
    readonly { readonly tenantId: string; readonly applicationId: string; readonly keyId: string }[]
  >;
  /** Returns false if the logout token was used before, on any node. */
  spendLogout(token: {
    readonly issuer: string;
    readonly jti: string;
    readonly expiresAt: number;
  }): Promise<boolean>;
  /**
   * Rejects if this node cannot serve requests: if the database cannot be reached or is read-only, if a SQLite file is
   * no longer at its path, or if the current master key is not configured. `isDiskFull`: only essential changes are made.
   */
  ping(): Promise<{ readonly isDiskFull: boolean }>;
}
