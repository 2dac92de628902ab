/** Writes bench/results.json, the plots, and the tables of two pages. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plotNodes, plotRows } from './plot.ts';
import {
  cells,
  columns,
  machine,
  type NodePoint,
  type PublishedRow,
  type Results,
  type Row,
} from './report.ts';

const root = join(import.meta.dirname, '..');

const titles: Record<string, string> = {
  reads: 'Reads compared with a bare server',
  decisions: 'Decisions over HTTP compared with other products',
  decide: 'Decisions in memory compared with libraries',
  writes: 'Sessions compared with raw database commits',
  handmade: 'Tokens compared with a service written by hand',
  latency: 'Latency at half of the maximum rate',
  audit: 'The cost of audit entries',
  storage: 'Storage',
  growth: 'Growth, by CPU time',
  processes: 'Two processes compared with one',
  strictness: 'Revocation under load',
  start: 'Start and memory',
};

/** Replaces the results of the measurements that ran. */
export function publish(measured: readonly PublishedRow[], measuredNodes: readonly NodePoint[]): void {
  const file = join(root, 'bench/results.json');
  const previous = JSON.parse(readFileSync(file, 'utf8')) as Results;
  const ran = new Set(measured.map(({ measurement }) => measurement));
  const rows = [...previous.rows.filter(({ measurement }) => !ran.has(measurement)), ...measured];
  const nodes = measuredNodes.length > 0 ? [...measuredNodes] : previous.nodes;
  const results: Results = { machine: machine(), rows: rows.toSorted(byTitle), nodes };
  writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
  const hasTarget = ({ min, maxRatio, max }: Row) => (min ?? maxRatio ?? max) !== undefined;
  const plotted = results.rows.filter((row) => row.group !== 'strictness' && hasTarget(row));
  const title = 'Results relative to their targets (logarithmic; the line shows the spread)';
  writeFileSync(join(root, 'docs/performance.svg'), plotRows(title, plotted));
  replace('docs/performance.md', 'results', tables(results));
  if (nodes.length === 0) return;
  const reads = 'GET /applications/key on PostgreSQL, by number of nodes on one machine';
  writeFileSync(join(root, 'docs/scaling.svg'), plotNodes(reads, nodes));
  replace('docs/scaling.md', 'nodes', nodesTable(nodes));
}

const groups = Object.keys(titles);
const byTitle = (one: Row, other: Row) => groups.indexOf(one.group) - groups.indexOf(other.group);

function tables({ machine, rows }: Results): string {
  const where = Object.entries(machine).map(([name, value]) => `${name} ${value}`);
  const newest = rows
    .map(({ day }) => day)
    .toSorted()
    .at(-1);
  return [
    `Measured on ${newest}, unless a row names another day: ${where.join(', ')}.`,
    ...[...Map.groupBy(rows, ({ group }) => group)].flatMap(([group, each]) => [
      `### ${titles[group] ?? group}`,
      table(each.map((row) => (row.day === newest ? row : { ...row, work: `${row.work} (${row.day})` }))),
    ]),
  ].join('\n\n');
}

function table(rows: readonly Row[]): string {
  const lines = [columns, columns.map(() => '---'), ...rows.map(cells)];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}

function nodesTable(points: readonly NodePoint[]): string {
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

/** Replaces the text between two marker comments of the page. */
function replace(path: string, name: string, text: string): void {
  const page = readFileSync(join(root, path), 'utf8');
  const [from, to] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [before, rest] = page.split(from) as [string, string?];
  const after = rest?.split(to)[1];
  if (after === undefined) throw new Error(`${path} has no markers for ${name}`);
  writeFileSync(join(root, path), `${before}${from}\n\n${text}\n\n${to}${after}`);
}
