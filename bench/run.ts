/**
 * `npm run bench [-- ROW…]`: measures all rows, or the named ones. A complete run also writes bench/results.json,
 * plots and pages. `npm run bench:quick`: a shorter run, only printed. Exits with 1 if a target is missed.
 */
import type { Effort } from './compare.ts';
import { type Environment, openEnvironment } from './environment.ts';
import { installPeers } from './peers.ts';
import { publish } from './publish.ts';
import { machine, printRows, type Results, type Row } from './report.ts';
import { auditRows } from './rows/audit.ts';
import { boundSessionRows } from './rows/bound-sessions.ts';
import { decideRows } from './rows/decide.ts';
import { decisionRows, introspectionRows } from './rows/decisions.ts';
import { disturbedRows } from './rows/disturbed.ts';
import { growthRows } from './rows/growth.ts';
import { handmadeRows } from './rows/handmade.ts';
import { latencyRows } from './rows/latency.ts';
import { memoryRows } from './rows/memory.ts';
import { nodeCurve } from './rows/nodes.ts';
import { readRows } from './rows/reads.ts';
import { revocationRows } from './rows/revocation.ts';
import { sessionRows } from './rows/sessions.ts';
import { startRows } from './rows/start.ts';
import { workerRows } from './rows/workers.ts';

const rows: Record<string, (environment: Environment, effort: Effort) => Promise<Row[]>> = {
  reads: readRows,
  decisions: decisionRows,
  'bound-sessions': boundSessionRows,
  introspection: introspectionRows,
  sessions: sessionRows,
  handmade: handmadeRows,
  latency: latencyRows,
  disturbed: disturbedRows,
  audit: auditRows,
  decide: decideRows,
  workers: workerRows,
  growth: growthRows,
  revocation: revocationRows,
  start: startRows,
  memory: memoryRows,
};

const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const quick = process.argv.includes('--quick');
const effort: Effort = quick ? { quick, rounds: 2, seconds: 0.6 } : { quick, rounds: 5, seconds: 2 };

if (process.platform !== 'linux') throw new Error('the benchmarks need Linux, because they read /proc');
for (const [program, from] of [
  ['pgbench', 'postgresql-contrib'],
  ['strace', 'strace'],
] as const)
  if (!Bun.which(program)) throw new Error(`${program} is missing. On Debian: apt-get install ${from}`);
installPeers();
const environment = await openEnvironment();
const results: Results = { at: new Date().toISOString(), quick, machine: machine(), rows: [], nodes: [] };
const failed: string[] = [];
const partial = wanted.length > 0;
try {
  for (const [name, measure] of Object.entries(rows)) {
    if (partial && !wanted.includes(name)) continue;
    try {
      const measured = await measure(environment, effort);
      results.rows.push(...measured);
      printRows(measured);
    } catch (error) {
      failed.push(`${name}: ${(error as Error).message}`);
    }
  }
  if (!partial || wanted.includes('nodes')) {
    results.nodes.push(...(await nodeCurve(environment, effort)));
    console.table(results.nodes);
  }
} finally {
  await environment.close();
}
if (!partial && !quick && failed.length === 0) publish(results);
const missed = results.rows.filter(({ reached }) => !reached);
for (const { work } of missed) console.log(`target missed: ${work}`);
for (const each of failed) console.log(`failed: ${each}`);
process.exitCode = missed.length + failed.length > 0 ? 1 : 0;
