/**
 * `npm run bench`: all rows, as tables, bench/results.json and plots. `npm run bench:quick`: the same rows with
 * less of everything. Names of rows to run may be given; then nothing is written. Ends with 1 if one falls short.
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
const effort: Effort = quick ? { quick, rounds: 2, seconds: 0.7 } : { quick, rounds: 5, seconds: 2 };

installPeers();
const stage = await setStage();
const results: Results = { at: new Date().toISOString(), quick, machine: machine(), rows: [], nodes: [] };
const partial = wanted.length > 0;
try {
  for (const [name, measure] of Object.entries(rows)) {
    if (partial && !wanted.includes(name)) continue;
    const measured = await measure(stage, effort);
    results.rows.push(...measured);
    printRows(measured);
  }
  if (!partial || wanted.includes('nodes')) {
    results.nodes.push(...(await nodeCurve(stage, effort)));
    console.table(results.nodes);
  }
} finally {
  await stage.close();
}
if (!partial) publish(results);
const short = results.rows.filter(({ reached }) => !reached);
for (const { work } of short) console.log(`falls short: ${work}`);
process.exitCode = short.length > 0 ? 1 : 0;
