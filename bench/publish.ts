/** Writes bench/results.json, the plots, and the tables of two pages. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plotNodes, plotRows } from './plot.ts';
import { cells, columns, type NodePoint, type Results, type Row } from './report.ts';

const root = join(import.meta.dirname, '..');

const titles: Record<string, string> = {
  reads: 'Reads compared with a bare server',
  decisions: 'Decisions over HTTP compared with other products',
  decide: 'Decisions in memory compared with libraries',
  writes: 'Sessions compared with raw database commits',
  handmade: 'Tokens compared with a service written by hand',
  latency: 'Latency at half of the maximum rate',
  audit: 'The cost of audit entries',
  growth: 'Growth, by CPU time',
  processes: 'Two processes compared with one',
  strictness: 'Revocation under load',
  start: 'Start and memory',
};

export function publish(results: Results): void {
  writeFileSync(join(root, 'bench/results.json'), `${JSON.stringify(results, null, 2)}\n`);
  const plotted = results.rows.filter(({ group }) => group !== 'strictness');
  const title = 'Results relative to their targets (logarithmic; the line shows the spread)';
  writeFileSync(join(root, 'docs/performance.svg'), plotRows(title, plotted));
  replace('docs/performance.md', 'results', tables(results));
  if (results.nodes.length === 0) return;
  const reads = 'GET /applications/key on PostgreSQL, by number of nodes on one machine';
  writeFileSync(join(root, 'docs/scaling.svg'), plotNodes(reads, results.nodes));
  replace('docs/scaling.md', 'nodes', nodesTable(results.nodes));
}

function tables({ at, machine, rows, quick }: Results): string {
  const where = Object.entries(machine).map(([name, value]) => `${name} ${value}`);
  const kind = quick ? 'A quick run' : 'A full run';
  const groups = [...Map.groupBy(rows, ({ group }) => group)];
  return [
    `${kind} of ${at.slice(0, 10)}: ${where.join(', ')}.`,
    ...groups.flatMap(([group, each]) => [`### ${titles[group] ?? group}`, table(each)]),
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
