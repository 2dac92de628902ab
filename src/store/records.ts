/** The inputs, results and filters of the repositories in store.ts. */

import type { Application, ApplicationType, Setting } from '../domain/application.ts';
import type { Person } from '../domain/audit.ts';
import type { Destination, DestinationRequest } from '../domain/destination.ts';
import type { Grants } from '../domain/grant.ts';
import type { Digest, Minted, Secret } from '../domain/key.ts';
import type { Labels } from '../domain/labels.ts';
import type { EffectiveGrants } from '../domain/quarantine.ts';
import type { IntervalCounts } from '../domain/request-counts.ts';
import type { Session, SessionState } from '../domain/session.ts';
import type { Reserve } from '../domain/steps.ts';
import type { Workload } from '../domain/trusted-issuer.ts';
import type { LastUses } from '../domain/usage.ts';

export type { Reserve } from '../domain/steps.ts';

/** Who makes a change, and when. */
export interface Change {
  readonly by: string;
  readonly at: number;
}

/**
 * Selects a page by its number, which also counts the rows, or by the id `start`: the page has rows that come after it.
 */
export interface ListWindow {
  readonly size: number;
  readonly page?: number | undefined;
  readonly start?: string | undefined;
  /** `newest` by default. */
  readonly order?: ListOrder | undefined;
  readonly reserve?: Reserve | undefined;
}

/** Which rows come first. */
export type ListOrder = 'newest' | 'oldest';

/**
 * A list examines a bounded number of rows. So a page may be shorter than its size, or empty, and still have a `next`.
 */
export interface ListPage<T> {
  readonly rows: readonly T[];
  /** The next page starts after this id; undefined on the last page. */
  readonly next: string | undefined;
  /** Undefined without a page number, or if there are too many rows to count. */
  readonly total: number | undefined;
  /** The page number is too high to be reached. */
  readonly tooDeep: boolean;
  /** The page has too many bytes, and lacks rows that page numbers would skip. */
  readonly isCut?: boolean;
}

/** The settings that are not set are absent or undefined. */
type Settings = { readonly [Name in Setting]?: Application[Name] | undefined };

export interface NewApplication extends Grants, Settings {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly createdBy: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  /** Expiry of its first key. If undefined, the key expires with the application. */
  readonly keyExpiresAt?: number | undefined;
}

/** The fields that an update replaces. */
export type ApplicationUpdate = Grants & Pick<Application, 'name' | 'expires_at' | Setting>;

export interface ApplicationFilter {
  readonly ids?: readonly string[] | undefined;
  readonly type?: ApplicationType | undefined;
  /** A substring of the name; case is ignored. */
  readonly name?: string | undefined;
  readonly expiresBefore?: number | undefined;
  /** Created before this time, and not used since. */
  readonly usedBefore?: number | undefined;
  /** The application must have all of them. */
  readonly labels?: Labels | undefined;
  /** The last characters of one of its keys, as `ApplicationKey` has them. */
  readonly keyEnding?: string | undefined;
}

/** The values that are stored encrypted. */
export interface DestinationSecrets {
  readonly headers: Readonly<Record<string, Secret>>;
  /** The private key of the client certificate, in PEM. */
  readonly privateKey: Secret | undefined;
}

export interface DestinationFields
  extends Pick<Destination, 'name' | 'origin' | 'ca' | 'timeout' | 'max_in_flight' | 'ignored_headers'> {
  readonly requests: readonly DestinationRequest[];
  readonly certificate: string | undefined;
  readonly secrets: DestinationSecrets;
}

export interface StoredDestination extends Destination {
  /** Whether the use of some token is stopped. Saves the others a lookup. */
  readonly hasStops: boolean;
  /** Decrypts the secrets. Throws if another program has changed them. */
  secrets(): DestinationSecrets;
}

/** When an application last used each key, and each permission in each container. */
export interface ApplicationUse {
  readonly tenantId: string;
  readonly applicationId: string;
  readonly at: number;
  /** When each key was last used, and the requests with it since the last write, by `dayOf`. */
  readonly keys: ReadonlyMap<string, { readonly at: number; readonly days: ReadonlyMap<number, number> }>;
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
  /** The user of the session. */
  readonly subject?: string | undefined;
  readonly by: string;
  /** The authorizer's key, if it is the ceiling of the session. */
  readonly ceiling: Digest | undefined;
  /** The authorizer's key, if it is not the ceiling of the session. Revoking this key as leaked ends the session. */
  readonly unlimitedBy?: Digest | undefined;
  /** Without a ceiling, if that key was issued for a JWT: see `trust` of the principal. */
  readonly trust?: Digest | undefined;
  /** Replaces the session's own expiry, if defined. */
  readonly expiresAt: number | undefined;
  /** Without a ceiling: when a rule of the authorizer ends that allows this. The session ends then, too. */
  readonly latest?: number | undefined;
  /** Milliseconds between the creation of a session and its latest possible expiry. */
  readonly maxLifetime: number;
}

