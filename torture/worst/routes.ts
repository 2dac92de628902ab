/**
 * Requests whose cost comes from the size of what is stored, against a tenant whose applications, sessions, tokens and log
 * make them expensive. Requests whose cost comes from their own texts follow from the route table: see `torture/texts/`.
 */
import { runSql } from '../../test/support/test-store.ts';
import type { RequestOptions } from '../client.ts';
import type { Tenant } from '../fleet.ts';
import type { Body, Clients } from '../fleet-clients.ts';
import type { Context } from '../row.ts';
import { largeDestination, makeProxied, type Proxied, proxyRequests, wrongRules } from './attacks.ts';
import { Filler, metadataNames } from './fill.ts';

export interface WorstRequest extends RequestOptions {
  /** What makes it expensive. */
  readonly what: string;
  readonly path: string;
  /** Statuses other than success that are expected. */
  readonly expected?: readonly number[];
}

/** Names and ids that the requests use. */
export interface World {
  /** A management key with all permissions. */
  readonly owner: string;
  /** A private application with 50 rules of 50 permissions each, and its key. */
  readonly heavy: { readonly id: string; readonly key: string };
  /** A key that reveals and changes every token. */
  readonly revealer: string;
  /** A session with 50 rules of many conditions, under the ceiling of `heavy`. */
  readonly session: string;
  readonly publicKey: string;
  /** Ids of applications like `heavy`. */
  readonly applications: readonly string[];
  readonly largeToken: string;
  /** Makes an application like `heavy`, to be changed. */
  application(): Promise<{ id: string; key: string; keyId: string }>;
  pendingNonce(): Promise<string>;
  /** Makes a session like `session`, to be changed. */
  sessionId(): Promise<string>;
  token(fields?: object): Promise<string>;
  /** Makes a destination with 50 requests. */
  destination(): Promise<string>;
  readonly proxied: Proxied;
}

const names = Array.from({ length: 45 }, (_, at) => `z:${String.fromCharCode(97 + (at % 26))}${at}`);
const permissions = ['token:read', 'token:create', 'token:update', 'token:delete', 'token:search', ...names];

/** 50 rules of about 1 KiB. Their containers have long common prefixes. */
const heavyRules = Array.from({ length: 50 }, (_, at) => ({
  priority: 50 - at,
  container: `/h/${'c'.repeat(200)}/${'d'.repeat(at % 10)}${at}/`,
  transform: 'reveal',
  permissions,
  description: 'x'.repeat(300),
}));

const sessionRules = Array.from({ length: 50 }, (_, at) => ({
  priority: 50 - at,
  transform: 'reveal',
  permissions: permissions.slice(0, 40),
  conditions: Array.from({ length: 10 }, (_, more) => ({
    attribute: more % 2 ? 'id' : 'container',
    operator: 'starts_with',
    value: more % 2 ? `i${at}`.slice(0, 1 + (more % 3)) : `/h/${'c'.repeat(Math.min(200, more * 5))}`,
  })),
}));

const heavyPermissions = ['decision:create', 'application:read'];
const heavyFields = { name: 'heavy', permissions: heavyPermissions, rules: heavyRules };

const mebibyte = 1_048_576;

