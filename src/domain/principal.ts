/** The authenticated caller and its access. All permission checks go through this file. */
import { type Access, accessOf, compareAccess } from './access/change.ts';
import type { Application } from './application.ts';
import type { Person } from './audit.ts';
import { timestamp } from './common-fields.ts';
import { Denial, type DeniedResource } from './denial.ts';
import { denialReason, explainDenial, explainMissing, missingReason, type Question } from './explain.ts';
import { type Grants, grantedUntil, type Owner, permissionsIn } from './grant.ts';
import type { Digest } from './key.ts';
import { hasTrait } from './permission.ts';
import {
  type Allowed,
  compilePolicy,
  decideUnder,
  destinationsFor,
  isGrantedSomewhere,
  type Policy,
  type Resource,
} from './policy.ts';
import type { EffectiveGrants } from './quarantine.ts';
import { canonicalContainer } from './rule.ts';

interface Caller {
  readonly tenantId: string;
  /** Part of every key of the tenant. */
  readonly tenantTag: string;
  /** The application, the application of the session, or the application that issued the delegation. */
  readonly applicationId: string;
  readonly policy: Policy;
  /**
   * The application key that the access depends on: the caller's own, or for a session with a ceiling its
   * authorizer's. Undefined for a session without a ceiling.
   */
  readonly authority: { readonly applicationId: string; readonly keyId: string } | undefined;
  /** Origins whose pages may use the key. Undefined if every origin may. */
  readonly origins: readonly string[] | undefined;
  /** Maximum lifetime of new applications and keys of the tenant, in milliseconds. Undefined if unlimited. */
  readonly maxLifetime?: number | undefined;
  /** The purposes that the tenant accepts. Undefined if it accepts every purpose. */
  readonly purposes?: readonly string[] | undefined;
  /** Hash of the presented key. */
  readonly digest: Digest;
  /** Time of the request in milliseconds, by the database clock. */
  readonly now: number;
}

export type Principal =
  | (Caller & {
      readonly kind: 'application';
      readonly application: Application;
      readonly ceiling?: undefined;
      /** The workload that got the key for a JWT. Undefined for other keys. For a person, only `issuer` is set. */
      readonly issuer?: string | undefined;
      readonly subject?: string | undefined;
      /** Identifies the trusted issuer of the application that the key was issued for. Undefined for other keys. */
      readonly trust?: Digest | undefined;
      /** Who signed in to the console as the application. Undefined for keys. */
      readonly person?: Person | undefined;
      /** When the session of the person expires if it is not renewed, and when it ends. */
      readonly session?: { readonly expiresAt: number; readonly endsAt: number } | undefined;
      /** The thumbprint of the key that every request must prove to hold. Undefined if the key is not bound. */
      readonly jkt?: string | undefined;
      /** Whether the key may be used from the address. Undefined if it may be used from everywhere. */
      readonly isAllowedFrom?: ((address: string | undefined) => boolean) | undefined;
    })
  | (Caller & {
      readonly kind: 'session' | 'delegation';
      readonly sessionId: string;
      /** The application that authorized it. Undefined while the session is pending. */
      readonly authorizedBy: string | undefined;
      /** The user of the session or delegation. Undefined if the authorizer did not name one. */
      readonly subject?: string | undefined;
      /** The thumbprint of the key that every request must prove to hold. Undefined if the session is not bound. */
      readonly jkt?: string | undefined;
      /** The current policy of the authorizer, if it limits the session. */
      readonly ceiling: Policy | undefined;
      /** Whether the number of its requests is limited. */
      readonly isLimited?: boolean | undefined;
      /** Delegations only: they work where the keys of their application work. */
      readonly isAllowedFrom?: ((address: string | undefined) => boolean) | undefined;
    });

export function ownerOf(principal: Principal): Owner {
  return principal.kind === 'application' ? principal.application.type : principal.kind;
}

/** The principal as decisions name it. */
export function identityOf(principal: Principal) {
  const { kind, applicationId, subject } = principal;
  const id = kind === 'application' ? applicationId : principal.sessionId;
  return { kind, id, application_id: applicationId, ...(subject !== undefined && { subject }) };
}

/** The principal as audit entries name it. */
export function actorOf(principal: Principal) {
  const identity = identityOf(principal);
  if (principal.kind === 'application') {
    const { issuer, person } = principal;
    if (issuer === undefined && !person) return identity;
    return { ...identity, ...(issuer !== undefined && { issuer }), ...(person && { person }) };
  }
  const { authorizedBy } = principal;
  return authorizedBy === undefined ? identity : { ...identity, authorized_by: authorizedBy };
}

/** Whose entries are aggregated together: those of an application, or of a person who signed in as one. */
export function aggregatedBy(principal: Principal): string {
  const { kind, applicationId } = principal;
  if (kind !== 'application' || !principal.person) return applicationId;
  return JSON.stringify([applicationId, principal.issuer, principal.person.subject]);
}

