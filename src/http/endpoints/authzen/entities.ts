/** Finds the subjects and resources that AuthZEN requests name. */
import { type AuthZenResource, type AuthZenSubject, containerOf } from '../../../domain/authzen.ts';
import { Id, NameFilter } from '../../../domain/common-fields.ts';
import { Denial } from '../../../domain/denial.ts';
import type { Question } from '../../../domain/explain.ts';
import { parseKey } from '../../../domain/key.ts';
import { lazy } from '../../../domain/lazy.ts';
import type { Resource } from '../../../domain/policy.ts';
import {
  holds,
  identityOf,
  isHandedOut,
  type Principal,
  questionAbout,
  questionOf,
} from '../../../domain/principal.ts';
import { nextTurn } from '../../../domain/steps.ts';
import { TokenId } from '../../../domain/token.ts';
import type { Store, Subject, TokenLocation } from '../../../store/store.ts';
import type { HandlerContext } from '../../pipeline/route.ts';
import { type Caller, type FoundCredential, findPresented } from '../presented-credential.ts';

export interface FoundSubject extends Question {
  /** Undefined if the request names the subject by id or name instead of by key. */
  readonly principal?: Principal;
  /** Whether the request names the caller itself. */
  readonly isCaller?: boolean;
  readonly dpop?: FoundCredential['dpop'];
}

/** The result for a key of a bound session without a valid proof. */
interface Unproven {
  readonly dpop: NonNullable<FoundCredential['dpop']>;
  readonly reason: string;
}

export interface FoundResource extends Resource {
  readonly id: string;
  /** Whether the container comes from a stored token. */
  readonly isStored: boolean;
}

export interface Entities {
  /** Undefined if the subject does not exist in the tenant, its key is invalid, or a required proof is not valid. */
  subject(given: AuthZenSubject): FoundSubject | undefined;
  unproven(given: AuthZenSubject): Unproven | undefined;
  /** Whether the caller may learn the rules of the subject, and whether it exists. */
  mayExplain(given: AuthZenSubject): boolean;
  resource(given: AuthZenResource): FoundResource;
}

/** Looks up all subjects and resources of a batch together, instead of one by one. */
export async function findEntities(
  caller: Caller,
  subjects: readonly AuthZenSubject[],
  resources: readonly AuthZenResource[],
  context: Pick<HandlerContext, 'store' | 'proofs' | 'trail'>,
): Promise<Entities> {
  const { principal } = caller;
  if (principal.kind !== 'application') requireOwnSession(principal, subjects);
  else if (isHandedOut(principal)) requireCredentials(subjects);
  const [{ found, unproven }, tokens, destinations] = await Promise.all([
    findSubjects(caller, subjects, context),
    findTokens(principal, resources, context.store),
    findDestinations(principal, resources, context.store),
  ]);
  const hidesAuthorizer = isHandedOut(principal);
  const mayReview = holds(principal, 'access:review') || holds(principal, 'application:read');
  return {
    subject: (given) => {
      const subject = found.get(nameOf(given))?.();
      return subject && { ...subject, hidesAuthorizer };
    },
    unproven: (given) => unproven.get(nameOf(given)),
    mayExplain: (given) =>
      mayReview ||
      given.properties?.credential !== undefined ||
      found.get(nameOf(given))?.().isCaller === true,
    resource: (given) => {
      const { type, id } = given;
      const token = tokens.get(id);
      const destination = destinations.get(given.properties?.destination ?? '');
      return token && (type === 'token' || type === token.type)
        ? { id, container: token.container, max_uses: token.max_uses, destination, isStored: true }
        : { id, container: containerOf(given), destination, isStored: false };
    },
  };
}

/** Throws if a session or delegation asks about another subject than itself. The same rule applies to `POST /decisions`. */
function requireOwnSession(
  caller: Exclude<Principal, { kind: 'application' }>,
  subjects: readonly AuthZenSubject[],
): void {
  for (const { type, id, properties } of subjects) {
    const key = properties?.credential === undefined ? undefined : parseKey(properties.credential);
    const isOwn =
      properties?.credential === undefined
        ? type === caller.kind && id.toLowerCase() === caller.sessionId
        : key !== undefined && caller.digest.equals(key.digest);
    if (!isOwn)
      throw new Denial(
        'permission_missing',
        `A ${caller.kind} can use \`decision:create\` only to ask about itself.`,
        { reason: `a ${caller.kind} can ask only about itself` },
      );
  }
}

/**
 * For public keys: throws unless the request contains the key of every subject, in `properties.credential`. Otherwise
 * anyone could find out who has access.
 */