export async function makeWorld(context: Context, clients: Clients, tenant: Tenant): Promise<World> {
  const { must } = clients;
  const { key: owner, id } = tenant;
  const call = (method: string, path: string, options: RequestOptions = {}): Promise<Body> =>
    must(0, method, path, { key: owner, ...options });
  const application = async (fields: object = {}) => {
    const made = await call('POST', '/applications', {
      body: { type: 'private', ...heavyFields, ...fields },
    });
    const { data } = await call('GET', `/applications/${made.id}/keys`);
    return { id: made.id, key: made.key, keyId: data[0].id };
  };
  const heavy = await application();
  const everywhere = {
    priority: 1,
    container: '/',
    transform: 'reveal',
    permissions: permissions.slice(0, 5),
  };
  const revealer = await application({ permissions: [], rules: [everywhere] });
  const web = await application({ type: 'public', permissions: ['token:read'], rules: [] });
  const pendingNonce = async () => (await call('POST', '/sessions', { key: web.key })).nonce;
  const expires_at = new Date(Date.now() + 86_000_000).toISOString();
  const makeSession = async (subject?: string) => {
    const { session_key, nonce } = await call('POST', '/sessions', { key: web.key });
    const grants = { rules: sessionRules, permissions: ['decision:create'] };
    const body = { nonce, ...grants, expires_at, ...(subject && { subject }) };
    await call('POST', '/sessions/authorize', { key: heavy.key, body });
    return session_key as string;
  };
  const session = await makeSession();
  const token = async (fields: object = {}) =>
    (await call('POST', '/tokens', { body: { container: '/h/', data: { number: '4242' }, ...fields } })).id;
  const destination = async () => (await call('POST', '/destinations', { body: largeDestination() })).id;
  const proxied = await makeProxied({ tenant, call, application, rule: everywhere });
  const largeToken = await token({ data: largeData(1) });
  for (let at = 0; at < context.sized(300, 30); at++) await token(searchable);
  for (let at = 0; at < 10; at++) await token({ data: 'x'.repeat(mebibyte - 100) });

  const filler = new Filler(clients.fleet.databaseUrl, context.database.name);
  context.defer(() => filler.clear());
  for (let at = 0; at < 40; at++) {
    const rules = heavyRules.map((rule) => ({ ...rule, transform: at % 2 ? 'mask' : 'reveal' }));
    await call('PUT', `/applications/${heavy.id}`, { body: { ...heavyFields, rules } });
  }
  const uses = Array.from(
    { length: 500 },
    (_, at) => `('${id}', '${heavy.id}', '${permissions[at % 50]}',
    '/h/${'c'.repeat(200)}/x${at}/', ${Date.now()})`,
  );
  await runSql(
    clients.fleet.databaseUrl,
    `insert into application_uses (tenant_id, application_id, permission, container, last_used_at) values ${uses.join(',')}`,
  );
  const applications = await filler.copyApplications(id, heavy.id, context.sized(2000, 200));
  await filler.copySessions(id, context.sized(1000, 200));
  await filler.tokens(id, context.sized(100_000, 4000));
  await filler.log(id, context.sized(200_000, 5000));
  return {
    owner,
    heavy,
    revealer: revealer.key,
    session,
    publicKey: web.key,
    applications,
    largeToken,
    application,
    pendingNonce,
    destination,
    proxied,
    sessionId: async () => {
      await makeSession('user:42');
      return (await call('GET', '/sessions?size=1')).data[0].id;
    },
    token,
  };
}

/** Data with as many values as a body may have, in the form that takes longest to check. */
function largeData(seed: number): number[] {
  return Array.from({ length: 9900 }, (_, at) => (at + seed) / 7919);
}

const manyNames = `{${Array.from({ length: 4800 }, (_, at) => `"${at.toString(36)}":1`).join(',')}}`;
const rejected = [400];
const slowMask = {
  container: '/h/',
  data: { a: '\u{1f511}'.repeat(490), b: 1 },
  mask: `{{ data.a${' | reveal_last: 99999'.repeat(190)} | last }}`,
};
const slowSearch = {
  container: '/h/',
  data: { a: '\u{1f511}'.repeat(490), b: 1 },
  search: Object.fromEntries(
    ['a', 'b', 'c', 'd', 'e'].map((name) => [
      name,
      `{{ data.a${' | reveal_last: 99999'.repeat(20)} | last }}`,
    ]),
  ),
};
const longLines = { data: { text: '\n"'.repeat(mebibyte / 4 - 1000) } };
const resources = Array.from({ length: 100 }, (_, at) => ({
  id: `${at}-`.padEnd(250, 'i'),
  container: `/h/${'c'.repeat(200)}/x${at}/`,
}));
const evaluation = (id: string, at = 0) => ({
  subject: { type: 'application', id },
  action: { name: 'read' },
  resource: { type: 'token', id: `none-${at}`, properties: { container: resources[at]?.container } },
});
const manyOutputs = [1, 2].map((priority) => ({
  ...{ priority, container: '/h/', transform: 'redact', permissions: ['token:create'] },
  defaults: { mask: `${priority}${'{{data}}'.repeat(100)}` },
}));
const newApplication = (fields: object) => ({ name: 'heavy', type: 'private', ...fields });
const common = { equals: { a: '1', b: '1', c: '1', d: '1', e: '1' }, size: 100 };
const searchable = {
  container: '/h/',
  data: { number: '1' },
  search: Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [name, '{{ data.number }}'])),
};
const hourAgo = () => new Date(Date.now() - 3_600_000).toISOString();
const reportFiles = [...'abcdefghijklmnopqrst'].map((at) => ({ name: `${at}.csv`, sha256: '0'.repeat(64) }));
const reportBody = () => ({ from: hourAgo(), to: '2100-01-01T00:00:00Z', files: reportFiles });
const metadata = metadataNames.map((name) => `metadata[${name}]=v`).join('&');

