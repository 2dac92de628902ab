/** A Token of 1 KB, sealed and durable when it is created, opened when it is read, beside a bare server. */
import { contest, type Effort, named, underLoad } from '../contest.ts';
import { type Row, rowOf } from '../report.ts';
import { startBare, wire } from '../servers.ts';
import type { Stage } from '../stage.ts';

export async function tokenRows({ onSqlite }: Stage, effort: Effort): Promise<Row[]> {
  const { key } = onSqlite.backend;
  const token = { container: '/customers/42/', data: { note: 'x'.repeat(1000) } };
  const { id } = await onSqlite.call<{ id: string }>('POST', '/tokens', token, key);
  const path = `/tokens/${id}`;
  const bare = await startBare({
    'POST /tokens': await onSqlite.answer('POST', '/tokens', token, key),
    [`GET ${path}`]: await onSqlite.answer('GET', path, undefined, key),
  });
  const creates = { requests: [wire('POST', '/tokens', key, token)], status: 201 };
  const reads = { requests: [wire('GET', path, key)], status: 200 };
  const series = await contest(
    [
      underLoad('create', onSqlite.pid, { port: onSqlite.port, ...creates }),
      underLoad('bare create', bare.pid, { port: bare.port, ...creates }),
      underLoad('read', onSqlite.pid, { port: onSqlite.port, ...reads }),
      underLoad('bare read', bare.pid, { port: bare.port, ...reads }),
    ],
    effort,
  );
  await bare.stop();
  const shared = { group: 'tokens', beside: 'a bare server with the same bytes', unit: '/s' };
  return [
    rowOf(
      { ...shared, work: 'create a Token of 1 KB, SQLite', least: 0.45 },
      named(series, 'create'),
      named(series, 'bare create'),
    ),
    rowOf(
      { ...shared, work: 'read a Token of 1 KB, SQLite', least: 0.55 },
      named(series, 'read'),
      named(series, 'bare read'),
    ),
  ];
}