/** Who changes a resource, and when. */
export function changeBy({ applicationId, now }: Principal) {
  return { by: applicationId, at: now };
}

/** Who writes the data and search templates of a token: the kind of key and its application. */
export function writerOf(principal: Principal): string {
  return `${ownerOf(principal)} ${principal.applicationId}`;
}

/**
 * The writers whose tokens `unless_exists` may return, beside management applications. The writer of a token chooses its
 * values, so an application does not rely on its sessions and delegations; these rely on it and on each other.
 */
export function trustedWriters(principal: Principal): string[] {
  const { kind, applicationId } = principal;
  const above = { application: [], session: ['public'], delegation: ['private'] }[kind];
  return [writerOf(principal), ...above.map((owner) => `${owner} ${applicationId}`)];
}

/** The writer to name if one wrote a part of the data and templates, and the other the rest. Undefined if none vouches for all. */
export function commonWriter(one: string | undefined, other: string | undefined): string | undefined {
  if (one?.startsWith('management ')) return other;
  return one === other || other?.startsWith('management ') ? one : undefined;
}

/** Whether the key is outside of the backend: in a browser, a job or an agent. Others may hold similar keys. */
export function isHandedOut(principal: Principal): boolean {
  const owner = ownerOf(principal);
  return owner !== 'private' && owner !== 'management';
}

/** Whether the principal has the permission on any resource, with or without a rule. */
export function holds({ policy, ceiling }: Principal, permission: string): boolean {
  return isGrantedSomewhere(policy, permission) && (!ceiling || isGrantedSomewhere(ceiling, permission));
}

/** Throws `permission_missing` unless the principal has the permission on some resource. */
export function mustHold(principal: Principal, permission: string): void {
  if (holds(principal, permission)) return;
  const question = questionOf(principal);
  const detail = detailOf(permission, missingReason(question, permission));
  throw new Denial('permission_missing', detail, explainMissing(question, permission));
}

/** Throws `quarantined` if the principal is in quarantine. Every change calls this. */
export function denyQuarantined({ policy: { quarantined } }: Principal): void {
  if (quarantined)
    throw new Denial('quarantined', undefined, { reason: `the ${quarantined} is in quarantine` });
}

interface TokenResource extends Resource {
  readonly token?: { readonly created_by?: string | undefined };
}

/**
 * Decides about the permission on a stored token. Throws `permission_missing` with a fixed detail that does
 * not depend on container or rules, so that the caller cannot find out the container of the token.
 */
export function permit(principal: Principal, permission: string, token: TokenResource): Allowed {
  const verdict = decideUnder(principal.policy, principal.ceiling, permission, token);
  if (verdict.allowed) return verdict;
  const decision = explainDenial(questionOf(principal), permission, token);
  const { id, container } = token;
  throw new Denial('permission_missing', `You cannot use \`${permission}\` on this token.`, decision, {
    id,
    container,
    isStored: true,
    createdBy: token.token?.created_by,
  });
}

/**
 * Like `permit`, for a container in the request. The caller named the container, so the detail may mention the
 * caller's rules. A denial is logged with `logged` as its resource.
 */
export function permitNamed(
  principal: Principal,
  permission: string,
  resource: Resource,
  logged: DeniedResource = { ...resource, isStored: false },
): Allowed {
  const verdict = decideUnder(principal.policy, principal.ceiling, permission, resource);
  if (verdict.allowed) return verdict;
  const question = questionOf(principal);
  const detail = detailOf(permission, denialReason(question, permission, resource));
  const decision = explainDenial(question, permission, resource);
  throw new Denial('permission_missing', detail, decision, logged);
}

export function questionOf({ kind, policy, ceiling }: Principal): Question {
  return { holder: kind, policy, ceiling };
}

/** Like `questionOf`, for an application or session whose grants are not compiled. */
export function questionAbout(subject: {
  readonly kind: Question['holder'];
  readonly grants: EffectiveGrants;
  readonly ceiling: EffectiveGrants | undefined;
}): Question {
  const { kind, grants, ceiling } = subject;
  return { holder: kind, policy: compilePolicy(grants), ceiling: ceiling && compilePolicy(ceiling) };
}

function detailOf(permission: string, reason: string): string {
  return `You need the permission \`${permission}\`: ${reason}.`;
}

/**
 * Throws `grant_not_held` if `affected` contains a management permission that the principal does not hold. An update
 * affects the old and the new grants of the application. A new key affects all of its grants.
 */
export function denyEscalation(principal: Principal, ...affected: Grants[]): void {
  const management = affected.flatMap(permissionsIn).filter((name) => hasTrait(name, 'management'));
  denyUnheldGrants(principal, management, 'grant or change');
}