type Requests = readonly WorstRequest[] | Promise<readonly WorstRequest[]>;

/** By the name of the route. */
export const worstRequests: Record<string, (world: World) => Requests> = {
  createApplication: ({ owner: key }) => [
    { what: '50 rules of 50 permissions', path: '/applications', key, body: newApplication(heavyFields) },
    { what: '200 outputs', path: '/applications', key, body: newApplication({ rules: manyOutputs }) },
    { what: '50 wrong rules', path: '/applications', key, body: wrongRules, expected: rejected },
  ],
  listApplications: ({ owner: key }) => [
    { what: '100 with 50 rules', path: '/applications?size=100', key },
    { what: 'a name that none has', path: '/applications?size=100&name=none&type=private', key },
    { what: 'a deep page', path: '/applications?size=100&page=99', key },
    { what: 'the ending of a key', path: `/applications?size=100&key_ending=${key.slice(-4)}`, key },
  ],
  getApplication: ({ owner: key, heavy }) => [
    { what: 'with 50 rules', path: `/applications/${heavy.id}`, key },
  ],
  getApplicationByKey: ({ heavy: { key } }) => [{ what: 'with 50 rules', path: '/applications/key', key }],
  updateApplication: ({ owner: key, heavy: { id } }) => [
    { what: 'with 50 rules', path: `/applications/${id}`, key, body: heavyFields },
    {
      what: 'a preview with many sessions',
      path: `/applications/${id}?dry_run=true&days=365`,
      key,
      body: { ...heavyFields, rules: heavyRules.map((rule) => ({ ...rule, transform: 'redact' })) },
    },
  ],
  regenerateKey: async ({ owner: key, application }) => [
    { what: 'with 50 rules', path: `/applications/${(await application()).id}/regenerate`, key },
  ],
  deleteApplication: async ({ owner: key, application }) => [
    { what: 'with 50 rules', path: `/applications/${(await application()).id}`, key },
  ],
  createKey: async ({ owner: key, application }) => [
    { what: 'with 50 rules', path: `/applications/${(await application()).id}/keys`, key },
  ],
  deleteKey: async ({ owner: key, application }) => {
    const { id, keyId } = await application();
    return [{ what: 'with 50 rules', path: `/applications/${id}/keys/${keyId}`, key }];
  },
  quarantineApplication: async ({ owner: key, application }) => [
    { what: 'with 50 rules', path: `/applications/${(await application()).id}/quarantine`, key },
  ],
  releaseApplication: async ({ owner: key, application }) => [
    { what: 'with 50 rules', path: `/applications/${(await application()).id}/quarantine`, key },
  ],
  getUsage: ({ owner: key, heavy }) => [
    { what: '500 uses of 2,500 grants', path: `/applications/${heavy.id}/usage`, key },
  ],
  authorizeSession: async ({ heavy: { key }, pendingNonce }) => [
    {
      what: '50 rules of 10 conditions',
      path: '/sessions/authorize',
      key,
      body: { nonce: await pendingNonce(), rules: sessionRules, permissions: ['decision:create'] },
    },
  ],
  createDelegation: ({ heavy: { key } }) => [
    {
      what: '50 rules of 10 conditions',
      path: '/delegations',
      key,
      body: { rules: sessionRules, permissions: ['decision:create'] },
    },
  ],
  listSessions: ({ owner: key, heavy }) => [
    { what: '100 with 50 rules', path: '/sessions?size=100', key },
    { what: 'a deep page', path: '/sessions?size=100&page=99', key },
    { what: 'of one authorizer', path: `/sessions?size=100&authorized_by=${heavy.id}&state=pending`, key },
  ],
  getSession: async ({ owner: key, sessionId }) => [
    { what: 'with 50 rules', path: `/sessions/${await sessionId()}`, key },
  ],
  endSession: async ({ owner: key, sessionId }) => [
    { what: 'with 50 rules', path: `/sessions/${await sessionId()}`, key },
  ],
  endSessions: ({ owner: key }) => [{ what: 'with 50 rules', path: '/sessions?subject=user:42', key }],
  quarantineSession: async ({ owner: key, sessionId }) => [
    { what: 'with 50 rules', path: `/sessions/${await sessionId()}/quarantine`, key },
  ],
  releaseSession: async ({ owner: key, sessionId }) => [
    { what: 'with 50 rules', path: `/sessions/${await sessionId()}/quarantine`, key },
  ],
  createToken: ({ owner: key }) => [
    { what: 'a mask with 190 filters', path: '/tokens', key, body: slowMask },
    { what: 'five search templates with 20 filters each', path: '/tokens', key, body: slowSearch },
    { what: 'unless it exists', path: '/tokens', key, body: { ...searchable, unless_exists: 'a' } },
    {
      what: 'a mask over 9,900 values',
      path: '/tokens',
      key,
      body: { container: '/h/', data: { a: 'x'.repeat(60_000), values: largeData(2) }, mask: '{{ data.a }}' },
    },
  ],
  listTokens: ({ owner, revealer, session, heavy }) => [
    { what: '8 MiB of plaintext', path: '/tokens?size=100', key: revealer },
    { what: '10 filters', path: `/tokens?size=100&${metadata}`, key: owner },
    {
      what: '10 filters, 50 rules and 50 of the ceiling',
      path: `/tokens?size=100&${metadata}`,
      key: session,
    },
    { what: '50 rules', path: '/tokens?size=100', key: heavy.key },
    { what: 'a deep page', path: '/tokens?size=100&page=99', key: owner },
    { what: 'an unused type', path: '/tokens?size=100&type=absent', key: owner },
  ],
  getToken: ({ revealer: key, session, largeToken }) => [
    { what: '9,900 values', path: `/tokens/${largeToken}`, key },
    { what: '50 rules and 50 of the ceiling', path: `/tokens/${largeToken}`, key: session, expected: [403] },
  ],
  updateToken: async ({ revealer: key, largeToken, token }) => [
    { what: 'new data with 9,900 values', path: `/tokens/${largeToken}`, key, body: { data: largeData(3) } },
    { what: 'a mask for 9,900 values', path: `/tokens/${largeToken}`, key, body: { mask: '{{ data[0] }}' } },
    { what: 'a part of 1 MiB', path: `/tokens/${await token(longLines)}`, key, body: { data: { a: 1 } } },
  ],
  deleteToken: async ({ owner: key, token }) => [
    { what: 'of 1 MiB', path: `/tokens/${await token({ data: 'x'.repeat(mebibyte - 100) })}`, key },
  ],
  deleteTokens: async ({ owner, session, token }) => {
    for (let at = 0; at < 8; at++) await token({ container: '/gone/', data: 'x'.repeat(mebibyte - 100) });
    return [
      { what: '8 MiB', path: '/tokens?container=/gone/', key: owner },
      {
        what: '50 rules and 50 of the ceiling',
        path: '/tokens?container=/h/',
        key: session,
        expected: [403],
      },
    ];
  },
  searchTokens: ({ revealer, session }) => [
    { what: 'a value that many tokens have', path: '/tokens/search', key: revealer, body: common },
    { what: '50 rules and 50 of the ceiling', path: '/tokens/search', key: session, body: common },
  ],
  createDestination: ({ owner: key }) => [
    { what: '50 requests', path: '/destinations', key, body: largeDestination(), expected: [409] },
  ],
  listDestinations: ({ owner: key }) => [
    { what: '50 requests each', path: '/destinations?size=100', key },
    { what: 'a name that none has', path: '/destinations?size=100&name=none', key },
  ],
  getDestination: ({ owner: key, proxied: { id } }) => [
    { what: 'many placeholders', path: `/destinations/${id}`, key },
  ],
  deleteDestination: async ({ owner: key, destination }) => [
    { what: '50 requests', path: `/destinations/${await destination()}`, key },
  ],
  ...proxyRequests,
  decide: ({ owner: key, session, heavy }) => [
    {
      what: '100 explained resources, 50 rules and 50 of the ceiling',
      path: '/decisions',
      key,
      body: {
        credential: session,
        permission: 'token:read',
        resources: resources.slice(0, 30),
        explain: true,
      },
    },
    {
      what: '100 recorded resources',
      path: '/decisions',
      key,
      body: { credential: heavy.key, permission: 'token:read', resources, record: true },
    },
  ],
  whoHasAccess: ({ owner: key }) => [
    { what: 'all applications and sessions', path: '/access/who?size=100&container=/h/', key },
  ],
  diffAccess: ({ owner: key }) => [
    { what: 'new applications with 50 rules', path: `/access/diff?from=${hourAgo()}`, key },
  ],
  adviseAccess: ({ owner: key }) => [
    { what: '100 applications with 50 rules', path: '/access/advice?size=100', key },
    { what: 'a summary', path: '/access/advice?size=1000&summary=true', key },
  ],
  createReport: ({ owner: key }) => [{ what: '20 files', path: '/access/reports', key, body: reportBody() }],
  evaluate: ({ owner: key, applications }) => [
    { what: '50 rules', path: '/access/v1/evaluation', key, body: evaluation(applications[0] as string) },
  ],
  evaluateAll: ({ owner: key, applications }) => [
    {
      what: '100 evaluations with a large context',
      path: '/access/v1/evaluations',
      key,
      body: {
        ...evaluation(applications[0] as string),
        context: JSON.parse(manyNames),
        evaluations: Array.from({ length: 100 }, () => ({})),
      },
    },
    {
      what: '100 applications with 50 rules',
      path: '/access/v1/evaluations',
      key,
      body: { evaluations: applications.slice(0, 100).map(evaluation) },
    },
  ],
  searchSubjects: ({ owner: key }) => [
    {
      what: 'a permission that all grant elsewhere',
      path: '/access/v1/search/subject',
      key,
      body: { ...evaluation('', 1), subject: { type: 'application' }, page: { limit: 100 } },
    },
  ],
  searchResources: ({ owner: key, heavy }) => [
    {
      what: '50 rules',
      path: '/access/v1/search/resource',
      key,
      body: { ...evaluation(heavy.id), resource: { type: 'token' } },
    },
  ],
  searchActions: ({ owner: key, heavy }) => [
    {
      what: '50 permissions and 50 rules',
      path: '/access/v1/search/action',
      key,
      body: {
        subject: evaluation(heavy.id).subject,
        resource: { ...evaluation(heavy.id).resource, type: 'z' },
      },
    },
  ],
  listLogs: ({ owner: key, heavy }) => [
    { what: 'changes of 50 rules', path: `/logs?size=100&entity=${heavy.id}`, key },
    { what: 'large entries that do not match', path: `/logs?size=100&entity=${heavy.id}&result=denied`, key },
    {
      what: 'an actor without this operation',
      path: '/logs?size=100&actor=01900001-0000-7000-8000-000000000001&operation=application.update',
      key,
    },
    { what: 'a container without entries', path: '/logs?size=100&container=/nothing/', key },
    { what: 'an id of no entry', path: '/logs?id=01900001-0000-7000-8000-000000000001', key },
    { what: 'an operation of no entry', path: '/logs?size=100&operation=tenant.delete', key },
  ],
  countLogs: ({ owner: key }) => [
    { what: 'all entries', path: '/logs/counts', key },
    { what: 'all denials', path: '/logs/counts?denials=true', key },
    { what: 'by operation', path: '/logs/counts?operation=application.update', key },
    { what: 'by operation and result', path: '/logs/counts?operation=application.update&result=denied', key },
  ],
  countRequests: ({ owner: key }) => [{ what: 'all', path: '/requests/counts', key }],
  listOwnPermissions: ({ heavy: { key } }) => [{ what: '50 permissions', path: '/permissions/own', key }],
};
