/** Keys are revoked with `POST /keys/revoke` while requests with them arrive at every worker of every node. */
import type { Tenant } from '../fleet.ts';
import { type Clients, clientsOf, forEachConcurrently, retry503 } from '../fleet-clients.ts';
import type { Random } from '../random.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const leakedKeys: Row = {
  name: 'leaked-keys',
  requirement:
    'keys of three kinds are revoked with POST /keys/revoke, twice at the same time, while requests with them and with their sessions arrive at 3 nodes with 2 workers each: no request that is sent after a 204 is accepted; incomplete keys, nonces and other text get the same 204 and revoke no key; public keys get 400',
  databases: allDatabases,
  run,
};

/** Enough connections that every worker of a node has some. */
const connections = 16;
/** Requests of each connection that are sent after the response of the revocation. */
const afterwards = 5;

interface Victim {
  readonly key: string;
  /** Keys of sessions that must end together with the key. */
  readonly sessions: readonly string[];
}

const reading = { permissions: ['application:read'] };

const kinds: Record<string, (clients: Clients, tenant: Tenant) => Promise<Victim>> = {
  private: async (clients, { key }) => {
    const { key: backend } = await clients.application(key, reading);
    return { key: backend, sessions: [await openSession(clients, key, backend)] };
  },
  management: async (clients, { key }) => {
    const fields = { type: 'management', permissions: ['application:read', 'session:authorize'] };
    const { key: backend } = await clients.application(key, fields);
    return { key: backend, sessions: [await openSession(clients, key, backend)] };
  },
  session: async (clients, { key }) => ({ key: await openSession(clients, key, key), sessions: [] }),
};

async function openSession({ must, application }: Clients, key: string, backend: string): Promise<string> {
  const web = await application(key, { type: 'public' });
  const { session_key, nonce } = await must(0, 'POST', '/sessions', { key: web.key });
  await must(0, 'POST', '/sessions/authorize', { key: backend, body: { nonce, ...reading } });
  return session_key;
}

/** Texts that are not the key, but similar to it. */
function similarTo(key: string, random: Random): string[] {
  const index = 8 + random.below(key.length - 8);
  const other = key[index] === 'A' ? 'B' : 'A';
  const typo = key.slice(0, index) + other + key.slice(index + 1);
  return [typo, key.slice(0, -1), key.slice(1), `${key}0`, `"${key}"`, key.toLowerCase(), key.slice(8), 'x'];
}

async function run(context: Context): Promise<Outcome> {
  const { random } = context;
  const env = { SALLYPORT_WORKERS: '2', SALLYPORT_REVOCATIONS_PER_MINUTE: '0', SALLYPORT_METRICS_PORT: '0' };
  const clients = clientsOf(context, await context.start({ nodes: context.sized(3, 2), env }));
  const { call, fleet } = clients;
  const failures: string[] = [];
  let [revoked, sent, late, harmless] = [0, 0, 0, 0];

  const revoke = async (key: string) =>
    (await retry503(() => call(random.below(6), 'POST', '/keys/revoke', { body: { key } }))).status;
  const ask = async (node: number, key: string) =>
    (await retry503(() => call(node, 'GET', '/applications/key', { key }))).status;

  /** Sends requests on many connections, during the revocation and after its response. */
  async function bombard(name: string, keys: readonly string[], state: { revoked: boolean }) {
    const lanes = fleet.nodes.flatMap((_, node) =>
      Array.from({ length: connections }, (_, lane) => ({ node, key: keys[lane % keys.length] as string })),
    );
    await Promise.all(
      lanes.map(async ({ node, key }) => {
        for (let after = 0; after < afterwards; ) {
          const sentAfter = state.revoked;
          const status = await ask(node, key);
          sent++;
          if (sentAfter) after++;
          const expected = sentAfter ? [401] : [200, 401];
          if (!expected.includes(status))
            failures.push(`${name}: ${status} ${sentAfter ? 'after' : 'before'} the 204`);
        }
      }),
    );
    return lanes.length;
  }

  const names = Object.keys(kinds);
  await forEachConcurrently(context.sized(60, names.length), 2, async (index) => {
    const name = names[index % names.length] as string;
    const tenant = await fleet.tenant();
    const victim = await (kinds[name] as (typeof kinds)[string])(clients, tenant);
    const keys = [victim.key, ...victim.sessions];
    for (const text of similarTo(victim.key, random)) {
      harmless++;
      const status = await revoke(text);
      if (status !== 204) failures.push(`${name}: ${status} for a text that is no key`);
    }
    const before = await Promise.all(keys.flatMap((key) => fleet.nodes.map((_, node) => ask(node, key))));
    if (before.some((status) => status !== 200)) failures.push(`${name}: ${before} before the revocation`);
    const state = { revoked: false };
    const requests = bombard(name, keys, state);
    const first = await Promise.race([revoke(victim.key), revoke(victim.key)]);
    state.revoked = true;
    revoked++;
    if (first !== 204) failures.push(`${name}: the revocation got ${first}`);
    late += (await requests) * afterwards;
  });

  const tenant = await fleet.tenant();
  const web = await clients.application(tenant.key, { type: 'public' });
  const { session_key, nonce } = await clients.must(0, 'POST', '/sessions', { key: web.key });
  const statuses = [await revoke(web.key), await revoke(nonce)];
  if (statuses.join() !== '400,204') failures.push(`a public key and a nonce got ${statuses}`);
  const body = { nonce, ...reading };
  await clients.must(0, 'POST', '/sessions/authorize', { key: tenant.key, body });
  if ((await ask(1, session_key)) !== 200) failures.push('revoking a nonce ended its session');
  await clients.must(0, 'POST', '/sessions', { key: web.key });
  return {
    figures: { 'keys revoked': revoked, requests: sent, 'sent after the 204': late, 'other texts': harmless },
    failures: failures.slice(0, 10),
  };
}
