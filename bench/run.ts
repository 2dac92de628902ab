/**
 * `npm run bench`: all rows, as tables, bench/results.json, plots and pages. `npm run bench:quick`: the same rows
 * with less of everything, only printed. So it is if names of rows are given. Ends with 1 if one falls short.
 */
import type { Effort } from './contest.ts';
import { installPeers } from './peers.ts';
import { publish } from './publish.ts';
import { machine, printRows, type Results, type Row } from './report.ts';
import { decideRows } from './rows/decide.ts';
import { decisionRows, introspectionRows } from './rows/decisions.ts';
import { growthRows } from './rows/growth.ts';
import { keyRows } from './rows/key.ts';
import { nodeCurve } from './rows/nodes.ts';
import { sessionRows } from './rows/sessions.ts';
import { startRows } from './rows/start.ts';
import { strictRows } from './rows/strict.ts';
import { tokenRows } from './rows/tokens.ts';
import { workerRows } from './rows/workers.ts';
import { type Stage, setStage } from './stage.ts';

const rows: Record<string, (stage: Stage, effort: Effort) => Promise<Row[]>> = {
  key: keyRows,
  decisions: decisionRows,
  introspection: introspectionRows,
  sessions: sessionRows,
  tokens: tokenRows,
  decide: decideRows,
  workers: workerRows,
  growth: growthRows,
  strict: strictRows,
  start: startRows,
};

const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const quick = process.argv.includes('--quick');
const effort: Effort = quick ? { quick, rounds: 2, seconds: 0.6 } : { quick, rounds: 5, seconds: 2 };

if (process.platform !== 'linux') throw new Error('the bench reads /proc, and so needs Linux');
for (const [program, from] of [
  ['pgbench', 'postgresql-contrib'],
  ['strace', 'strace'],
] as const)
  if (!Bun.which(program)) throw new Error(`${program} is missing: on Debian, apt-get install ${from}`);
installPeers();
const stage = await setStage();
const results: Results = { at: new Date().toISOString(), quick, machine: machine(), rows: [], nodes: [] };
const broken: string[] = [];
const partial = wanted.length > 0;
try {
  for (const [name, measure] of Object.entries(rows)) {
    if (partial && !wanted.includes(name)) continue;
    try {
      const measured = await measure(stage, effort);
      results.rows.push(...measured);
      printRows(measured);
    } catch (error) {
      broken.push(`${name}: ${(error as Error).message}`);
    }
  }
  if (!partial || wanted.includes('nodes')) {
    results.nodes.push(...(await nodeCurve(stage, effort)));
    console.table(results.nodes);
  }
} finally {
  await stage.close();
}
if (!partial && !quick && broken.length === 0) publish(results);
const short = results.rows.filter(({ reached }) => !reached);
for (const { work } of short) console.log(`falls short: ${work}`);
for (const each of broken) console.log(`could not be measured: ${each}`);
process.exitCode = short.length + broken.length > 0 ? 1 : 0;
