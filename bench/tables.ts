/** The results as Markdown tables: one line per workload, with a column for each database. Storage is in scaling.md. */
import {
  formatBound,
  formatNumber,
  maxLoad,
  type NodePoint,
  type Results,
  type Row,
  spread,
} from './report.ts';

export const titles: Record<string, string> = {
  reads: 'Reads compared with a bare server',
  decisions: 'Decisions over HTTP compared with other products',
  handmade: 'Tokens compared with a custom service',
  uses: 'Requests to destinations compared with a bare proxy',
  latency: 'Latency, p99',
  writes: 'Sessions compared with raw database commits',
  audit: 'The cost of audit entries',
  storage: 'Storage',
  growth: 'Growth, by CPU time',
  processes: 'Several processes compared with one',
  citus: 'A Citus cluster compared with one PostgreSQL, by CPU time',
  strictness: 'Revocation under load',
  start: 'Start and memory',
  decide: 'Decisions in memory compared with libraries',
};

/** The rows of one workload by database. A row without a database applies to both. */
interface Line {
  readonly work: string;
  readonly baseline: string;
  readonly rows: Map<string, Row>;
}

const databasePattern = /, (SQLite|PostgreSQL)\b/;
const withoutDatabase = (text: string) => text.replace(databasePattern, '');

function linesOf(rows: readonly Row[]): Line[] {
  const lines = new Map<string, Line>();
  for (const row of rows) {
    const [work, baseline] = [withoutDatabase(row.work), withoutDatabase(row.baseline)];
    const line = lines.get(`${work}|${baseline}`) ?? { work, baseline, rows: new Map() };
    line.rows.set(databasePattern.exec(row.work)?.[1] ?? '', row);
    lines.set(`${work}|${baseline}`, line);
  }
  return [...lines.values()];
}

export function resultTables({ machine, rows }: Results): string {
  if (rows.length === 0) return 'Not measured yet.';
  return [
    measuredOn({ machine, rows }),
    ...busyNote(rows),
    ...[...Map.groupBy(labelled({ machine, rows }), ({ group }) => group)]
      .filter(([group]) => group !== 'storage')
      .flatMap(([group, each]) => [`## ${titles[group] ?? group}`, table(linesOf(each))]),
  ].join('\n\n');
}

/** The workloads in docs/performance.md, by group. */
const mainRows: Readonly<Record<string, readonly string[]>> = {
  reads: ['GET /applications/key'],
  decisions: ['POST /decisions', 'POST /access/v1/evaluation', 'introspect a session'],
  handmade: ['read a masked token', 'create a token, with an audit entry'],
  uses: ['POST /proxy/NAME/… with one of 20 tokens'],
  growth: ['look up a session key, 1,000,000 of each'],
  strictness: ['requests accepted after revocation, two nodes on PostgreSQL under load'],
  start: ['cold start to ready, one file', 'memory when idle, one file'],
};

/** One table of the most important rows, and where they were measured. A row for both databases is in the first column. */
export function mainTables({ machine, rows }: Results): string {
  const isMain = ({ group, work }: Row) => mainRows[group]?.includes(withoutDatabase(work));
  const main = labelled({ machine, rows: rows.filter(isMain) });
  const head = ['instead of', 'request', 'target', 'SQLite', 'PostgreSQL'];
  const cells = linesOf(main).map(({ work, baseline, rows }) => {
    const targets = new Set([...rows.values()].map(formatBound));
    const results = [rows.get('SQLite') ?? rows.get(''), rows.get('PostgreSQL')].map(resultCell);
    return [baseline, work, [...targets].join(' / '), ...results];
  });
  return [markdown(head, cells), measuredOn({ machine, rows }), ...busyNote(main)].join('\n\n');
}

type Measured = Pick<Results, 'machine' | 'rows'>;

const newestDay = (rows: Measured['rows']) =>
  rows
    .map(({ day }) => day)
    .toSorted()
    .at(-1) ?? '';