/** Until when the principal has the permission on some resource, if its grants do not change. */
export function holdsUntil({ policy, ceiling }: Principal, permission: string): number {
  const own = grantedUntil(policy.grants, permission);
  return ceiling ? Math.min(own, grantedUntil(ceiling.grants, permission)) : own;
}

/** Grants, and when their application or key expires. */
export interface Lasting {
  readonly grants: Grants;
  readonly end: number | string | undefined;
}

/**
 * Throws `grant_not_held` if the principal gives a management permission that lasts longer than its own, so that access
 * does not survive the end of a rule. `kept` is what the receiver has already.
 */
export function denyOutliving(principal: Principal, given: Lasting, kept?: Lasting): void {
  const until = ({ grants, end = Number.POSITIVE_INFINITY }: Lasting, name: string) =>
    Math.min(grantedUntil(grants, name), typeof end === 'string' ? Date.parse(end) : end);
  for (const name of permissionsIn(given.grants).filter((each) => hasTrait(each, 'management'))) {
    const held = holdsUntil(principal, name);
    if (until(given, name) <= Math.max(held, kept ? until(kept, name) : 0)) continue;
    const detail = `You cannot grant \`${name}\` beyond ${timestamp(held)}: your key does not hold it longer.`;
    throw new Denial('grant_not_held', detail, { reason: `the key holds ${name} until ${timestamp(held)}` });
  }
}

/** Throws `grant_not_held` if the principal does not hold one of the permissions. */
export function denyUnheldGrants(principal: Principal, permissions: string[], verb = 'grant'): void {
  const missing = permissions.find((permission) => !holds(principal, permission));
  if (missing === undefined) return;
  const detail = `You cannot ${verb} \`${missing}\`: your key does not hold it.`;
  throw new Denial('grant_not_held', detail, explainMissing(questionOf(principal), missing));
}

type TokenLocation = TokenResource & { readonly container: string };

/** A patch that does not replace the data as a whole. */
export interface PartialPatch {
  readonly from: TokenLocation;
  readonly to: TokenLocation;
  /** Whether the patch sets a mask or a search template. */
  readonly renders: boolean;
  /** Whether the patch merges an object into the data. */
  readonly merges: boolean;
}

/**
 * Returns true if the change needs `token:update` with `reveal` in the current container and the caller has less.
 * A caller with `reveal` may make any change, since it could copy the data anyway.
 * Without `reveal`:
 *
 * - no key may set a mask or a search template or merge into the data, because the result depends on hidden data;
 * - a public key, session or delegation may not move a token, because its authorizer, another session or another
 *   holder of the same public key may see more in the new container;
 * - a private or management key may move a token only to a container where it does not see more of the data, and
 *   cannot search for it unless it can search here, and can use it at no destination where it cannot use it here.
 */
export function needsReveal(principal: Principal, { from, to, renders, merges }: PartialPatch): boolean {
  const { policy, ceiling } = principal;
  const now = decideUnder(policy, ceiling, 'token:update', from);
  if (now.allowed && now.transform === 'reveal') return false;
  if (renders || merges) return true;
  if (canonicalContainer(from.container) === canonicalContainer(to.container)) return false;
  if (isHandedOut(principal)) return true;
  if (finds(principal, to) && !finds(principal, from)) return true;
  const here = reaches(principal, from);
  if ([...reaches(principal, to)].some((destination) => !here.has(destination))) return true;
  // The purpose of this request is ignored, because the next one may state another.
  return compareAccess(mostVisible(principal, from), mostVisible(principal, to)) < 0;
}

/** The ids of the destinations that rules of the caller name, for tokens of any container. They may have been deleted. */
export function usableDestinations({ policy, ceiling }: Principal): Set<string> {
  const named = ({ rules }: Policy) =>
    new Set(
      rules.flatMap(({ permissions, rule }) =>
        permissions.has('token:use') ? (rule.destinations ?? []) : [],
      ),
    );
  return ceiling ? named(policy).intersection(named(ceiling)) : named(policy);
}

/** The destinations where the caller can use a token. */
function reaches({ policy, ceiling }: Principal, resource: Resource): Set<string> {
  const own = destinationsFor(policy, resource);
  const theirs = ceiling && destinationsFor(ceiling, resource);
  return theirs ? new Set([...own].filter((destination) => theirs.has(destination))) : own;
}

/** A search finds tokens that the caller can also read. */
function finds({ policy, ceiling }: Principal, resource: Resource): boolean {
  return ['token:search', 'token:read'].every(
    (permission) => decideUnder(policy, ceiling, permission, resource).allowed,
  );
}

/** The permissions whose responses contain data of a stored token. */
const disclosing = ['token:read', 'token:update'];

/** The most access that the caller has through any of these permissions, with a purpose if that is required. */
function mostVisible({ policy, ceiling }: Principal, resource: Resource): Access {
  return disclosing
    .map((permission) => accessOf(policy, ceiling, permission, resource))
    .reduce((a, b) => (compareAccess(a, b) < 0 ? b : a));
}