/** A delegation: a key that an application issues for a job or an agent. */
export interface NewDelegation extends Omit<NewSession, 'applicationId' | 'jkt'>, Grants {
  readonly by: string;
  /** The issuing key. */
  readonly ceiling: Digest;
  /** The user of the delegation. */
  readonly subject?: string | undefined;
  /** How many requests can succeed. Undefined if unlimited. */
  readonly maxUses?: number | undefined;
}

export type Authorized =
  | { outcome: 'authorized'; session: string; expiresAt: number }
  | { outcome: 'unknown' }
  | { outcome: 'used' }
  /** `expiresAt` is later than `latest`. The nonce can still be used. */
  | { outcome: 'too_long'; latest: number };

/** An application, session or delegation with its grants. The caller compiles the grants if it needs them more than once. */
export interface Subject {
  readonly kind: 'application' | 'session' | 'delegation';
  readonly id: string;
  /** The application, or the application of the session or delegation. */
  readonly applicationId: string;
  readonly name: string;
  /** The user of the session, if known. */
  readonly subject?: string | undefined;
  readonly grants: EffectiveGrants;
  /** The grants of the authorizer, if they limit the session. */
  readonly ceiling: EffectiveGrants | undefined;
  /** The application that authorized the session. Undefined if it was removed. */
  readonly authorizer: { readonly id: string; readonly name: string } | undefined;
}

export interface SubjectScan {
  /** Only subjects whose grants contain this permission. */
  readonly permission?: string | undefined;
  /** Only sessions that are limited by a key of this application. Their grants are those without its quarantine. */
  readonly limitedBy?: string | undefined;
  readonly before: string;
  /** Maximum number of rows to examine. */
  readonly limit: number;
  /** Leaves out applications whose name another application has too. */
  readonly uniqueNames?: boolean;
}

/** Newest first. */
export interface SubjectBatch {
  readonly subjects: readonly Subject[];
  readonly examined: number;
  /** Total length of the rules that were read. */
  readonly characters: number;
  /** The next batch starts below this id; undefined after the last one. */
  readonly next: string | undefined;
}

/** Pending sessions, active ones and delegations, or those with long rules that the application has authorized. */
export type CountedSessions = SessionState | 'long-rules';

export interface SessionFilter {
  readonly ids?: readonly string[] | undefined;
  readonly application?: string | undefined;
  readonly authorizer?: string | undefined;
  readonly kind?: Session['kind'] | undefined;
  readonly state?: SessionState | undefined;
  readonly subject?: string | undefined;
}

export interface Tenant {
  readonly id: string;
  /** Part of every key of the tenant. Never changes. */
  readonly tag: string;
  readonly name: string;
  readonly created_at: string;
  /** Absent if the tenant is not disabled. */
  readonly disabled_at?: string;
  /** When its deletion began; absent if it is not being deleted. */
  readonly deleted_at?: string;
  /** Maximum lifetime of its applications and keys, in seconds; absent if unlimited. */
  readonly max_lifetime?: number;
  /** The purposes that its requests may state; absent if every purpose is accepted. */
  readonly purposes?: readonly string[];
}

/** The requests of one tenant in a stored interval. */
export interface CountedInterval extends IntervalCounts {
  readonly tenantId: string;
  /** A multiple of `storedInterval`. */
  readonly start: number;
}

/** Numbers of requests, for consecutive intervals. */
export interface RequestCountList {
  /** Start of the first interval. */
  readonly start: number;
  /** Milliseconds per interval. */
  readonly length: number;
  readonly end: number;
  readonly counts: readonly IntervalCounts[];
}

/** Identifies a request that has an idempotency key. */
export interface IdempotentRequest {
  /** The id of the application or session that sent it. */
  readonly caller: string;
  /** The application to whose storage the record counts: the caller, or the application of the session. */
  readonly application: string;
  readonly key: string;
  /**
   * The content of the request as text, to detect that the key is used for another request. Only its HMAC is stored.
   */
  readonly request: string;
}

/** When a new key expires, and when the keys that it replaces expire. */
export interface KeyExpiry {
  readonly expiresAt?: number | undefined;
  /** Old keys that expire earlier are unchanged. */
  readonly oldKeysExpireAt?: number | undefined;
}

/** The application that a workload names, and what limits a key of it. */
export interface WorkloadTarget {
  readonly tenantTag: string;
  readonly application: Application;
  readonly maxLifetime: number | undefined;
  readonly now: number;
}

export interface NewIssuedKey {
  readonly key: Minted;
  readonly workload: Workload;
  readonly jkt: string | undefined;
  readonly at: number;
  readonly expiresAt: number;
  /** Only for the session of a person in the console. */
  readonly signIn?: {
    readonly person: Omit<Person, 'subject'>;
    /** The session at the provider, if it has named one. */
    readonly sid: string | undefined;
    /** The session is not renewed beyond this time. */
    readonly endsAt: number;
  };
}

/** The application, session or delegation to which a revoked key belonged. */
export type RevokedKey =
  | {
      readonly tenantId: string;
      readonly applicationId: string;
      readonly key: { readonly id: string; readonly ending: string };
    }
  | { readonly tenantId: string; readonly sessionId: string; readonly kind: Session['kind'] };
