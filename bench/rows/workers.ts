/** Two processes on one port beside one, and several nodes on one PostgreSQL. */
import { cpus } from 'node:os';
import { type Contestant, contest, type Effort, figure, named, type Series, underLoad } from '../contest.ts';
import { type Row, rowOf } from '../report.ts';
import { startService, wire } from '../servers.ts';
import { type Furnished, furnish, type Stage } from '../stage.ts';

const path = '/applications/key';

function reads(name: string, service: Furnished): Contestant {
  const plan = { port: service.port, requests: [wire('GET', path, service.backend.key)], status: 200 };
  return underLoad(name, service.pid, plan);
}

/**
 * The load comes from the same machine: with two processors it takes one of them, and no second process can
 * show what it would do. There the processor time of each request decides: what two whole ones would serve.
 */
function onTwoProcessors(series: Series, processes: number): Series {
  const samples = series.samples.map(({ processor = 0 }) => ({
    rate: (processes * 1e6) / processor,
    processor,
  }));
  return { name: series.name, samples };
}

export async function workerRows({ onSqlite }: Stage, effort: Effort): Promise<Row[]> {
  const two = await furnish(await startService({ SALLYPORT_WORKERS: '2' }));
  const series = await contest([reads('one', onSqlite), reads('two', two)], effort);
  await two.stop();
  const [one, both] = [named(series, 'one'), named(series, 'two')];
  const shared = { group: 'processes', beside: 'one process', unit: '/s' };
  if (cpus().length >= 4) return [rowOf({ ...shared, work: 'two workers on reads', least: 1.5 }, both, one)];
  const measured = figure(both.samples.map(({ rate }, at) => rate / (one.samples[at]?.rate as number)));
  console.log(`two workers, with the load on the same two processors: ${measured.median.toFixed(2)} × one`);
  const work = 'two workers on reads, by processor time';
  return [rowOf({ ...shared, work, least: 1.5 }, onTwoProcessors(both, 2), onTwoProcessors(one, 1))];
}
