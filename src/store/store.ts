/**
 * What the rest of the program asks of a database. Every comment is a promise that the contract tests hold
 * both databases to. The tenant is an argument of everything that reads or changes a tenant's data; a row of
 * another tenant and an expired row are answered like one that does not exist.
 */

import type { Application, ApplicationKey, ApplicationType } from '../domain/application.ts';
import type { Entry, LogEntry } from '../domain/audit.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Grants } from '../domain/grant.ts';
import type { JsonText } from '../domain/json-text.ts';
import type { Digest, Kind, Minted } from '../domain/key.ts';
import type { Mask } from '../domain/mask.ts';
import type { Resource } from '../domain/policy.ts';
import type { Principal } from '../domain/principal.ts';
import type { Session, SessionState } from '../domain/session.ts';
import type { Metadata, Token } from '../domain/token.ts';
import type { Transform } from '../domain/transform.ts';
import type { LastUses, Use } from '../domain/usage.ts';
import type { Visible } from '../domain/visible-scopes.ts';
import type { SignedCheckpoint } from './audit/hash-chain.ts';
import type { Rotated, Rotation } from './crypto/key-rotation.ts';

export interface NewApplication extends Grants {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly createdBy: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
}

/** Who changes something, and when. */
export interface Change {
  readonly by: string;
  readonly at: number;
}

export interface ApplicationFilter {
  readonly ids?: readonly string[] | undefined;
  readonly type?: ApplicationType | undefined;
  /** A substring of the name, in any case. */
  readonly name?: string | undefined;
  readonly expiresBefore?: number | undefined;
}

/** Newest first: `limit` rows that are older than the id `before`. */
export interface Window {
  readonly limit: number;
  readonly before: string | undefined;
}

/** Which part of a list. With a page number, rows are counted. Without, the page starts below the id `before`. */
export interface ListWindow {
  readonly size: number;
  readonly page?: number | undefined;
  readonly before?: string | undefined;
}

/**
 * Newest first. A list examines a bounded number of rows: a page may be shorter than its size, or empty, and still
 * have a `next`.
 */
export interface ListPage<T> {
  readonly rows: readonly T[];
  /** The list goes on below this id; undefined at its end. */
  readonly next: string | undefined;
  /** Undefined without a page number, and where there are too many to count. */
  readonly total: number | undefined;
  /** The page number is too high to be reached. */
  readonly tooDeep: boolean;
}

export interface Applications {
  /** Durable when it resolves, with its key: both or neither. */
  create(tenant: string, application: NewApplication, key: Minted): Promise<Application>;
  get(tenant: string, id: string): Awaitable<Application | undefined>;
  /** Newest first, whatever the order of `ids`. */
  list(tenant: string, filter: ApplicationFilter, window: ListWindow): Promise<ListPage<Application>>;
  /** Undefined if there are too many to count. */
  count(tenant: string): Promise<number | undefined>;
  /**
   * `revise` sees the Application as it is and answers with what it is to be, or throws. Two updates at once
   * happen one after the other, each seeing the other's outcome. Undefined if there is none.
   */
  update(
    tenant: string,
    id: string,
    change: Change,
    revise: (current: Application) => Grants & Pick<Application, 'name' | 'allowed_origins'>,
  ): Promise<Application | undefined>;
  /**
   * Every older key is dead for requests sent after this resolves. `rekey` sees the Application and answers
   * with its new key, or throws. Undefined if there is none.
   */
  regenerate(
    tenant: string,
    id: string,
    change: Change,
    rekey: (current: Application) => Minted,
  ): Promise<{ application: Application; key: Minted } | undefined>;
  /**
   * Its keys and sessions are invalid for requests sent after this resolves. The cost does not depend on how many
   * sessions there are: the sweep removes their rows in batches. False if there was none.
   */
  delete(tenant: string, id: string): Promise<boolean>;
}

