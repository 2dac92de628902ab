/** Sinks that are down, slow or dishonest, while requests are served and the delivering node is killed. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Answer,
  openOtlpReceiver,
  openWebhookReceiver,
  type ReceivedBatch,
  webhookSecret,
} from '../../test/support/sink-receivers.ts';
import { openTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { runSql } from '../../test/support/test-store.ts';
import { clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { NotFinished } from '../not-finished.ts';
import type { Random } from '../random.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const sinks: Row = {
  name: 'sinks',
  requirement:
    'sinks that refuse, hang, reset, answer with garbage, endless bodies or redirects, and the delivering node is killed: every audit entry arrives at every sink in order, no request fails, no other sink waits, and no redirect is followed',
  databases: bothDatabases,
  run,
};

/** Polls without a new entry after which the row does not finish. The lease of a killed node lasts 30.5 s. */
const mostPolls = 450;

async function run(context: Context): Promise<Outcome> {
  const changes = context.sized(2000, 60);
  const { random } = context;
  let followed = 0;
  const internal = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => {
      followed++;
      return new Response();
    },
  });
  const [hostile, honest, liar] = [openWebhookReceiver(), openWebhookReceiver(), openOtlpReceiver()];
  const proxy = await openTcpProxy(Number(new URL(hostile.url).port));
  context.defer(() => internal.stop(true));
  for (const one of [proxy, hostile, honest, liar]) context.defer(() => one.close());
  let isHostile = true;
  const lies = answersOf(random, `http://127.0.0.1:${internal.port}/`);
  for (const one of [hostile, liar])
    one.setAnswer((request) => (isHostile && random.chance(0.6) ? random.one(lies)(request) : undefined));
  const urls = { hostile: `http://127.0.0.1:${proxy.port}/`, honest: honest.url, liar: liar.url };
  const fleet = await context.start({
    nodes: context.sized(3, 2),
    env: { ...databaseTimeout(context), SALLYPORT_SINKS_FILE: writeConfig(context.folder, urls) },
  });
  const clients = clientsOf(context, fleet);
  const { id: tenant, key } = await fleet.tenant();
  const failures: string[] = [];

  const network = disturb(proxy, random);
  let refused = 0;
  await forEachConcurrently(changes, 8, async (index) => {
    const body = { name: `application ${index}`, type: 'private', permissions: ['token:read'] };
    const { status } = await clients.call(index, 'POST', '/applications', { key, body });
    if (status !== 201) refused++;
  });
  if (refused > 0) failures.push(`${refused} of ${changes} requests were not answered with 201`);
  const entries = () => webhookSeqs(honest.received, tenant);
  await delivered({ honest: entries });

  // One node is left, so that it takes over the sinks of the others.
  if (context.size === 'full') for (const node of fleet.nodes.slice(1)) node.kill('SIGKILL');
  await network.stop();
  isHostile = false;
  const seqs = {
    hostile: () => webhookSeqs(hostile.received, tenant),
    honest: entries,
    liar: () => otlpSeqs(liar.records, tenant),
  };
  const distinct = () => Object.values(seqs).reduce((sum, read) => sum + new Set(read()).size, 0);
  await delivered(seqs);
  for (const [name, read] of Object.entries(seqs)) failures.push(...findGaps(name, read(), changes));
  if (followed > 0) failures.push(`${followed} redirects were followed`);
  if (hostile.invalid.length > 0) failures.push(`a signature was not valid: ${hostile.invalid[0]}`);
  const repeated = Object.values(seqs).reduce((sum, read) => sum + read().length, 0) - distinct();
  return {
    figures: {
      changes,
      'requests refused': refused,
      'entries delivered to 3 sinks': distinct(),
      'delivered more than once': repeated,
      'redirects followed': followed,
    },
    failures,
  };

  /** Waits until these sinks have all entries, or until the service considers all as delivered. */
  async function delivered(sinks: Record<string, () => number[]>): Promise<void> {
    const arrived = () => Object.values(sinks).map((read) => new Set(read()).size);
    let [last, polls] = [arrived().join(), 0];
    while (arrived().some((count) => count < changes)) {
      if (polls++ === mostPolls) throw new NotFinished(`${last} of ${changes} entries were delivered`);
      await Bun.sleep(200);
      if (await isAllConfirmed(fleet.databaseUrl, tenant, Object.keys(sinks), changes)) return;
      const now = arrived().join();
      if (now !== last) [last, polls] = [now, 0];
    }
  }
}

