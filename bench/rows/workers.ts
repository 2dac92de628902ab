/** Two worker processes compared with one. */
import { cpus } from 'node:os';
import {
  type Candidate,
  compare,
  type Effort,
  figure,
  type Series,
  seriesOf,
  underLoad,
} from '../compare.ts';
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
 * The load generator runs on the same machine and needs one CPU. With two CPUs, a second worker cannot show its
 * effect, so the rate is derived from CPU time per request: what two full CPUs would serve.
 */
function onTwoProcessors(series: Series, processes: number): Series {
  const samples = series.samples.map(({ processor = 0 }) => ({
    rate: (processes * 1e6) / processor,
    processor,
  }));
  return { name: series.name, samples };
}

export async function workerRows({ onSqlite }: Environment, effort: Effort): Promise<Row[]> {
  const two = await prepareService(await startService({ SALLYPORT_WORKERS: '2' }));
  const series = await compare([reads('one', onSqlite), reads('two', two)], effort);
  await two.stop();
  const [one, both] = [seriesOf(series, 'one'), seriesOf(series, 'two')];
  const shared = { group: 'processes', baseline: 'one process', unit: '/s' };
  if (cpus().length >= 4) return [rowOf({ ...shared, work: 'two workers on reads', min: 1.5 }, both, one)];
  const measured = figure(both.samples.map(({ rate }, at) => rate / (one.samples[at]?.rate as number)));
  console.log(
    `two workers with the load generator on the same two CPUs: ${measured.median.toFixed(2)} × one worker`,
  );
  const work = 'two workers on reads, by CPU time';
  return [rowOf({ ...shared, work, min: 1.5 }, onTwoProcessors(both, 2), onTwoProcessors(one, 1))];
}