export interface Keys {
  /** Newest first; none if there is no such Application. */
  list(tenant: string, application: string): Awaitable<ApplicationKey[]>;
  /**
   * One more key beside those that there are. `make` sees the Application and how many keys it has, which
   * stays so until the new one is there; it answers with the key, or throws. Undefined if there is no Application.
   */
  create(
    tenant: string,
    application: string,
    change: Change,
    make: (current: Application, keys: number) => Minted,
  ): Promise<{ made: ApplicationKey; key: Minted } | undefined>;
  /**
   * The key, and every Session that may do no more than it, is dead for requests sent after this resolves.
   * `check` sees the Application, and may throw. Undefined if there is no such key.
   */
  delete(
    tenant: string,
    application: string,
    id: string,
    check: (current: Application) => void,
  ): Promise<ApplicationKey | undefined>;
}

/** What was noted of an Application: the last moment of each key, and of each permission in each container. */
export interface ApplicationUse {
  readonly tenantId: string;
  readonly applicationId: string;
  readonly at: number;
  readonly keys: LastUses;
  readonly permissions: ReadonlyMap<string, LastUses>;
}

export interface Usage {
  /**
   * The latest moment stays, whoever writes it and in whichever order. What is gone meanwhile is passed over.
   * For each permission of an Application only so many containers are kept; more are put together.
   */
  write(uses: readonly ApplicationUse[]): Promise<void>;
  /** The latest first. */
  list(tenant: string, application: string): Awaitable<Use[]>;
}

