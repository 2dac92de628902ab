/** Several worker processes compared with one. */
import { type Candidate, compare, type Effort, seriesOf, underLoad } from '../compare.ts';
import { type Environment, type PreparedService, prepareService } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';

const path = '/applications/key';

function reads(name: string, service: PreparedService): Candidate {
  const plan = {
    port: service.port,
    requests: [requestBytes('GET', path, service.backend.key)],
    status: 200,
  };
  return underLoad(name, service.pid, plan);
}

/**
 * Compares what one process serves per second of CPU time, because the load generator runs on the same machine, and a
 * rate would need a CPU for every process.
 */
export async function workerRows({ onSqlite }: Environment, effort: Effort): Promise<Row[]> {
  const counts = { two: '2', four: '4' };
  const services: PreparedService[] = [];
  for (const workers of Object.values(counts))
    services.push(await prepareService(await startService({ SALLYPORT_WORKERS: workers })));
  const names = Object.keys(counts);
  const series = await compare(
    [reads('one', onSqlite), ...services.map((service, at) => reads(names[at] as string, service))],
    effort,
  );
  for (const service of services) await service.stop();
  return names.map((name) =>
    rowOf(
      {
        group: 'processes',
        work: `${name} workers on reads, per process`,
        baseline: 'one process',
        unit: '/s of CPU time',
        min: 0.9,
      },
      seriesOf(series, name),
      seriesOf(series, 'one'),
      ({ processor = 0 }) => 1e6 / processor,
    ),
  );
}
