/** The inputs, results and filters of the repositories in store.ts. */

import type { Application, ApplicationType } from '../domain/application.ts';
import type { Entry, LogEntry, LogGap } from '../domain/audit.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Grants } from '../domain/grant.ts';
import type { JsonText } from '../domain/json-text.ts';
import type { Digest } from '../domain/key.ts';
import type { Mask } from '../domain/mask.ts';
import type { Resource } from '../domain/policy.ts';
import type { EffectiveGrants } from '../domain/quarantine.ts';
import type { Transform } from '../domain/rule.ts';
import type { SessionState } from '../domain/session.ts';
import type { Metadata, Token } from '../domain/token.ts';
import type { LastUses } from '../domain/usage.ts';
import type { Visible } from '../domain/visible-scopes.ts';

/** Who makes a change, and when. */
export interface Change {
  readonly by: string;
  readonly at: number;
}

/** Either a page number, which also counts the rows, or the page that starts below the id `before`. */
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
  /** The next page starts below this id; undefined on the last page. */
  readonly next: string | undefined;
  /** Undefined without a page number, or if there are too many rows to count. */
  readonly total: number | undefined;
  /** The page number is too high to be reached. */
  readonly tooDeep: boolean;
}

export interface NewApplication extends Grants {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly requireBoundSessions?: boolean | undefined;
  readonly createdBy: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  /** Expiry of its first key. If undefined, the key expires with the application. */
  readonly keyExpiresAt?: number | undefined;
}

/** The fields that an update replaces. */
export type ApplicationUpdate = Grants &
  Pick<Application, 'name' | 'allowed_origins' | 'require_bound_sessions' | 'expires_at'>;

export interface ApplicationFilter {
  readonly ids?: readonly string[] | undefined;
  readonly type?: ApplicationType | undefined;
  /** A substring of the name; case is ignored. */
  readonly name?: string | undefined;
  readonly expiresBefore?: number | undefined;
}

/** When an application last used each key, and each permission in each container. */
export interface ApplicationUse {
  readonly tenantId: string;
  readonly applicationId: string;
  readonly at: number;
  readonly keys: LastUses;
  readonly permissions: ReadonlyMap<string, LastUses>;
}

