/** A node whose database connection is cut, closed, delayed or silenced while other nodes revoke keys. */

import { SQL } from 'bun';
import { openTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { Client, type ClientResponse } from '../client.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { forEachConcurrently } from '../fleet-clients.ts';
import { databaseTimeout, maxAttempts } from '../retry.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const cutOff: Row = {
  name: 'database-partition',
  requirement:
    'a node cut off from its database: 0 accepted while cut, 503 within a second, recovers without intervention; on Citus it is cut off from the coordinator, workers may answer, and 0 revoked keys are accepted',
  databases: ['PostgreSQL', 'Citus'],
  run,
};

/** Ways to cut the node off from its database, until the proxy is restored. */
const faults: readonly ((proxy: TcpProxy) => void)[] = [
  (proxy) => proxy.setMode('swallow'),
  (proxy) => {
    proxy.setMode('refuse');
    proxy.disconnect();
  },
  (proxy) => proxy.setMode('mute'),
  (proxy) => proxy.setDelay(2000),
  (proxy) => {
    proxy.setMode('swallow');
    proxy.disconnect();
  },
];

const probes = 40;
/** Milliseconds within which the node must return 503, and serve again after the connection is restored. */
interface Bounds {
  readonly refusal: number;
  readonly recovery: number;
}

interface Seen {
  accepted: number;
  /** By workers of a Citus cluster. */
  answered: number;
  readonly isCluster: boolean;
  refused: number;
  slowest: number;
  slowestRecovery: number;
  readonly wrong: string[];
}

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(15, 2);
  // The short run checks no times, because it runs beside other tests.
  const bounds = {
    refusal: context.sized(1000, Number.POSITIVE_INFINITY),
    recovery: context.sized(2000, Number.POSITIVE_INFINITY),
  };
  const url = new URL(await context.freshDatabase());
  const proxy = await openTcpProxy(Number(url.port));
  context.defer(() => proxy.close());
  const program = [await context.executable()];
  const env = databaseTimeout(context);
  const near = await startNode(context, { databaseUrl: url.href, command: program, env });
  url.port = String(proxy.port);
  const far = await startNode(context, { databaseUrl: url.href, command: program });
  const isCluster = await hasCitus(url.href);
  const seen: Seen = {
    isCluster,
    accepted: 0,
    answered: 0,
    refused: 0,
    slowest: 0,
    slowestRecovery: 0,
    wrong: [],
  };
  const clients = { near: new Client(near.url), far: new Client(far.url) };
  const key = firstKey(context);
  for (let round = 0; round < rounds; round++) {
    await oneRound(
      context,
      clients,
      key,
      proxy,
      faults[round % faults.length] as (proxy: TcpProxy) => void,
      seen,
    );
  }
  clients.near.close();
  clients.far.close();
  return {
    figures: {
      rounds,
      'accepted while cut': seen.accepted,
      ...(seen.answered > 0 && { 'answered by workers': seen.answered }),
      'refused with 503': seen.refused,
      'ms to the slowest refusal': Math.round(seen.slowest),
      'ms to the slowest recovery': Math.round(seen.slowestRecovery),
    },
    failures: [
      ...(seen.accepted > 0 ? [`${seen.accepted} requests were accepted while it was cut off`] : []),
      ...seen.wrong.slice(0, 8),
    ],
    late: late(seen, bounds),
  };
}

function late({ slowest, slowestRecovery }: Seen, { refusal, recovery }: Bounds): string[] {
  return [
    ...(slowest > refusal ? [`a refusal took ${Math.round(slowest)} ms`] : []),
    ...(slowestRecovery > recovery ? [`it took ${Math.round(slowestRecovery)} ms to recover`] : []),
  ];
}

/** Sends a valid key, a key that another node deletes during the partition, and an unknown key. */
async function oneRound(
  context: Context,
  { near, far }: { near: Client; far: Client },
  management: string,
  proxy: TcpProxy,
  breakIt: (proxy: TcpProxy) => void,
  seen: Seen,
): Promise<void> {
  const made = await application(context, near, management);
  const whoami = (client: Client, key: string) => client.call('GET', '/applications/key', { key });
  const before = await whenServed(() => whoami(far, made.key));
  if (before !== 200) seen.wrong.push(`a key got ${before} before the cut`);
  breakIt(proxy);
  const broken = performance.now();
  const deleted = await near.call('DELETE', `/applications/${made.id}`, { key: management });
  if (deleted.status !== 204) seen.wrong.push(`another node cannot delete: ${deleted.status}`);
  await forEachConcurrently(probes, probes, async (index) => {
    const began = performance.now();
    const key = index % 3 === 0 ? made.key : index % 3 === 1 ? management : `${made.key.slice(0, -1)}_`;
    const { status } = index % 6 === 1 ? await write(far, management) : await whoami(far, key);
    seen.slowest = Math.max(seen.slowest, performance.now() - began);
    if (status === 503) seen.refused++;
    else if (status < 300 && (!seen.isCluster || key === made.key)) seen.accepted++;
    else if (status < 300) seen.answered++;
    else if (status !== 401) seen.wrong.push(`a request during the partition returned ${status}`);
  });
  if (performance.now() - broken < 500) await Bun.sleep(500);
  proxy.setDelay(0);
  proxy.setMode('pass');
  const mended = performance.now();
  const served = await whenServed(() => write(far, management));
  if (served !== 201) seen.wrong.push(`a change after the partition got ${served}`);
  seen.slowestRecovery = Math.max(seen.slowestRecovery, performance.now() - mended);
  const after = await whenServed(() => whoami(far, made.key));
  if (after !== 401) seen.wrong.push(`a key deleted during the partition got ${after}`);
}

/** Repeats a request that gets 503, as it may on a slow machine, and returns the last status. */
async function whenServed(request: () => Promise<ClientResponse>): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    const { status } = await request();
    if (status !== 503 || attempt === maxAttempts) return status;
    await Bun.sleep(attempt < 100 ? 5 : 100);
  }
}

async function hasCitus(databaseUrl: string): Promise<boolean> {
  const sql = new SQL(databaseUrl, { max: 1 });
  const found = await sql`select 1 from pg_extension where extname = 'citus'`;
  await sql.close();
  return found.length > 0;
}

function write(client: Client, key: string) {
  return client.call('POST', '/applications', {
    key,
    body: { name: 'x', type: 'private', permissions: ['mine:x'] },
  });
}

async function application(
  context: Context,
  client: Client,
  key: string,
): Promise<{ id: string; key: string }> {
  const body = { name: 'x', type: 'private', permissions: ['application:read'] };
  const { status, text } = await client.call('POST', '/applications', { key, body });
  if (status !== 201) throw new Error(`creating an application failed: ${status} ${text}`);
  context.secrets.addFrom(text);
  return JSON.parse(text);
}
