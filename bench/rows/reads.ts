/**
 * An authenticated GET on both databases, compared with a bare server that sends the same bytes; and reads between
 * commits, compared with both alone.
 */
import { compare, cpuTime, type Effort, type Sample, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { costRow, type Row, rowOf } from '../report.ts';
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

const readsPerCommit = 9;

/** Every commit makes a process read its cached credentials again. */
export async function mixedRows({ onSqlite }: Environment, effort: Effort): Promise<Row[]> {
  const { port, pid, backend } = onSqlite;
  const token = { container: '/customers/42/', data: 'x', metadata: { changed: 'no' } };
  const { id } = await onSqlite.call<{ id: string }>('POST', '/tokens', token, onSqlite.key);
  const read = requestBytes('GET', path, backend.key);
  const commit = requestBytes('PATCH', `/tokens/${id}`, onSqlite.key, { metadata: { changed: 'yes' } });
  const sent = (name: string, requests: string[]) => underLoad(name, pid, { port, requests, status: 200 });
  const series = await compare(
    [
      sent('reads', [read]),
      sent('commits', [commit]),
      sent('mixed', [...Array.from({ length: readsPerCommit }, () => read), commit]),
    ],
    effort,
  );
  const [reads, commits] = [seriesOf(series, 'reads'), seriesOf(series, 'commits')];
  const alone = reads.samples.map((sample, at) => {
    const sum = readsPerCommit * cpuTime(sample) + cpuTime(commits.samples[at] as Sample);
    return { rate: 0, processor: sum / (readsPerCommit + 1) };
  });
  const spec = {
    group: 'reads',
    work: `${readsPerCommit} reads for each change of a token, SQLite`,
    baseline: 'reads alone and changes alone, in the same proportion',
    unit: 'µs of CPU time',
    maxRatio: 1.3,
  };
  return [costRow(spec, seriesOf(series, 'mixed'), { name: 'alone', samples: alone }, cpuTime)];
}
