/** Throughput of one, two and three nodes on one PostgreSQL, all on this machine. */
import { compare, cpuTime, type Effort, figure, type Sample, send, seriesOf } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { costRow, type NodePoint, type Row } from '../report.ts';
import { processorTime, requestBytes, type Service, startService } from '../servers.ts';

const path = '/applications/key';

export async function nodeRows(
  { onPostgres, postgres }: Environment,
  effort: Effort,
): Promise<{ rows: Row[]; points: NodePoint[] }> {
  const own = { DATABASE_URL: onPostgres.databaseUrl, SALLYPORT_MANAGEMENT_KEY_FILE: onPostgres.keyFile };
  const nodes: Service[] = [onPostgres, await startService(own), await startService(own)];
  const requests = [requestBytes('GET', path, onPostgres.backend.key)];

  const counts = [1, 2, 3];
  const series = await compare(
    counts.map((count) => ({
      name: String(count),
      measure: async (seconds: number): Promise<Sample> => {
        const used = nodes.slice(0, count);
        const spent = () => used.reduce((sum, { pid }) => sum + processorTime(pid), 0);
        const before = [spent(), processorTime(postgres.pid)] as const;
        const plans = used.map(({ port }) => ({ port, requests, status: 200, connections: 32, seconds }));
        const reports = await Promise.all(plans.map(send));
        const done = reports.reduce((sum, report) => sum + report.completed, 0);
        return {
          rate: reports.reduce((sum, report) => sum + report.done / report.seconds, 0),
          processor: (spent() - before[0]) / done,
          database: (processorTime(postgres.pid) - before[1]) / done,
        };
      },
    })),
    { ...effort, rounds: Math.min(3, effort.rounds) },
  );
  for (const node of nodes.slice(1)) await node.stop();
  const middle = (values: number[]) => figure(values).median;
  const points = series.map(({ samples }, at) => ({
    nodes: counts[at] as number,
    rate: middle(samples.map(({ rate }) => rate)),
    processor: middle(samples.map(({ processor = 0 }) => processor)),
    database: middle(samples.map(({ database = 0 }) => database)),
  }));
  const spec = {
    group: 'processes',
    work: 'reads of three nodes on PostgreSQL, by CPU time',
    baseline: 'one node',
    unit: 'µs',
    maxRatio: 1.25,
  };
  return { rows: [costRow(spec, seriesOf(series, '3'), seriesOf(series, '1'), cpuTime)], points };
}