function requireCredentials(subjects: readonly AuthZenSubject[]): void {
  if (subjects.every(({ properties }) => properties?.credential !== undefined)) return;
  throw new Denial(
    'permission_missing',
    'A public key can ask only about a key that it sends in `subject.properties.credential`.',
    { reason: 'a public key can ask only about keys that it sends' },
  );
}

const kinds = ['application', 'session', 'delegation'];

/** Identifies a subject within a request. */
function nameOf({ type, id, properties }: AuthZenSubject): string {
  if (properties?.credential !== undefined)
    return `credential ${JSON.stringify([properties.credential, properties.proof])}`;
  return kinds.includes(type) ? `${type} ${id.toLowerCase()}` : `name ${id}`;
}

async function findSubjects(
  caller: Caller,
  subjects: readonly AuthZenSubject[],
  context: Pick<HandlerContext, 'store' | 'proofs' | 'trail'>,
): Promise<{ found: Map<string, () => FoundSubject>; unproven: Map<string, Unproven> }> {
  const { tenantId } = caller.principal;
  const { id: callerId } = identityOf(caller.principal);
  const { store } = context;
  /** Policies are compiled when they are needed, because the caller pauses between subjects. */
  const found = new Map<string, () => FoundSubject>();
  const unproven = new Map<string, Unproven>();
  const presented = new Map<string, AuthZenSubject>();
  const ids = { application: new Set<string>(), session: new Set<string>(), delegation: new Set<string>() };
  const names = new Set<string>();
  for (const subject of subjects) {
    const { type, id, properties } = subject;
    if (properties?.credential !== undefined) presented.set(nameOf(subject), subject);
    else if (type === 'application' || type === 'session' || type === 'delegation') {
      const uuid = Id.safeParse(id).data;
      if (uuid !== undefined) ids[type].add(uuid);
    } else if (NameFilter.safeParse(id).success) names.add(id);
  }
  const add = (rows: readonly Subject[], idOf: (subject: Subject) => string, type?: string) => {
    for (const subject of rows) {
      const isCaller = subject.id === callerId;
      found.set(
        `${type ?? subject.kind} ${idOf(subject)}`,
        lazy(() => ({ ...questionAbout(subject), isCaller })),
      );
    }
  };
  const byId = ({ id }: Subject) => id;
  const { application, session, delegation } = ids;
  const temporary = [...session, ...delegation];
  await Promise.all([
    findCredentials(),
    application.size > 0 && add(await store.subjects.applications(tenantId, [...application]), byId),
    temporary.length > 0 && add(await store.subjects.sessions(tenantId, temporary), byId),
    names.size > 0 && add(await store.subjects.named(tenantId, [...names]), ({ name }) => name, 'name'),
  ]);
  return { found, unproven };

  /** Some at a time: to parse and compile the grants of one takes up to a millisecond. */
  async function findCredentials(): Promise<void> {
    const some = 8;
    const given = [...presented];
    for (let start = 0; start < given.length; start += some) {
      if (start > 0) await nextTurn();
      await Promise.all(given.slice(start, start + some).map(([name, subject]) => findOne(name, subject)));
    }
  }

  async function findOne(name: string, subject: AuthZenSubject): Promise<void> {
    const { principal, dpop, reason } = await credentialOf(subject, caller, context);
    if (principal) found.set(name, () => ({ ...questionOf(principal), principal, ...(dpop && { dpop }) }));
    else if (dpop && reason !== undefined) unproven.set(name, { dpop, reason });
  }
}

/** Finds the principal of a credential. A session or delegation asks only about itself, and its request is already authenticated. */
async function credentialOf(
  { properties }: AuthZenSubject,
  caller: Caller,
  context: Pick<HandlerContext, 'store' | 'proofs' | 'trail'>,
): Promise<FoundCredential> {
  if (caller.principal.kind !== 'application') return { principal: caller.principal };
  return findPresented(properties?.credential as string, properties?.proof, caller, context);
}

async function findTokens(
  { tenantId }: Principal,
  resources: readonly AuthZenResource[],
  store: Store,
): Promise<Map<string, TokenLocation>> {
  const ids = new Set(resources.map(({ id }) => id).filter((id) => TokenId.safeParse(id).success));
  const tokens = ids.size === 0 ? [] : await store.tokens.locate(tenantId, [...ids]);
  return new Map(tokens.map((token) => [token.id, token]));
}

async function findDestinations(
  { tenantId }: Principal,
  resources: readonly AuthZenResource[],
  store: Store,
): Promise<ReadonlyMap<string, string>> {
  const references = new Set(resources.flatMap(({ properties }) => properties?.destination ?? []));
  return references.size === 0 ? new Map() : store.destinations.locate(tenantId, [...references]);
}