export interface NewSession {
  readonly id: string;
  readonly applicationId: string;
  readonly key: Digest;
  readonly nonce: Digest;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface Authorization extends Grants {
  readonly by: string;
  /** The authorizer's key, if the Session may never do more than that key at that moment. */
  readonly ceiling: Digest | undefined;
  /** When the Session is to end, if not when it would by itself. */
  readonly expiresAt: number | undefined;
  /** How long after its creation a Session may end at most. */
  readonly longest: number;
}

export type Authorized =
  | { outcome: 'authorized'; session: string }
  | { outcome: 'unknown' }
  | { outcome: 'used' }
  /** The Session may end at this moment at the latest. Its nonce is not spent. */
  | { outcome: 'too_long'; latest: number };

export interface SessionFilter {
  readonly ids?: readonly string[] | undefined;
  readonly application?: string | undefined;
  readonly authorizer?: string | undefined;
  readonly state?: SessionState | undefined;
}

export interface Sessions {
  /**
   * Fails with `unauthenticated` if there is no such application. A session of an application that was deleted or
   * has expired may be created, but never works.
   */
  create(tenant: string, session: NewSession): Awaitable<void>;
  /** How many of the Application are alive and not authorized, counted up to `most`. */
  waiting(tenant: string, application: string, most: number): Awaitable<number>;
  /** Spends the nonce in one statement: of any number of calls at once, exactly one answers `authorized`. */
  authorize(tenant: string, nonce: Digest, authorization: Authorization): Awaitable<Authorized>;
  /** Newest first: those whose key works. */
  list(tenant: string, filter: SessionFilter, window: ListWindow): Promise<ListPage<Session>>;
  /** Its key is dead for requests sent after this resolves, and its nonce with it. False if there is none. */
  end(tenant: string, id: string): Promise<boolean>;
}

export interface Credentials {
  /**
   * Who shows this key, with what it may do, as it stands after the call was made; undefined if nobody.
   * A Session under a ceiling is nobody's as soon as the key that authorized it is gone, and every key of a
   * disabled tenant is nobody's.
   */
  find(kind: Kind, digest: Digest): Awaitable<Principal | undefined>;
}

/** A Token without its data, which is opened only when asked for. */
export interface StoredToken {
  readonly token: Omit<Token, 'data'>;
  readonly container: string;
  readonly id: string;
  /** Orders Tokens by age. */
  readonly seq: string;
  plaintext(): JsonText;
  /** Opens the masked value, and never the plaintext; undefined if there is no mask. */
  masked(): JsonText | undefined;
}

export interface TokenContent {
  readonly type: string;
  readonly container: string;
  readonly data: JsonText;
  readonly mask: Mask | undefined;
  /** What the mask makes of the data. */
  readonly masked: JsonText | undefined;
  readonly metadata: Metadata | undefined;
  readonly expiresAt: number | undefined;
}

export interface TokenFilter {
  readonly ids?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface TokenQuery extends ListWindow {
  /** Where to look for tokens. */
  readonly visible: Visible;
  /** What the caller sees of a token; undefined if it is hidden. It has the last word. */
  readonly show: (token: Resource) => Transform | undefined;
  readonly filter: TokenFilter;
}

/** A token as its transform shows it. */
export interface ShownToken {
  readonly seq: string;
  readonly token: Omit<Token, 'data'>;
  readonly data: JsonText | undefined;
}

/** Tokens of one application, and the bytes that they take. */
export interface Stored {
  readonly tokens: number;
  readonly bytes: number;
}

export interface Tokens {
  /** What the application has created and is still stored. Expired tokens count until they are swept. */
  stored(tenant: string, application: string): Awaitable<Stored>;
  /** Undefined if the id is taken. Data and masked value are sealed for this tenant, Token and version. */
  create(
    tenant: string,
    id: string,
    content: TokenContent,
    change: Change,
  ): Awaitable<StoredToken | undefined>;
  get(tenant: string, id: string): Awaitable<StoredToken | undefined>;
  /** Reads no more data than a page may have in bytes. */
  list(tenant: string, query: TokenQuery): Promise<ListPage<ShownToken>>;
  /**
   * Like the update of an Application. Throws `storage_full` if the token grows and its creator would have more than
   * `quota` bytes stored.
   */
  update(
    tenant: string,
    id: string,
    change: Change,
    revise: (current: StoredToken) => TokenContent,
    quota?: number,
  ): Promise<StoredToken | undefined>;
  /** `check` sees the Token, and may throw. False if there is none. */
  delete(tenant: string, id: string, check: (current: StoredToken) => void): Promise<boolean>;
}

export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly created_at: string;
  /** Since when its keys do not work; absent if they do. */
  readonly disabled_at?: string;
  /** Since when it is being deleted, with no way back. */
  readonly deleted_at?: string;
}

export interface NewTenant {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
  readonly application: NewApplication;
  readonly key: Minted;
}

/** What changes one answers false if there is none, or if it is being deleted. */
export interface Tenants {
  /** A tenant with its first management Application. */
  create(tenant: NewTenant): Promise<void>;
  get(id: string): Awaitable<Tenant | undefined>;
  /** Oldest first. */
  list(): Awaitable<Tenant[]>;
  rename(id: string, name: string): Promise<boolean>;
  /** The keys of its Applications and Sessions are dead for requests sent after this resolves. All else stays. */
  disable(id: string): Promise<boolean>;
  /** The keys work again, as far as they are still alive. */
  enable(id: string): Promise<boolean>;
  /** Disables it for ever, and destroys its data key: nothing that was sealed for it can be opened again. */
  condemn(id: string): Promise<boolean>;
}

export interface TenantRemoval {
  /** How many rows went, not counting what went with them. */
  readonly removed: number;
  /** Whether nothing is left to take away. */
  readonly done: boolean;
}

/** Tenant operations that need more than one transaction. */
export interface TenantsWhole {
  /**
   * Like `create`, unless there is a tenant already: of several nodes that start at once, one answers true.
   * `prepare` runs when it is certain to be this one, before anything is durable, and may throw to call it off.
   */
  createFirst(tenant: NewTenant, prepare?: () => void): Promise<boolean>;
  /**
   * Takes away about `limit` rows of a condemned tenant, and the tenant itself with the last. The audit log
   * stays. May be broken off and taken up again; leaves a tenant that is not condemned alone.
   */
  removeSome(id: string, limit: number): Promise<TenantRemoval>;
}

export interface NewEntry extends Entry {
  /** Absent where nobody knows whose it is. */
  readonly tenantId?: string | undefined;
  readonly at: number;
}

export interface AuditFilter {
  readonly actor?: string | undefined;
  readonly entity?: string | undefined;
  readonly operation?: string | undefined;
  readonly result?: Entry['result'] | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

export interface LogPage {
  readonly entries: LogEntry[];
  /** The id to continue before; absent if every entry was examined. */
  readonly next?: string | undefined;
}

export interface SealedEntries {
  readonly entries: LogEntry[];
  /** The last row that was examined; absent if the whole range was. */
  readonly end?: number | undefined;
}

export interface AuditLog {
  /** For what changed nothing: refusals. */
  write(entries: readonly NewEntry[]): Promise<void>;
  /** Newest first. Examines a bounded number of entries, so a page may be short or empty although there are more. */
  list(tenant: string, filter: AuditFilter, window: Window): Awaitable<LogPage>;
  /**
   * Takes at most `limit` rows that wait into the chain, each bound to all before it, and signs its end; answers
   * how many. Of several nodes at once, one does it. On SQLite none waits.
   */
  seal(limit: number): Promise<number>;
  /** The last checkpoint of the chain: everything up to it is sealed. */
  head(): Awaitable<SignedCheckpoint | undefined>;
  /**
   * Of the rows of the chain behind `after` and up to `upTo`, those that match, in their order. Examines a bounded
   * number of rows from one end of the range.
   */
  sealed(
    filter: AuditFilter & { readonly tenant?: string | undefined },
    range: { readonly after: number; readonly upTo: number },
    from: 'oldest' | 'newest',
  ): Awaitable<SealedEntries>;
  /** The lines of an export: every row that is sealed at this moment, with what proves it. */
  export(at: number): AsyncIterable<string>;
}

/** What identifies a request that may be sent again. */
export interface Repeatable {
  /** Who sends it. */
  readonly caller: string;
  /** The caller's own name for it. */
  readonly key: string;
  /** What it asks for; must be the same each time. */
  readonly request: string;
}

export interface Idempotency {
  /** The answer that the same request got within the last day. Refuses another request under the same name. */
  recall(tenant: string, repeatable: Repeatable): Promise<unknown>;
  remember(tenant: string, repeatable: Repeatable, reply: unknown, now: number): Promise<void>;
}

/** A change, its audit entry and the answer to remember: all of it or nothing. */
export interface StoreTransaction extends Pick<Store, 'applications' | 'keys' | 'sessions' | 'tokens'> {
  readonly tenants: Tenants;
  readonly idempotency: Idempotency;
  /** Written with the change itself: without it there is no change. */
  record(entry: NewEntry): void;
}

/** What an operator watches. */
export interface Gauges {
  readonly bytes: number;
  /** By table, estimated. */
  readonly rows: Readonly<Record<string, number>>;
  /** Applications that expire within a week. */
  readonly expiring: number;
  /** Seconds for which the oldest expired row has waited for the sweep. */
  readonly sweepLag: number;
  /** Audit rows not sealed yet, counted up to 10,000. */
  readonly unsealed: number;
}

export interface Store {
  readonly applications: Applications;
  readonly keys: Keys;
  readonly usage: Usage;
  readonly sessions: Sessions;
  readonly credentials: Credentials;
  readonly tokens: Tokens;
  readonly tenants: Tenants & TenantsWhole;
  readonly audit: AuditLog;
  /**
   * Runs a change in one transaction. Durable when it resolves; if `work` throws, nothing was changed. `work` awaits
   * only `tx`, and may run twice if the first transaction was rolled back. Changes of different entities may
   * interleave; changes of one entity, or without one, run in turn. Without a tenant, `tx` has no tokens.
   */
  change<T>(
    tenant: string | undefined,
    work: (tx: StoreTransaction) => Awaitable<T>,
    entity?: string | symbol,
  ): Promise<T>;
  /** Goes over to another master key, while others go on reading and writing. Nothing is left on the old one. */
  rotateMasterKey(rotation: Rotation): Promise<Rotated>;
  /**
   * Removes at most `limit` rows of each kind that are expired or belong to a deleted application, and returns how
   * many. Any node may call it.
   */
  sweep(limit: number): Promise<number>;
  /** Has the database look again at tables that have outgrown what it plans by, and answers which. */
  renewStatistics(): Promise<readonly string[]>;
  /** Cheap enough to be asked every few seconds. */
  gauges(): Promise<Gauges>;
  /** How many statements wait for the database. */
  inFlight(): number;
  /** Rejects when the database is out of reach, or its file is no longer in its place. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
