/** Who am I: an authenticated GET, strict on both databases, beside a bare server that sends the same bytes. */
import { contest, type Effort, named, underLoad } from '../contest.ts';
import { type Row, rowOf } from '../report.ts';
import { startBare, wire } from '../servers.ts';
import type { Stage } from '../stage.ts';

const path = '/applications/key';

export async function keyRows({ onSqlite, onPostgres }: Stage, effort: Effort): Promise<Row[]> {
  const answer = await onSqlite.answer('GET', path, undefined, onSqlite.backend.key);
  const bare = await startBare({ [`GET ${path}`]: answer });
  const asks = (key: string) => ({ requests: [wire('GET', path, key)], status: 200 });
  const series = await contest(
    [
      underLoad('bare', bare.pid, { port: bare.port, ...asks(onSqlite.backend.key) }),
      underLoad('sqlite', onSqlite.pid, { port: onSqlite.port, ...asks(onSqlite.backend.key) }),
      underLoad(
        'postgres',
        onPostgres.pid,
        { port: onPostgres.port, ...asks(onPostgres.backend.key) },
        onPostgres.database,
      ),
    ],
    effort,
  );
  await bare.stop();
  const shared = { group: 'reads', beside: 'a bare server with the same bytes', unit: '/s' };
  const theirs = named(series, 'bare');
  return [
    rowOf(
      { ...shared, work: 'GET /applications/key, SQLite', least: 0.7, aim: 0.85 },
      named(series, 'sqlite'),
      theirs,
    ),
    rowOf(
      { ...shared, work: 'GET /applications/key, PostgreSQL', least: 0.5, aim: 0.65 },
      named(series, 'postgres'),
      theirs,
    ),
  ];
}