async function isAllConfirmed(
  databaseUrl: string,
  tenant: string,
  sinks: readonly string[],
  changes: number,
): Promise<boolean> {
  const rows = await runSql<{ sink: string }>(
    databaseUrl,
    `select sink from audit_deliveries where tenant_id = '${tenant}' and seq >= ${changes}`,
  );
  return sinks.every((name) => rows.some(({ sink }) => sink === name));
}

function writeConfig(folder: string, urls: { hostile: string; honest: string; liar: string }): string {
  const common = { allow_private: true, timeout: 0.5, interval: 0.1 };
  const webhook = { ...common, type: 'webhook', secret: webhookSecret };
  const path = join(folder, 'sinks.json');
  mkdirSync(folder, { recursive: true });
  const sinks = [
    { ...webhook, name: 'hostile', url: urls.hostile },
    { ...webhook, name: 'honest', url: urls.honest },
    { ...common, type: 'otlp', name: 'liar', url: urls.liar },
  ];
  writeFileSync(path, JSON.stringify({ sinks }));
  return path;
}

/** Answers that do not confirm a batch. The entries must arrive again. */
function answersOf(random: Random, internalUrl: string): readonly Answer[] {
  const failed = () => new Response(null, { status: random.one([400, 401, 404, 410, 413, 500, 503]) });
  return [
    failed,
    () => new Response(null, { status: 429, headers: { 'retry-after': random.one(['0', '1', 'soon']) } }),
    () => Response.redirect(internalUrl, random.one([301, 302, 303, 307, 308])),
    () => new Promise(() => {}),
    () => new Response(endless(), { status: 500 }),
    () => new Response(endless(), { status: 500, headers: { 'content-encoding': 'gzip' } }),
    (request) => (request.url.endsWith('/v1/logs') ? new Response('<html>Sign in</html>') : failed()),
    (request) => (request.url.endsWith('/v1/logs') ? Response.json({ partialSuccess: 1 }) : failed()),
  ];
}

function endless(): ReadableStream {
  return new ReadableStream({
    pull: async (controller) => {
      await Bun.sleep(1);
      controller.enqueue(new Uint8Array(16_384));
    },
  });
}

/** Refuses, silences, delays and cuts connections at random until it is stopped. */
function disturb(proxy: TcpProxy, random: Random): { stop(): Promise<void> } {
  let stopped = false;
  const disturbing = (async () => {
    while (!stopped) {
      proxy.setMode(random.one(['pass', 'pass', 'refuse', 'swallow', 'mute']));
      proxy.setDelay(random.one([0, 0, 20, 600]));
      await Bun.sleep(random.below(150));
      if (random.chance(0.3)) proxy.disconnect();
    }
    proxy.setMode('pass');
    proxy.setDelay(0);
    proxy.disconnect();
  })();
  return {
    stop: () => {
      stopped = true;
      return disturbing;
    },
  };
}

/** Positions of the tenant's entries in the order of arrival. */
function webhookSeqs(received: readonly ReceivedBatch[], tenant: string): number[] {
  return received
    .filter(({ data }) => data.tenant_id === tenant)
    .flatMap(({ data }) => data.entries.map(({ seq }: { seq: number }) => seq));
}

function otlpSeqs(records: ReturnType<typeof openOtlpReceiver>['records'], tenant: string): number[] {
  return records
    .filter(({ eventName }) => eventName !== 'audit.segment')
    .map(({ body }) => JSON.parse((body as { stringValue: string }).stringValue))
    .filter(({ tenant_id }) => tenant_id === tenant)
    .map(({ seq }) => seq);
}

/** Returns gaps and missing entries. Entries may be repeated, but a new one must directly follow the last new one. */
function findGaps(name: string, seqs: readonly number[], expected: number): string[] {
  let last = 0;
  const found: string[] = [];
  for (const seq of seqs) {
    if (seq > last + 1) found.push(`${name} received entry ${seq} after ${last}`);
    last = Math.max(last, seq);
  }
  return last < expected ? [...found, `${name} received ${last} of ${expected} entries`] : found.slice(0, 3);
}
