/** Tables for capacity planning: requests per second and core, and bytes in the database. */
import { formatNumber, type Row } from './report.ts';

/** Workloads, found in the results by `group` and the row's name without the database, with their audit entries. */
const requests = [
  { kind: '`GET` with one key', group: 'reads', work: 'GET /applications/key', entries: 0 },
  {
    kind: '`GET` with 500 sessions in turn',
    group: 'reads',
    work: 'GET /applications/key with 500 sessions in turn',
    entries: 0,
  },
  {
    kind: '`GET` with a bound session',
    group: 'reads',
    work: 'GET /applications/key with a bound session',
    entries: 0,
  },
  { kind: '`POST /decisions`', group: 'decisions', work: 'POST /decisions', entries: 0 },
  { kind: 'read a masked token of 1 KB', group: 'handmade', work: 'read a masked token', entries: 0 },
  {
    kind: 'read the plaintext of a 1 KB token',
    group: 'handmade',
    work: 'read the plaintext of a token, with a durable audit entry',
    entries: 1,
  },
  {
    kind: 'create a token of 1 KB',
    group: 'handmade',
    work: 'create a token, with an audit entry',
    entries: 1,
  },
  {
    kind: 'create and authorize a session (two requests)',
    group: 'writes',
    work: 'create and authorize a session',
    entries: 2,
  },
] as const;

const perSecond = (microseconds: number | undefined) =>
  microseconds ? formatNumber(Number((1e6 / microseconds).toPrecision(2))) : '';

export function requestsTable(rows: readonly Row[]): string {
  const lines = requests.map(({ kind, group, work, entries }) => {
    const on = (database: string) =>
      rows.find((row) => row.group === group && row.work === `${work}, ${database}`);
    const [sqlite, postgres] = [on('SQLite'), on('PostgreSQL')];
    const rates = [sqlite?.processor?.ours, postgres?.processor?.ours, postgres?.database].map(perSecond);
    return [kind, ...rates, entries];
  });
  const head = [
    'request',
    'SQLite',
    'PostgreSQL, per core of the nodes',
    'PostgreSQL, per core of the database',
    'audit entries',
  ];
  return markdown(head, lines);
}

export function storageTable(rows: readonly Row[]): string {
  const stored = rows.filter(({ group }) => group === 'storage');
  const kinds = new Set(stored.map(({ work }) => work.replace(/, (SQLite|PostgreSQL)$/, '')));
  const lines = Array.from(kinds, (kind) => {
    const on = (database: string) => stored.find(({ work }) => work === `${kind}, ${database}`)?.ours.median;
    return [kind, ...['SQLite', 'PostgreSQL'].map((database) => megabytes(on(database)))];
  });
  return markdown(['one million of', 'SQLite', 'PostgreSQL'], lines);
}

const megabytes = (bytesOfOne: number | undefined) =>
  bytesOfOne === undefined ? '' : `${formatNumber(Number(bytesOfOne.toPrecision(2)))} MB`;

function markdown(head: readonly string[], lines: readonly (readonly (string | number)[])[]): string {
  return [head, head.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
}
