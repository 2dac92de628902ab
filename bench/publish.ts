/** Writes bench/results.json, the plots, and the tables of two pages. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plotNodes, plotRows } from './plot.ts';
import { machine, type NodePoint, type PublishedRow, type Results, type Row } from './report.ts';
import { requestsTable, storageTable } from './sizing.ts';
import { nodesTable, resultTables, titles } from './tables.ts';

const root = join(import.meta.dirname, '..');

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
  const notPlotted = ['strictness', 'storage', 'growth'];
  const plotted = results.rows.filter((row) => !notPlotted.includes(row.group) && hasTarget(row));
  const title = 'Results relative to their targets (logarithmic; the line shows the spread)';
  writeFileSync(join(root, 'docs/performance.svg'), plotRows(title, plotted));
  replace('docs/performance.md', 'results', resultTables(results));
  replace('docs/scaling.md', 'requests', requestsTable(results.rows));
  replace('docs/scaling.md', 'storage', storageTable(results.rows));
  if (nodes.length === 0) return;
  const reads = 'GET /applications/key on PostgreSQL, by number of nodes on one machine';
  writeFileSync(join(root, 'docs/scaling.svg'), plotNodes(reads, nodes));
  replace('docs/scaling.md', 'nodes', nodesTable(nodes));
}

const groups = Object.keys(titles);
const byTitle = (one: Row, other: Row) => groups.indexOf(one.group) - groups.indexOf(other.group);

/** Replaces the text between two marker comments of the page. */
function replace(path: string, name: string, text: string): void {
  const page = readFileSync(join(root, path), 'utf8');
  const [from, to] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [before, rest] = page.split(from) as [string, string?];
  const after = rest?.split(to)[1];
  if (after === undefined) throw new Error(`${path} has no markers for ${name}`);
  writeFileSync(join(root, path), `${before}${from}\n\n${text}\n\n${to}${after}`);
}

// `bun bench/publish.ts` generates the plots and pages from the stored results.
if (import.meta.main) publish([], []);
