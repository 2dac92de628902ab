/** Finds the subjects and resources that AuthZEN requests name. */
import type { AuthZenResource, AuthZenSubject } from '../../../domain/authzen.ts';
import { Id, NameFilter } from '../../../domain/common-fields.ts';
import { Denial } from '../../../domain/denial.ts';
import type { Question } from '../../../domain/explain.ts';
import { parseKey } from '../../../domain/key.ts';
import type { Resource } from '../../../domain/policy.ts';
import { isInBrowser, type Principal, questionAbout, questionOf } from '../../../domain/principal.ts';
import { TokenId } from '../../../domain/token.ts';
import type { Store, Subject, TokenLocation } from '../../../store/store.ts';

export interface FoundSubject extends Question {
  /** Only if the request has its key. */
  readonly principal?: Principal;
}

export interface FoundResource extends Resource {
  readonly id: string;
  /** Whether the container comes from a stored token. */
  readonly isStored: boolean;
}

export interface Entities {
  /** Undefined if the subject does not exist in the tenant, or its key is invalid. */
  subject(given: AuthZenSubject): FoundSubject | undefined;
  resource(given: AuthZenResource): FoundResource;
}

/** Looks up all entities together, so that a batch needs no more queries than a single evaluation. */
export async function findEntities(
  caller: Principal,
  subjects: readonly AuthZenSubject[],
  resources: readonly AuthZenResource[],
  store: Store,
): Promise<Entities> {
  if (caller.kind === 'session') requireOwnSession(caller, subjects);
  const [found, tokens] = await Promise.all([
    findSubjects(caller, subjects, store),
    findTokens(caller, resources, store),
  ]);
  const hidesAuthorizer = isInBrowser(caller);
  return {
    subject: (given) => {
      const subject = found.get(nameOf(given));
      return subject && { ...subject, hidesAuthorizer };
    },
    resource: ({ type, id, properties }) => {
      const token = tokens.get(id);
      return token && (type === 'token' || type === token.type)
        ? { id, container: token.container, isStored: true }
        : { id, container: properties?.container, isStored: false };
    },
  };
}

/** As in `POST /decisions`. */
function requireOwnSession(
  caller: Principal & { kind: 'session' },
  subjects: readonly AuthZenSubject[],
): void {
  for (const { type, id, properties } of subjects) {
    const key = properties?.credential === undefined ? undefined : parseKey(properties.credential);
    const isOwn =
      properties?.credential === undefined
        ? type === 'session' && id.toLowerCase() === caller.sessionId
        : key?.kind === 'ses' && caller.digest.equals(key.digest);
    if (!isOwn)
      throw new Denial(
        'permission_missing',
        'A session can use `decision:create` only to ask about itself.',
        {
          reason: 'a session can ask only about itself',
        },
      );
  }
}

const kinds = ['application', 'session'];

/** Identifies a subject within a request. */
function nameOf({ type, id, properties }: AuthZenSubject): string {
  if (properties?.credential !== undefined) return `credential ${properties.credential}`;
  return kinds.includes(type) ? `${type} ${id.toLowerCase()}` : `name ${id}`;
}

async function findSubjects(
  { tenantId }: Principal,
  subjects: readonly AuthZenSubject[],
  store: Store,
): Promise<Map<string, FoundSubject>> {
  const found = new Map<string, FoundSubject>();
  const keys = new Set<string>();
  const ids = { application: new Set<string>(), session: new Set<string>() };
  const names = new Set<string>();
  for (const { type, id, properties } of subjects) {
    if (properties?.credential !== undefined) keys.add(properties.credential);
    else if (type === 'application' || type === 'session') {
      const uuid = Id.safeParse(id).data;
      if (uuid !== undefined) ids[type].add(uuid);
    } else if (NameFilter.safeParse(id).success) names.add(id);
  }
  const add = (kind: string, rows: readonly Subject[], idOf: (subject: Subject) => string) => {
    for (const subject of rows) {
      found.set(`${kind} ${idOf(subject)}`, questionAbout(subject));
    }
  };
  const byId = ({ id }: Subject) => id;
  const { application, session } = ids;
  await Promise.all([
    ...Array.from(keys, async (credential) => {
      const key = parseKey(credential);
      const principal = key && (await store.credentials.find(key.kind, key.digest));
      if (principal?.tenantId === tenantId)
        found.set(`credential ${credential}`, { ...questionOf(principal), principal });
    }),
    application.size > 0 &&
      add('application', await store.subjects.applications(tenantId, [...application]), byId),
    session.size > 0 && add('session', await store.subjects.sessions(tenantId, [...session]), byId),
    names.size > 0 && add('name', await store.subjects.named(tenantId, [...names]), ({ name }) => name),
  ]);
  return found;
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
