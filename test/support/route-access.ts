/** Expected status of every route for every kind of caller and id, and a client that calls any route. */
import { builtIn } from '../../src/domain/permission.ts';
import type { Route } from '../../src/http/pipeline/route.ts';
import { routes } from '../../src/http/routes.ts';

/** Every caller holds all permissions that its kind may hold. `pending` is a session that is not authorized yet. */
export const callers = ['anonymous', 'management', 'private', 'public', 'session', 'pending'] as const;
export type Caller = (typeof callers)[number];

/** Statuses by route name, in the order of `callers`. */
export const statusByCaller: Record<string, number[]> = {
  createApplication: [401, 201, 201, 403, 403, 403],
  listApplications: [401, 200, 200, 200, 200, 403],
  getApplicationByKey: [401, 200, 200, 200, 200, 403],
  getApplication: [401, 200, 200, 200, 200, 403],
  updateApplication: [401, 200, 200, 403, 403, 403],
  regenerateKey: [401, 200, 200, 403, 403, 403],
  deleteApplication: [401, 204, 204, 403, 403, 403],
  createKey: [401, 201, 201, 403, 403, 403],
  listKeys: [401, 200, 200, 200, 200, 403],
  deleteKey: [401, 204, 204, 403, 403, 403],
  getUsage: [401, 200, 200, 200, 200, 403],
  quarantineApplication: [401, 200, 200, 403, 403, 403],
  releaseApplication: [401, 204, 204, 403, 403, 403],
  createSession: [401, 403, 403, 201, 403, 403],
  authorizeSession: [401, 204, 204, 403, 403, 403],
  listSessions: [401, 200, 200, 200, 200, 403],
  endSession: [401, 204, 204, 403, 403, 403],
  quarantineSession: [401, 200, 200, 403, 403, 403],
  releaseSession: [401, 204, 204, 403, 403, 403],
  createToken: [401, 201, 201, 201, 201, 403],
  listTokens: [401, 200, 200, 200, 200, 403],
  getToken: [401, 200, 200, 200, 200, 403],
  updateToken: [401, 200, 200, 200, 200, 403],
  deleteToken: [401, 204, 204, 204, 204, 403],
  decide: [401, 200, 200, 200, 403, 403],
  whoHasAccess: [401, 200, 200, 403, 403, 403],
  diffAccess: [401, 200, 200, 403, 403, 403],
  adviseAccess: [401, 200, 200, 403, 403, 403],
  evaluate: [401, 200, 200, 403, 403, 403],
  evaluateAll: [401, 200, 200, 403, 403, 403],
  searchSubjects: [401, 200, 200, 403, 403, 403],
  searchResources: [401, 200, 200, 403, 403, 403],
  searchActions: [401, 200, 200, 403, 403, 403],
  getTenant: [401, 200, 200, 403, 403, 403],
  countLogs: [401, 200, 200, 403, 403, 403],
  countRequests: [401, 200, 200, 403, 403, 403],
  listLogs: [401, 200, 200, 403, 403, 403],
};

/** Statuses for a management key, by route name. The id is: its own, another tenant's, unknown, deleted, malformed. */
export const statusById: Record<string, number[]> = {
  getApplication: [200, 404, 404, 404, 400],
  updateApplication: [200, 404, 404, 404, 400],
  regenerateKey: [200, 404, 404, 404, 400],
  deleteApplication: [204, 404, 404, 404, 400],
  createKey: [201, 404, 404, 404, 400],
  listKeys: [200, 404, 404, 404, 400],
  deleteKey: [204, 404, 404, 404, 400],
  quarantineApplication: [200, 404, 404, 404, 400],
  releaseApplication: [204, 404, 404, 404, 400],
  getUsage: [200, 404, 404, 404, 400],
  endSession: [204, 404, 404, 404, 400],
  quarantineSession: [200, 404, 404, 404, 400],
  releaseSession: [204, 404, 404, 404, 400],
  getToken: [200, 404, 404, 404, 400],
  updateToken: [200, 404, 404, 404, 400],
  deleteToken: [204, 404, 404, 404, 400],
};

export const collectionOf = ({ path }: Route) => `/${path.split('/')[1]}`;
export const authenticatedRoutes = routes.filter(({ kind }) => kind !== 'open');
const publicPermissions = builtIn.filter(
  (name) =>
    !/^(application:(create|update|delete)|session:(authorize|delete)|access:review|log:read|tenant:read)$/.test(
      name,
    ),
);
export const routesWithId = routes.filter(({ path }) => path.includes(':'));

export interface Tenant {
  readonly id: string;
  readonly key: string;
}

export interface RouteResponse {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: callers check the fields
  readonly body: any;
}

type Call = (
  method: string,
  path: string,
  options?: { key?: string | undefined; body?: unknown },
) => Promise<RouteResponse>;

/** Calls any route, and creates the entities that it needs. */
export function routeCaller(call: Call) {
  async function application(key: string, fields: object): Promise<RouteResponse['body']> {
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
    if (caller === 'session') return (await session(tenant, publicPermissions)).session_key;
    if (caller === 'pending') return (await session(tenant)).session_key;
    const permissions = caller === 'public' ? publicPermissions : builtIn;
    return (await application(tenant.key, { type: caller, permissions })).key;
  }

  /** Creates the application, session or token that the route takes, and returns its id. */
  async function createEntity(route: Route, tenant: Tenant): Promise<string> {
    const { key } = tenant;
    if (collectionOf(route) === '/sessions') {
      await session(tenant);
      return (await call('GET', '/sessions', { key })).body.data[0].id;
    }
    if (!route.path.startsWith('/tokens')) return (await application(key, {})).id;
    return (await call('POST', '/tokens', { key, body: { data: 'x' } })).body.id;
  }

  async function bodyFor({ name }: Route, tenant: Tenant): Promise<unknown> {
    const grants = { permissions: ['mine:x'] };
    if (name === 'createApplication') return { name: 'x', type: 'private', ...grants };
    if (name === 'updateApplication') return { name: 'x', ...grants };
    if (name === 'authorizeSession') return { nonce: (await session(tenant)).nonce, ...grants };
    if (name === 'createToken') return { data: 'x' };
    if (name === 'updateToken') return { metadata: { a: 'b' } };
    const evaluation = {
      subject: { type: 'user', id: 'alice' },
      action: { name: 'read' },
      resource: { type: 'record', id: 'record-1' },
    };
    if (name.startsWith('evaluate') || name.startsWith('search')) return evaluation;
    if (name === 'decide') return { credential: tenant.key, permission: 'mine:x' };
    return undefined;
  }

  /** Fills in the entity's id, and the id of one of its keys if the path has one. */
  async function pathFor({ path }: Route, id: string, owner: Tenant): Promise<string> {
    if (path === '/access/who') return `${path}?container=/`;
    if (path === '/access/diff') return `${path}?from=2026-01-01T00:00:00Z`;
    if (!path.includes(':key_id')) return path.replace(':id', id);
    const { body } = await call('GET', `/applications/${id}/keys`, { key: owner.key });
    return path.replace(':id', id).replace(':key_id', body.data?.[0].id ?? crypto.randomUUID());
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

  return { session, keyOf, createEntity, callRoute };
}
