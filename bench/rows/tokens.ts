/** Creating (encrypted, durable) and reading (decrypted) a 1 KB token, compared with a bare server. */
import { compare, type Effort, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes, startBareServer } from '../servers.ts';

export async function tokenRows({ onSqlite }: Environment, effort: Effort): Promise<Row[]> {
  const { key } = onSqlite.backend;
  const token = { container: '/customers/42/', data: { note: 'x'.repeat(1000) } };
  const { id } = await onSqlite.call<{ id: string }>('POST', '/tokens', token, key);
  const path = `/tokens/${id}`;
  const bare = await startBareServer({
    'POST /tokens': await onSqlite.response('POST', '/tokens', token, key),
    [`GET ${path}`]: await onSqlite.response('GET', path, undefined, key),
  });
  const creates = { requests: [requestBytes('POST', '/tokens', key, token)], status: 201 };
  const reads = { requests: [requestBytes('GET', path, key)], status: 200 };
  const series = await compare(
    [
      underLoad('create', onSqlite.pid, { port: onSqlite.port, ...creates }),
      underLoad('bare create', bare.pid, { port: bare.port, ...creates }),
      underLoad('read', onSqlite.pid, { port: onSqlite.port, ...reads }),
      underLoad('bare read', bare.pid, { port: bare.port, ...reads }),
    ],
    effort,
  );
  await bare.stop();
  const shared = { group: 'tokens', baseline: 'a bare server with the same bytes', unit: '/s' };
  return [
    rowOf(
      { ...shared, work: 'create a 1 KB token, SQLite', min: 0.45 },
      seriesOf(series, 'create'),
      seriesOf(series, 'bare create'),
    ),
    rowOf(
      { ...shared, work: 'read a 1 KB token, SQLite', min: 0.55 },
      seriesOf(series, 'read'),
      seriesOf(series, 'bare read'),
    ),
  ];
}
