/** Expected status of every route for every kind of caller and id, and a client that calls any route. */
import { builtIn, hasTrait } from '../../src/domain/permission.ts';
import type { KeyedRoute, Route } from '../../src/http/pipeline/route.ts';
import { routes } from '../../src/http/routes.ts';
import { tokenUseRule } from './destination-receiver.ts';

/** Every caller holds all permissions that its kind may hold. `pending` is a session that is not authorized yet. */
export const callers = [
  'anonymous',
  'management',
  'private',
  'public',
  'session',
  'delegation',
  'pending',
] as const;
export type Caller = (typeof callers)[number];

export const collectionOf = ({ path }: Route) => `/${path.split('/')[1]}`;
export const authenticatedRoutes = routes.filter((route): route is KeyedRoute => route.kind !== 'open');
export const routesWithId = authenticatedRoutes.filter(({ path }) => path.includes(':'));
const browserPermissions = builtIn.filter((name) => hasTrait(name, 'browser'));
/** `token:use` needs a rule with destinations, which no caller has. */
const plainPermissions: readonly string[] = builtIn.filter((name) => name !== 'token:use');
const sessionPermissions = plainPermissions.filter(
  (name) => hasTrait(name, 'browser') || hasTrait(name, 'session'),
);

/** Callers that hold the permission, and are rejected because they ask about a key other than their own. */
const rejected: Record<string, readonly Caller[]> = {
  decide: ['session', 'delegation'],
  evaluate: ['public', 'session', 'delegation'],
  evaluateAll: ['public', 'session', 'delegation'],
};

/**
 * The expected status of a valid request, from the declared access of the route. A declaration that is wrong fails
 * `test/domain/permission.test.ts`, whose table is not generated.
 */
export function statusFor(route: KeyedRoute, caller: Caller): number {
  if (caller === 'anonymous') return 401;
  const isAccepted = mayUse(route, caller) && !rejected[route.name]?.includes(caller);
  return isAccepted ? successOf(route) : 403;
}

/** The code of a 403, and what its detail names. */
export function refusalFor(
  { name, callers: accepted, permission }: KeyedRoute,
  caller: Caller,
): readonly [code: string, named: string] {
  const owner = caller === 'pending' ? 'session' : caller;
  if (accepted && !accepted.some((one) => one === owner)) return ['key_type_refused', accepted.join(' or ')];
  return ['permission_missing', rejected[name]?.includes(caller) ? '' : `\`${permission}\``];
}

function mayUse(
  { permission, callers: accepted }: KeyedRoute,
  caller: Exclude<Caller, 'anonymous'>,
): boolean {
  if (caller === 'pending') return accepted?.includes('session') ?? false;
  if (accepted && !accepted.includes(caller)) return false;
  if (permission === undefined) return true;
  if (permission === 'token:use') return false;
  if (caller === 'public') return browserPermissions.includes(permission);
  return (caller !== 'session' && caller !== 'delegation') || sessionPermissions.includes(permission);
}

function successOf({ replies }: Route): number {
  return 201 in replies ? 201 : Number(Object.keys(replies)[0]);
}

/** The expected statuses for an id that is: the tenant's own, another tenant's, unknown, deleted, malformed. */
export function statusesById(route: Route): number[] {
  return [successOf(route), 404, 404, 404, 400];
}

export interface Tenant {
  readonly id: string;
  readonly key: string;
}

export interface RouteResponse {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: callers check the fields
  readonly body: any;
}

interface RouteRequest {
  readonly path: string;
  readonly key: string | undefined;
  readonly body: unknown;
}

type Call = (
  method: string,
  path: string,
  options?: { key?: string | undefined; body?: unknown },
) => Promise<RouteResponse>;

const destinationName = () => crypto.randomUUID().slice(0, 8);
const destinationRequests = [{ method: 'POST', path: '/charges' }];
const newDestination = () => ({
  name: destinationName(),
  origin: 'https://api.example',
  requests: destinationRequests,
});