function measuredOn({ machine, rows }: Measured): string {
  const where = Object.entries(machine).map(([name, value]) => `${name} ${value}`);
  return `A row names the day and the system of its measurement. Rows without a day are of ${newestDay(rows)}, rows without a system of this machine: ${where.join(', ')}.`;
}

/** Names the day and the system of rows that were measured on others. */
function labelled({ machine, rows }: Measured): Results['rows'] {
  const newest = newestDay(rows);
  return rows.map((row) => {
    const others = [
      ...(row.day === newest ? [] : [row.day]),
      ...(row.system === machine.system ? [] : [row.system]),
    ];
    return others.length === 0 ? row : { ...row, work: `${row.work} (${others.join(', ')})` };
  });
}

/** Names the measurements that ran on a busy machine. */
function busyNote(rows: Results['rows']): string[] {
  const busy = rows.filter(({ load }) => load > maxLoad);
  if (busy.length === 0) return [];
  const names = [...new Set(busy.map(({ measurement }) => measurement))];
  const highest = Math.max(...busy.map(({ load }) => load));
  return [
    `The load average was up to ${formatNumber(highest)} before these measurements: ${names.join(', ')}. Of these, only ratios by CPU time and sizes are reliable.`,
  ];
}

function table(lines: readonly Line[]): string {
  const databases = lines.some(({ rows }) => rows.has('')) ? [''] : ['SQLite', 'PostgreSQL'];
  const baselines = new Set(lines.map(({ baseline }) => baseline));
  const [common] = baselines.size === 1 ? baselines : [];
  const first = common === undefined ? ['workload', 'compared with'] : [`compared with ${common}`];
  const head = [...first, 'target', ...databases.map((name) => name || 'result')];
  const cells = lines.map(({ work, baseline, rows }) => {
    const targets = new Set([...rows.values()].map(formatBound));
    const results = databases.map((name) => resultCell(rows.get(name)));
    return [work, ...(common === undefined ? [baseline] : []), [...targets].join(' / '), ...results];
  });
  return markdown(head, cells);
}

function markdown(head: readonly string[], lines: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
}

function resultCell(row: Row | undefined): string {
  if (!row) return '';
  const parts = [comparison(row), absolute(row)].filter((part) => part !== '');
  return `${row.reached ? '' : '**MISSED** '}${parts.join('; ')}`;
}

const isRatio = ({ min, maxRatio, group }: Row) =>
  min !== undefined || maxRatio !== undefined || group === 'latency';

function comparison(row: Row): string {
  if (isRatio(row)) return `${spread(row.ratio)} ×`;
  const { median, low, high } = row.ours;
  return `${low === high ? formatNumber(median) : spread(row.ours)} ${row.unit}`;
}

/** Latencies, or the CPU time per operation. */
function absolute({ group, latency, theirLatency, processor, database }: Row): string {
  if (group === 'latency' && latency) {
    const theirs = theirLatency === undefined ? '' : ` (${formatNumber(theirLatency.p99)} ms)`;
    return `${[latency.p50, latency.p99, latency.p999].map(formatNumber).join(' / ')} ms${theirs}`;
  }
  if (!processor) return '';
  const onDatabase = database === undefined ? '' : ` + ${formatNumber(database)}`;
  return `${formatNumber(processor.ours)}${onDatabase} µs`;
}

export function nodesTable(points: readonly NodePoint[]): string {
  const lines = points.map(({ nodes, rate, processor, database }) => {
    const each = [nodes, Math.round(rate).toLocaleString('en-US'), processor.toFixed(1), database.toFixed(1)];
    return `| ${each.join(' | ')} |`;
  });
  const head = [
    '| nodes | requests/s | CPU µs per request, node | CPU µs per request, PostgreSQL |',
    '|---|---|---|---|',
  ];
  return [...head, ...lines].join('\n');
}
