/** Kills the primary under load; its synchronous standby takes over at the same address. */
import { join } from 'node:path';
import { openTcpProxy } from '../../test/support/tcp-proxy.ts';
import { Cluster } from '../crash/cluster.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { ledgerOf } from '../crash/ledger.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { operatorChecks } from '../crash/operator.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const failover: Row = {
  name: 'failover',
  requirement:
    'PostgreSQL primary killed and standby promoted under load: 0 acknowledged changes lost, serving again in 5 s',
  databases: ['PostgreSQL', 'Citus'],
  run,
};

const lanes = 4;
const longestAway = 5000;

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(10, 1);
  const pair = await openPair(context, await primaryOf(context));
  const proxy = await openTcpProxy(pair.primary.port);
  context.defer(() => proxy.close());
  const databaseUrl = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
  const program = [await context.executable()];
  const urls: string[] = [];
  for (let node = 0; node < context.sized(3, 1); node++) {
    urls.push((await startNode(context, { databaseUrl, command: program })).url);
  }
  const key = firstKey(context);
  const ledger = ledgerOf(context);
  let stopped = false;
  const load = urls.map((url) => ledger.write(url, lanes, () => stopped));
  const away: number[] = [];
  const asked: number[] = [];
  // There, workers answer for up to three seconds after the coordinator was killed, and are no standbys.
  const onCitus = await pair.primary.sql("select 1 from pg_extension where extname = 'citus'");
  for (let round = 0; round < rounds; round++) {
    await ledger.more(20 + context.random.below(80));
    const began = performance.now();
    await pair.primary.kill();
    proxy.setTarget(pair.standby.port);
    if (onCitus.length === 0) asked.push(...(await ask(urls, key)));
    await pair.standby.promote();
    await ledger.more(1);
    away.push(performance.now() - began);
    await pair.renew();
  }
  await ledger.more(20);
  stopped = true;
  await Promise.all(load);
  await ledger.settle(urls[0] as string);
  const lost = await ledger.broken(urls[0] as string, 'all');
  const halves = await brokenInvariants(pair.primary.url());
  const unsound = await operatorChecks(context, databaseUrl, program);
  const accepted = asked.filter((status) => status !== 503).length;
  const slowest = Math.round(Math.max(...away));
  return {
    figures: {
      failovers: rounds,
      'changes acknowledged': ledger.answered,
      'cut off or refused': ledger.unanswered,
      'acknowledged changes lost': lost.length,
      'half-applied': halves.length,
      ...(onCitus.length === 0 && { 'authenticated by a standby': accepted }),
      'ms until served again, at most': slowest,
    },
    failures: [
      ...[...lost, ...halves, ...unsound, ...ledger.wrong].slice(0, 10),
      ...(accepted > 0 ? [`a standby authenticated requests: ${asked.join()}`] : []),
    ],
    late:
      slowest > context.sized(longestAway, Number.POSITIVE_INFINITY)
        ? [`it took ${slowest} ms until a change was answered again`]
        : [],
  };
}

/** Sends requests while the database address of the nodes leads to a standby. Returns the statuses. */
async function ask(urls: readonly string[], key: string): Promise<number[]> {
  const headers = { 'SVC-API-KEY': key };
  const paths = ['/applications/key', '/readyz'].flatMap((path) => urls.map((url) => url + path));
  const answers = await Promise.all(paths.map((path) => fetch(path, { headers })));
  return answers.map(({ status }) => status);
}

/** On Citus, the coordinator. */
async function primaryOf(context: Context): Promise<Cluster> {
  const distributed = await context.citus();
  if (distributed) return distributed.coordinator;
  const primary = await Cluster.make(join(context.folder, 'primary'));
  await primary.start();
  return primary;
}

interface Pair {
  readonly primary: Cluster;
  readonly standby: Cluster;
  /** Makes the promoted standby the primary, and creates a new standby for it. */
  renew(): Promise<void>;
}

/** Adds a standby to a server. */
export async function openPair(context: Context, first: Cluster): Promise<Pair> {
  let made = 0;
  const next = () => join(context.folder, `standby-${first.port}-${made++}`);
  let primary = first;
  context.defer(() => primary.kill());
  const follow = async () => {
    const standby = await primary.copy(next());
    await standby.start();
    await primary.waitForStandby();
    return standby;
  };
  let standby = await follow();
  context.defer(() => standby.kill());
  return {
    get primary() {
      return primary;
    },
    get standby() {
      return standby;
    },
    renew: async () => {
      primary.remove();
      primary = standby;
      standby = await follow();
    },
  };
}