/** Calls any route, and creates the entities that it needs. Tokens get the fields of `token`. */
export function routeCaller(call: Call, token: object = { data: 'x' }) {
  async function application(key: string, fields: object = {}): Promise<RouteResponse['body']> {
    const body = { name: 'an application', type: 'private', permissions: ['token:read'], ...fields };
    const created = await call('POST', '/applications', { key, body });
    if (created.status !== 201) throw new Error(`not created: ${JSON.stringify(created.body)}`);
    return created.body;
  }

  async function session(
    tenant: Tenant,
    permissions?: string[],
  ): Promise<{ session_key: string; nonce: string }> {
    const web = await application(tenant.key, { type: 'public' });
    const { body } = await call('POST', '/sessions', { key: web.key });
    const grant = { key: tenant.key, body: { nonce: body.nonce, permissions } };
    if (permissions) await call('POST', '/sessions/authorize', grant);
    return body;
  }

  async function keyOf(caller: Caller, tenant: Tenant): Promise<string | undefined> {
    if (caller === 'anonymous') return undefined;
    if (caller === 'session') return (await session(tenant, sessionPermissions)).session_key;
    if (caller === 'pending') return (await session(tenant)).session_key;
    if (caller === 'delegation') {
      const issuer = await application(tenant.key, { permissions: plainPermissions });
      const body = { permissions: sessionPermissions };
      return (await call('POST', '/delegations', { key: issuer.key, body })).body.key;
    }
    const permissions = caller === 'public' ? browserPermissions : plainPermissions;
    return (await application(tenant.key, { type: caller, permissions })).key;
  }

  /** Creates an entity of the collection, and returns its id. */
  const entities: Record<string, (tenant: Tenant) => Promise<string>> = {
    '/applications': async ({ key }) => (await application(key)).id,
    '/sessions': async (tenant) => {
      await session(tenant);
      return (await call('GET', '/sessions', { key: tenant.key })).body.data[0].id;
    },
    '/destinations': async ({ key }) =>
      (await call('POST', '/destinations', { key, body: newDestination() })).body.id,
    '/tokens': async ({ key }) => (await call('POST', '/tokens', { key, body: token })).body.id,
  };

  /** Returns the id of a new entity for the path of the route, or an empty string if its collection has none. */
  async function createEntity(route: Route, tenant: Tenant): Promise<string> {
    const collection = collectionOf(route);
    const create = entities[collection];
    if (!create && route.path.includes(':'))
      throw new Error(`Add ${collection} to \`entities\` in test/support/route-access.ts`);
    return create ? create(tenant) : '';
  }

  /** Bodies by route name. Other routes get their `bodyExample`, or none if they need none. */
  const bodies: Record<string, (tenant: Tenant) => unknown> = {
    createDelegation: () => ({ permissions: ['token:read'] }),
    authorizeSession: async (tenant) => ({ nonce: (await session(tenant)).nonce, permissions: ['mine:x'] }),
    createDestination: newDestination,
    updateDestination: () => ({ name: destinationName(), requests: destinationRequests }),
    createToken: () => token,
    updateToken: () => ({ ...token, metadata: { a: 'b' } }),
    decide: ({ key }) => ({ credential: key, permission: 'mine:x' }),
    revokeKey: async ({ key }) => ({ key: (await application(key)).key }),
  };

  /** Queries by route name, for routes that need one. */
  const queries: Record<string, string> = {
    whoHasAccess: '?container=/',
    endSessions: '?subject=user:42',
    deleteTokens: '?container=/customers/42/',
    diffAccess: '?from=2026-01-01T00:00:00Z',
    allowUse: `?application=${crypto.randomUUID()}`,
  };

  async function bodyFor(route: Route, tenant: Tenant): Promise<unknown> {
    const own = bodies[route.name];
    if (own) return own(tenant);
    return 'bodyIfMissing' in route ? undefined : route.bodyExample;
  }

  /** Fills in the entity's id, and the id of one of its keys if the path has one. */
  async function pathFor({ name, path }: Route, id: string, owner: Tenant): Promise<string> {
    const filled = path.replace(':id', id).replace(':token_id', 'card-42') + (queries[name] ?? '');
    if (!path.includes(':key_id')) return filled;
    const { body } = await call('GET', `/applications/${id}/keys`, { key: owner.key });
    return filled.replace(':key_id', body.data?.[0].id ?? crypto.randomUUID());
  }

  async function keyWithDestination(tenant: Tenant): Promise<string> {
    const { body } = await call('POST', '/destinations', { key: tenant.key, body: newDestination() });
    const rules = [tokenUseRule('/', [body.id])];
    return (await application(tenant.key, { permissions: [], rules })).key;
  }

  /** A valid request with its own entities, and a key that may send it. */
  async function prepare(route: Route, tenant: Tenant): Promise<RouteRequest> {
    const accepted = 'callers' in route ? route.callers : undefined;
    const caller = accepted?.includes('management') ? undefined : accepted?.[0];
    const uses = 'permission' in route && route.permission === 'token:use';
    return {
      path: await pathFor(route, await createEntity(route, tenant), tenant),
      key: uses ? await keyWithDestination(tenant) : caller ? await keyOf(caller, tenant) : tenant.key,
      body: await bodyFor(route, tenant),
    };
  }

  /** Calls the route for an entity of `owner`, with a body that is valid for `tenant`. */
  async function callRoute(
    route: Route,
    key: string | undefined,
    id: string,
    tenant: Tenant,
    owner = tenant,
  ): Promise<RouteResponse> {
    return call(route.method, await pathFor(route, id, owner), { key, body: await bodyFor(route, tenant) });
  }

  return { session, keyOf, createEntity, prepare, callRoute };
}
