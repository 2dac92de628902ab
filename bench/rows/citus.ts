/** A Citus cluster of a coordinator and two workers compared with one PostgreSQL of the same version. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { CitusCluster, citusBinaries } from '../../torture/crash/citus.ts';
import { Cluster } from '../../torture/crash/cluster.ts';
import { type Candidate, compare, cpuTime, type Effort, figure, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { openFilledStore } from '../fill.ts';
import { costRow, maxRow, type Row } from '../report.ts';
import { killOnExit, requestBytes, type Service, startService } from '../servers.ts';

/** The same for all servers. The shards are as many as Citus makes by default. */
const settings = {
  'citus.shard_count': '32',
  autovacuum_naptime: '1h',
  shared_buffers: '128MB',
  max_wal_size: '4GB',
};
/**
 * In seconds. The use of a key is recorded once a minute, and each connection plans a statement once for each shard. So
 * requests cost more at first, and short rounds would differ by what they include.
 */
const fast = { warmUp: 30, rounds: 3, seconds: 8 };
const steady = { warmUp: 5, rounds: 3, seconds: 15 };
const concurrency = 8;
const token = { container: '/customers/42/', data: '4111111111111111' };

interface Prepared {
  readonly service: Service;
  readonly servers: readonly Cluster[];
  readonly tenants: readonly string[];
  readonly keys: readonly string[];
}

/**
 * Counts the CPU time of the service and of every PostgreSQL process, at half of the maximum rate of the cluster. Some
 * work is done once in a while for each tenant, such as sealing entries and recording the use of keys. So costs per
 * request can only be compared at the same rate.
 */
export async function citusRows(_: Environment, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-citus-'));
  // The servers run as another user.
  chmodSync(folder, 0o755);
  const single = await Cluster.make(join(folder, 'single'), citusBinaries(), settings);
  await single.start();
  const cluster = await CitusCluster.start(join(folder, 'cluster'), settings);
  const count = effort.quick ? 100 : 1000;
  const one = await prepare([single], count);
  const distributed = await prepare([cluster.coordinator, ...cluster.workers], count);
  const rows: Row[] = [];
  const kinds: Record<string, (name: string, prepared: Prepared, rate?: number) => Candidate> = {
    'GET /applications/key': (name, prepared, rate) =>
      measured(name, prepared, rate, 200, (key) => requestBytes('GET', '/applications/key', key)),
    'POST /tokens': (name, prepared, rate) =>
      measured(name, prepared, rate, 201, (key) => requestBytes('POST', '/tokens', key, token)),
  };
  for (const [kind, candidate] of Object.entries(kinds)) {
    const work = `${kind}, ${count.toLocaleString('en-US')} tenants in rotation`;
    const spec = { group: 'citus', baseline: 'one PostgreSQL', unit: 'µs' };
    const run = async (long: Effort, rate?: number) => {
      const pair = [candidate('cluster', distributed, rate), candidate('single', one, rate)];
      const series = await compare(pair, long);
      return [seriesOf(series, 'cluster'), seriesOf(series, 'single')] as const;
    };
    const [cluster, single] = await run({ ...effort, ...(!effort.quick && fast) });
    const half = Math.round(figure(cluster.samples.map(({ rate }) => rate)).median / 2);
    const atHalf = await run({ ...effort, ...(!effort.quick && steady) }, half);
    rows.push(costRow({ ...spec, work, maxRatio: 1.6 }, ...atHalf, cpuTime));
    rows.push(costRow({ ...spec, work: `${work}, as fast as possible` }, cluster, single, cpuTime));
  }
  const ports = await cluster.portsOf(...distributed.tenants);
  const most = Math.max(...[...Map.groupBy(ports, (port) => port).values()].map(({ length }) => length));
  const spec = {
    group: 'citus',
    work: 'tenants on the fuller worker',
    baseline: 'half of them',
    unit: 'tenants',
  };
  rows.push(maxRow(spec, figure([most]), figure([count / 2])));
  for (const { service } of [one, distributed]) await service.stop();
  for (const server of [single, cluster]) await server.kill();
  rmSync(folder, { recursive: true });
  return rows;
}

async function prepare(servers: readonly Cluster[], count: number): Promise<Prepared> {
  for (const { pid } of servers) killOnExit(pid);
  const databaseUrl = (servers[0] as Cluster).url();
  const service = await startService({ DATABASE_URL: databaseUrl });
  const store = await openFilledStore(databaseUrl);
  const tenants: string[] = [];
  const keys: string[] = [];
  const lane = async () => {
    while (keys.length < count) {
      const tenant = newTenant(`tenant ${keys.length}`, Date.now());
      tenants.push(tenant.id);
      keys.push(tenant.secret.reveal());
      await store.maintenance.tenants.create(tenant);
      // The first token of a tenant also creates its data key.
      await service.call('POST', '/tokens', token, tenant.secret.reveal());
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  await store.close();
  return { service, servers, tenants, keys };
}

function measured(
  name: string,
  { service, servers, keys }: Prepared,
  rate: number | undefined,
  status: number,
  request: (key: string) => string,
): Candidate {
  const plan = { port: service.port, requests: keys.map(request), status, ...(rate && { rate }) };
  const pids = servers.map(({ pid }) => pid);
  return underLoad(name, service.pid, plan, pids);
}
