/** An authenticated GET on both databases, compared with a bare server that sends the same bytes. */
import { compare, cpuTime, type Effort, type Sample, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes, startBareServer } from '../servers.ts';

const path = '/applications/key';

const perProcessorSecond = (sample: Sample) => 1e6 / cpuTime(sample);

export async function readRows({ onSqlite, onPostgres }: Environment, effort: Effort): Promise<Row[]> {
  const response = await onSqlite.response('GET', path, undefined, onSqlite.backend.key);
  const bare = await startBareServer({ [`GET ${path}`]: response });
  const plan = (key: string) => ({ requests: [requestBytes('GET', path, key)], status: 200 });
  const series = await compare(
    [
      underLoad('bare', bare.pid, { port: bare.port, ...plan(onSqlite.backend.key) }),
      underLoad('sqlite', onSqlite.pid, { port: onSqlite.port, ...plan(onSqlite.backend.key) }),
      underLoad(
        'postgres',
        onPostgres.pid,
        { port: onPostgres.port, ...plan(onPostgres.backend.key) },
        onPostgres.database,
      ),
    ],
    effort,
  );
  await bare.stop();
  const shared = { group: 'reads', baseline: 'a bare server with the same bytes', unit: '/s of CPU time' };
  const theirs = seriesOf(series, 'bare');
  return [
    rowOf(
      { ...shared, work: 'GET /applications/key, SQLite', min: 0.75 },
      seriesOf(series, 'sqlite'),
      theirs,
      perProcessorSecond,
    ),
    rowOf(
      { ...shared, work: 'GET /applications/key, PostgreSQL', min: 0.5 },
      seriesOf(series, 'postgres'),
      theirs,
      perProcessorSecond,
    ),
  ];
}