export interface NewSession {
  readonly id: string;
  readonly applicationId: string;
  readonly key: Digest;
  readonly nonce: Digest;
  /** The thumbprint of the key that the session is bound to. Undefined if it is not bound. */
  readonly jkt?: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface Authorization extends Grants {
  readonly by: string;
  /** The authorizer's key, if the access of that key limits the session. */
  readonly ceiling: Digest | undefined;
  /** Replaces the session's own expiry, if defined. */
  readonly expiresAt: number | undefined;
  /** Milliseconds between the creation of a session and its latest possible expiry. */
  readonly maxLifetime: number;
}

export type Authorized =
  | { outcome: 'authorized'; session: string }
  | { outcome: 'unknown' }
  | { outcome: 'used' }
  /** `expiresAt` is later than `latest`. The nonce can still be used. */
  | { outcome: 'too_long'; latest: number };

/** An application or session with its grants, which the caller compiles if it needs them more than once. */
export interface Subject {
  readonly kind: 'application' | 'session';
  readonly id: string;
  /** The application, or the application of the session. */
  readonly applicationId: string;
  /** The name of the application. */
  readonly name: string;
  readonly grants: EffectiveGrants;
  /** The grants of the authorizer, if they limit the session. */
  readonly ceiling: EffectiveGrants | undefined;
  /** The application whose key limits the session. */
  readonly authorizer: { readonly id: string; readonly name: string } | undefined;
}

export interface SubjectScan {
  /** Only subjects whose grants contain this permission. */
  readonly permission?: string | undefined;
  /** Only sessions that are limited by a key of this application. */
  readonly limitedBy?: string | undefined;
  readonly before: string;
  /** How many rows are examined. */
  readonly limit: number;
  /** Leaves out applications that share their name. */
  readonly uniqueNames?: boolean;
}

/** Newest first. */
export interface SubjectBatch {
  readonly subjects: readonly Subject[];
  readonly examined: number;
  /** Length of the rules that were read. */
  readonly characters: number;
  /** The next batch starts below this id; undefined after the last one. */
  readonly next: string | undefined;
}

export interface SessionFilter {
  readonly ids?: readonly string[] | undefined;
  readonly application?: string | undefined;
  readonly authorizer?: string | undefined;
  readonly state?: SessionState | undefined;
}

/** A token without its data. */
export interface TokenRecord {
  readonly token: Omit<Token, 'data'>;
  readonly container: string;
  readonly id: string;
  /** Orders tokens by age. */
  readonly seq: string;
}

/** Counts tokens in a container and below, newest first. */
export interface TokenCountScan {
  /** In canonical form. */
  readonly container: string;
  /** How many tokens are counted. */
  readonly limit: number;
  /** Continues where an earlier scan ended. */
  readonly start?: string | undefined;
}

export interface TokenCounts {
  /** The number of tokens by their own container, in canonical form. */
  readonly counts: ReadonlyMap<string, number>;
  /** Where the next scan starts; undefined if all tokens were counted. */
  readonly next: string | undefined;
}

export interface TokenLocation {
  readonly id: string;
  readonly type: string;
  readonly container: string;
}

/** A token whose data is decrypted on demand. */
export interface StoredToken extends TokenRecord {
  plaintext(): JsonText;
  /** Decrypts only the masked value, not the data. Returns undefined if the token has no mask. */
  masked(): JsonText | undefined;
}

/** A token that the open transaction has locked. Its data is read and decrypted on demand. */
export interface LockedToken extends TokenRecord {
  plaintext(): Awaitable<JsonText>;
  masked(): Awaitable<JsonText | undefined>;
}

export interface TokenContent {
  readonly type: string;
  readonly container: string;
  readonly data: JsonText;
  readonly mask: Mask | undefined;
  /** The data with the mask applied. */
  readonly masked: JsonText | undefined;
  readonly metadata: Metadata | undefined;
  readonly expiresAt: number | undefined;
}

/**
 * The new content of a token. Without `data`, the stored data does not change, and the masked value changes only if the
 * mask is removed. A new mask needs `data`, to be stored with the masked value that it renders.
 */
export interface TokenRevision extends Omit<TokenContent, 'data' | 'masked'> {
  readonly data?: JsonText | undefined;
  readonly masked?: JsonText | undefined;
}

export interface TokenFilter {
  readonly ids?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface TokenQuery extends ListWindow {
  /** Limits which rows are read. A superset of what `show` allows. */
  readonly visible: Visible;
  /** The transform for a token; undefined leaves it out of the list. */
  readonly transformFor: (token: Resource) => Transform | undefined;
  readonly filter: TokenFilter;
}

/** A token with its data as the transform shows it; undefined if redacted. */
export interface ListedToken {
  readonly seq: string;
  readonly token: Omit<Token, 'data'>;
  readonly data: JsonText | undefined;
  readonly transform: Transform;
}

/** The tokens of one application. */
export interface StorageUsed {
  readonly tokens: number;
  readonly bytes: number;
}

export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly created_at: string;
  /** Absent if its keys work. */
  readonly disabled_at?: string;
  /** When its deletion began; absent if it is not being deleted. */
  readonly deleted_at?: string;
  /** Maximum lifetime of its applications and keys, in seconds; absent if unlimited. */
  readonly max_lifetime?: number;
}

export interface NewEntry extends Entry {
  /** Absent if the tenant is unknown. */
  readonly tenantId?: string | undefined;
  readonly at: number;
}

export interface AuditFilter {
  /** Entries about this token. */
  readonly token?: string | undefined;
  /** Entries about the resource with this id. */
  readonly entity?: string | undefined;
  /** Entries about data in this container or below it. */
  readonly container?: string | undefined;
  /** Entries of this application and its sessions, or of this session. */
  readonly actor?: string | undefined;
  /** Entries of sessions that this application authorized. */
  readonly authorizer?: string | undefined;
  readonly operation?: string | undefined;
  readonly result?: Entry['result'] | undefined;
  readonly transform?: Transform | undefined;
  readonly request_id?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Either entries that were chained before the one with the id `before`, newest first, or after `after`, oldest first. */
export interface LogWindow {
  readonly limit: number;
  readonly before?: string | undefined;
  readonly after?: string | undefined;
}

export interface LogPage {
  readonly entries: LogEntry[];
  /** Where the next page starts: its `before`, or its `after`. Absent if every entry was examined. */
  readonly next?: string | undefined;
  /** First page only: periods in which entries that match the filter are missing. */
  readonly gaps?: readonly LogGap[];
}

/** Numbers of entries, for consecutive intervals. */
export interface LogCounts {
  /** Start of the first interval. */
  readonly start: number;
  /** Milliseconds per interval. */
  readonly length: number;
  readonly end: number;
  readonly counts: readonly Readonly<Record<Entry['result'], number>>[];
  /** Entries before this time were not counted, because there are too many. Undefined if all were. */
  readonly countedFrom: number | undefined;
}

/** Identifies a request that has an idempotency key. */
export interface IdempotentRequest {
  /** The key that sent it. */
  readonly caller: string;
  /** The idempotency key. */
  readonly key: string;
  /** A fingerprint of what it asks for. */
  readonly request: string;
}
