/** Kills a worker of a Citus cluster under load; its synchronous standby takes its place. */
import { Client } from '../client.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { Ledger } from '../crash/ledger.ts';
import { operatorChecks } from '../crash/operator.ts';
import type { Tenant } from '../fleet.ts';
import { maxAttempts } from '../retry.ts';
import type { Context, Outcome, Row } from '../row.ts';
import { openPair } from './failover.ts';

export const workerLoss: Row = {
  name: 'worker-loss',
  requirement:
    'a worker of a Citus cluster killed under load, and replaced by its standby: until then every request of its tenants gets 503, every request of other tenants is served, 0 acknowledged changes lost',
  databases: ['Citus'],
  run,
};

const lanes = 3;
/** Changes of the tenants on the other worker, while a worker is lost. */
const meanwhile = 20;

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(10, 2);
  const cluster = await context.citus();
  if (!cluster) throw new Error('this row needs a Citus cluster');
  const databaseUrl = cluster.coordinator.url();
  const fleet = await context.start({ databaseUrl });
  const pairs = [];
  for (const worker of cluster.workers) pairs.push(await openPair(context, worker));
  const tenants = new Map<number, Tenant>();
  while (tenants.size < pairs.length) {
    const tenant = await fleet.tenant();
    for (const port of await cluster.portsOf(tenant.id)) tenants.set(port, tenant);
  }
  const sides = pairs.map((pair, at) => {
    const { key } = tenants.get(pair.primary.port) as Tenant;
    return { pair, key, ledger: new Ledger(key, context.secrets, context.random, `worker-${at}`) };
  });
  let stopped = false;
  const load = sides.flatMap(({ ledger }) =>
    fleet.nodes.map(({ url }) => ledger.write(url, lanes, () => stopped)),
  );
  const statuses = async (key: string) => {
    const asked = fleet.nodes.map(async ({ url }) => {
      const client = new Client(url);
      const read = await client.call('GET', '/applications/key', { key });
      const list = await client.call('GET', '/tokens', { key });
      const change = await client.call('POST', '/tokens', { key, body: { container: '/probe/', data: 'x' } });
      const ready = await client.call('GET', '/readyz');
      client.close();
      return [read, list, change, ready].map(({ status }) => status).join();
    });
    return new Set(await Promise.all(asked));
  };
  const failures: string[] = [];
  // In the short run, which shares the CPU with other tests, a request may exceed the timeout.
  const attempts = context.sized(1, maxAttempts);
  const expectStatuses = async (whose: string, key: string, expected: string) => {
    for (let attempt = 1; ; attempt++) {
      const others = [...(await statuses(key))].filter((seen) => seen !== expected);
      if (others.length === 0) return;
      if (attempt === attempts)
        return void failures.push(`${whose}: ${others.join(' and ')} instead of ${expected}`);
      await Bun.sleep(100);
    }
  };
  const away: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const [lost, other] = round % 2 === 0 ? sides : sides.toReversed();
    if (!lost || !other) break;
    for (const { ledger } of sides) await ledger.more(10 + context.random.below(20));
    const before = other.ledger.unanswered;
    const port = lost.pair.primary.port;
    const began = performance.now();
    await lost.pair.primary.kill();
    await expectStatuses('a tenant of the lost worker', lost.key, '503,503,503,200');
    await expectStatuses('a tenant of the other worker', other.key, '200,200,201,200');
    await other.ledger.more(meanwhile);
    if (context.size === 'full' && other.ledger.unanswered > before)
      failures.push(`${other.ledger.unanswered - before} changes on the other worker were not answered`);
    await lost.pair.standby.promote();
    await cluster.replace(port, lost.pair.standby.port);
    await lost.ledger.more(1);
    away.push(performance.now() - began);
    await lost.pair.renew();
  }
  stopped = true;
  await Promise.all(load);
  const url = fleet.at(0).url;
  for (const { ledger } of sides) {
    await ledger.settle(url);
    failures.push(...(await ledger.broken(url, 'all')), ...ledger.wrong);
  }
  failures.push(...(await brokenInvariants(databaseUrl)));
  failures.push(...(await operatorChecks(context, databaseUrl, [await context.executable()])));
  const sum = (what: 'answered' | 'unanswered') =>
    sides.reduce((total, { ledger }) => total + ledger[what], 0);
  return {
    figures: {
      'workers killed': rounds,
      'changes acknowledged': sum('answered'),
      'cut off or refused': sum('unanswered'),
      shortfalls: failures.length,
      'ms until served again, at most': Math.round(Math.max(...away)),
    },
    failures: failures.slice(0, 10),
  };
}
