import type { Tenant } from '../fleet.ts';
import { type Clients, clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { retryUnavailable } from '../retry.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

const probes = 60;
/** Lifetime of an application that expires, in milliseconds. */
const lifetime = 1500;

export const revocations: Row = {
  name: 'revocations',
  requirement:
    '500 revocations of ten kinds, 60 requests each over 3 nodes after the response: none accepted',
  databases: allDatabases,
  run,
};

/** A valid key, how it is revoked, and the expected status afterwards. */
interface Case {
  readonly key: string;
  readonly refusal: 401 | 403;
  /** The request that is refused afterwards, if it is not `GET /applications/key`. */
  readonly request?: readonly [method: string, path: string, body?: object];
  /** The expiry of the key, possibly before it was tried. */
  readonly ends?: number;
  revoke(): Promise<unknown>;
}

type Make = (clients: Clients, tenant: Tenant, node: number) => Promise<Case>;

const reading = { permissions: ['application:read'] };
const narrower = { name: 'narrowed', permissions: ['mine:x'] };

const kinds: Record<string, Make> = {
  'Application deleted': async ({ must, application }, { key }, node) => {
    const made = await application(key, reading);
    return {
      ...refused(401, made.key),
      revoke: () => must(node, 'DELETE', `/applications/${made.id}`, { key }),
    };
  },
  'key regenerated': async ({ must, application }, { key }, node) => {
    const made = await application(key, reading);
    const revoke = () => must(node, 'POST', `/applications/${made.id}/regenerate`, { key });
    return { ...refused(401, made.key), revoke };
  },
  'one key of two deleted': async ({ must, application }, { key }, node) => {
    const made = await application(key, reading);
    const second = await must(node, 'POST', `/applications/${made.id}/keys`, { key });
    const revoke = () => must(node, 'DELETE', `/applications/${made.id}/keys/${second.id}`, { key });
    return { ...refused(401, second.key), revoke };
  },
  'Application narrowed': async ({ must, application }, { key }, node) => {
    const made = await application(key, reading);
    const revoke = () => must(node, 'PUT', `/applications/${made.id}`, { key, body: narrower });
    return { ...refused(403, made.key), revoke };
  },
  'Application expired': async ({ application }, { key }) => {
    const ends = Date.now() + lifetime;
    const made = await application(key, { ...reading, expires_at: new Date(ends).toISOString() });
    return { ...refused(401, made.key), ends, revoke: () => Bun.sleep(ends - Date.now()) };
  },
  'tenant disabled': async ({ fleet, application }) => {
    const tenant = await fleet.tenant();
    const made = await application(tenant.key, reading);
    return {
      ...refused(401, made.key),
      revoke: () => retryUnavailable(() => fleet.maintenance.tenants.disable(tenant.id)),
    };
  },
  'Session ended': async (clients, tenant, node) => {
    const { session_key } = await session(clients, tenant.key, tenant.key, node);
    const revoke = async () => {
      const { data } = await clients.must(node, 'GET', '/sessions?size=1', { key: tenant.key });
      return clients.must(node, 'DELETE', `/sessions/${data[0].id}`, { key: tenant.key });
    };
    return { ...refused(401, session_key), revoke };
  },
  'application of a session deleted': async (clients, { key }, node) => {
    const { session_key, web } = await session(clients, key, key, node);
    const revoke = () => clients.must(node, 'DELETE', `/applications/${web.id}`, { key });
    return { ...refused(401, session_key), revoke };
  },
  'authorizer narrowed': async (clients, { key }, node) => {
    const backend = await clients.application(key, reading);
    const { session_key } = await session(clients, key, backend.key, node);
    const revoke = () => clients.must(node, 'PUT', `/applications/${backend.id}`, { key, body: narrower });
    return { ...refused(403, session_key), revoke };
  },
  // A session that a management key authorized has no ceiling.
  'authorizer quarantined': async (clients, { key }, node) => {
    const permissions = ['token:update', 'session:authorize'];
    const backend = await clients.application(key, { type: 'management', permissions });
    const token = await clients.must(node, 'POST', '/tokens', { key, body: { data: 'x' } });
    const { session_key } = await session(clients, key, backend.key, node, ['token:update']);
    const revoke = () => clients.must(node, 'POST', `/applications/${backend.id}/quarantine`, { key });
    return {
      ...refused(403, session_key),
      request: ['PATCH', `/tokens/${token.id}`, { metadata: {} }],
      revoke,
    };
  },
};

function refused(refusal: Case['refusal'], key: string): Omit<Case, 'revoke'> {
  return { key, refusal };
}

async function session(
  { must, application }: Clients,
  key: string,
  authorizer: string,
  node: number,
  permissions = reading.permissions,
) {
  const web = await application(key, { type: 'public' });
  const { session_key, nonce } = await must(node, 'POST', '/sessions', { key: web.key });
  await must(node, 'POST', '/sessions/authorize', { key: authorizer, body: { nonce, permissions } });
  return { web, session_key: session_key as string };
}

async function run(context: Context): Promise<Outcome> {
  const names = Object.keys(kinds);
  const count = context.sized(500, names.length);
  const clients = clientsOf(context, await context.fleet());
  const failures: string[] = [];
  let [accepted, unexpected] = [0, 0];

  const ask = async (node: number, { key, request = ['GET', '/applications/key'] }: Case) => {
    const [method, path, body] = request;
    return (await clients.call(node, method, path, { key, body })).status;
  };

  await forEachConcurrently(count, 4, async (index) => {
    const name = names[index % names.length] as string;
    const tenant = await clients.fleet.tenant();
    const made = await (kinds[name] as Make)(clients, tenant, index);
    const { refusal, ends = Number.POSITIVE_INFINITY, revoke } = made;
    const before = await Promise.all(clients.fleet.nodes.map((_, node) => ask(node, made)));
    if (before.some((status) => status !== 200) && Date.now() < ends)
      failures.push(`${name}: ${before} before the revocation`);
    await revoke();
    const after = await Promise.all(Array.from({ length: probes }, (_, probe) => ask(probe, made)));
    const passed = after.filter((status) => status < 300).length;
    const odd = after.filter((status) => status >= 300 && status !== refusal);
    accepted += passed;
    unexpected += odd.length;
    if (passed > 0) failures.push(`${name}: ${passed} of ${probes} probes were accepted afterwards`);
    if (odd.length > 0) failures.push(`${name}: answered with ${[...new Set(odd)]}, not ${refusal}`);
  });

  return {
    figures: { revocations: count, requests: count * probes, accepted, 'other responses': unexpected },
    failures: failures.slice(0, 10),
  };
}
