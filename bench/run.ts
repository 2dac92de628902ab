/**
 * `npm run bench [-- MEASUREMENT…]` runs all measurements, or the named ones. Each one writes its results to
 * bench/results.json, the plots and the pages. Results of measurements that did not run, or failed, remain. `--long`
 * adds a measurement of 10 million requests. `npm run bench:quick` prints rough figures and writes
 * nothing. Exits with 1 if a measurement failed or missed its target.
 */
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { citusBinaries } from '../torture/crash/citus.ts';
import { type Effort, NothingAnswered } from './compare.ts';
import { type Environment, openEnvironment } from './environment.ts';
import { installPeers } from './peers.ts';
import { publish } from './publish.ts';
import { isReached, maxLoad, type NodePoint, printRows, type Row, system } from './report.ts';
import { auditRows } from './rows/audit.ts';
import { auditLogRows } from './rows/audit-log.ts';
import { authzenRows } from './rows/authzen.ts';
import { boundSessionRows } from './rows/bound-sessions.ts';
import { citusRows } from './rows/citus.ts';
import { decideRows } from './rows/decide.ts';
import { decisionRows, introspectionRows } from './rows/decisions.ts';
import { disturbedRows } from './rows/disturbed.ts';
import { filledRows } from './rows/filled.ts';
import { growthRows } from './rows/growth.ts';
import { handmadeRows } from './rows/handmade.ts';
import { latencyRows } from './rows/latency.ts';
import { longMemoryRows, memoryRows } from './rows/memory.ts';
import { nodeRows } from './rows/nodes.ts';
import { mixedRows, readRows } from './rows/reads.ts';
import { revocationRows } from './rows/revocation.ts';
import { sessionRows } from './rows/sessions.ts';
import { startRows } from './rows/start.ts';
import { storageRows } from './rows/storage.ts';
import { useRows } from './rows/uses.ts';
import { workerRows } from './rows/workers.ts';
import { stopStarted } from './servers.ts';

const measurements: Record<string, (environment: Environment, effort: Effort) => Promise<Row[]>> = {
  reads: readRows,
  mixed: mixedRows,
  decisions: decisionRows,
  authzen: authzenRows,
  'bound-sessions': boundSessionRows,
  introspection: introspectionRows,
  sessions: sessionRows,
  handmade: handmadeRows,
  uses: useRows,
  latency: latencyRows,
  disturbed: disturbedRows,
  audit: auditRows,
  'audit-log-sqlite': (environment, effort) => auditLogRows(environment, 'SQLite', effort),
  'audit-log-postgres': (environment, effort) => auditLogRows(environment, 'PostgreSQL', effort),
  storage: storageRows,
  decide: decideRows,
  workers: workerRows,
  'growth-sqlite': (environment, effort) => growthRows(environment, 'SQLite', effort),
  'growth-postgres': (environment, effort) => growthRows(environment, 'PostgreSQL', effort),
  citus: citusRows,
  revocation: revocationRows,
  start: startRows,
  filled: filledRows,
  memory: memoryRows,
  'memory-long': longMemoryRows,
};
/** Only with `--long`, or by name. */
const longMeasurements = ['memory-long'];
/** Left out of quick runs unless they are named: their results mean nothing with few rows or requests. */
const fullMeasurements = ['storage', 'memory'];
const hasCitus = citusBinaries() !== undefined;

const { values, positionals: wanted } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, long: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const { quick, long } = values;
const effort: Effort = quick
  ? { quick, rounds: 2, seconds: 0.25, warmUp: 0.1 }
  : { quick, rounds: 5, seconds: 1.2, warmUp: 2.5 };
/** A measurement that takes longer has failed, for example because a database was killed. */
const maxMinutes = longMeasurements.some((name) => long || wanted.includes(name)) ? 60 : 10;

if (process.platform !== 'linux') throw new Error('the benchmarks need Linux, because they read /proc');
for (const [program, from] of [
  ['pgbench', 'postgresql-contrib'],
  ['psql', 'postgresql-client'],
  ['strace', 'strace'],
  ['chrt', 'util-linux'],
] as const)
  if (!Bun.which(program)) throw new Error(`${program} is missing. On Debian: apt-get install ${from}`);
const known = [...Object.keys(measurements), 'nodes'];
for (const name of wanted)
  if (!known.includes(name)) throw new Error(`unknown measurement ${name}: use ${known.join(', ')}`);
const isWanted = (name: string) =>
  wanted.length > 0
    ? wanted.includes(name)
    : (long || !longMeasurements.includes(name)) &&
      !(quick && fullMeasurements.includes(name)) &&
      (hasCitus || name !== 'citus');

if (!hasCitus) console.log('citus is left out: Citus is not installed, pg_config finds no citus.so.');
installPeers();
const environment = await openEnvironment();
const rows: Row[] = [];
const nodes: NodePoint[] = [];
const failed: string[] = [];
const notMeasurable: string[] = [];
/** The load average of other work, before the first measurement. */
const load = loadavg()[0] as number;
const day = new Date().toISOString().slice(0, 10);

/** Ignores errors of work that a failed measurement left running. */
process.on('unhandledRejection', (error) => console.log(`ignored: ${(error as Error).message}`));

async function run(name: string, measure: () => Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`took longer than ${maxMinutes} minutes`)),
    maxMinutes * 60_000,
  );
  const began = performance.now();
  try {
    await Promise.race([measure(), late.promise]);
    console.log(`${name} took ${((performance.now() - began) / 1000).toFixed(0)} s\n`);
  } catch (error) {
    const message = `${name}: ${(error as Error).message}`;
    (quick && error instanceof NothingAnswered ? notMeasurable : failed).push(message);
    console.log(`${message}\n`);
  } finally {
    clearTimeout(timer);
    stopStarted();
  }
}

if (load > maxLoad)
  console.log(`The machine is busy: the load is ${load.toFixed(1)}. Only figures by CPU time are reliable.`);
if (quick)
  console.log('A quick run: its figures are rough. A target counts as missed if every round missed it.\n');
function add(measurement: string, measured: readonly Row[]): void {
  const judged = measured.map((row) => ({
    ...row,
    reached: isReached(row, quick),
    measurement,
    day,
    system,
    load,
  }));
  rows.push(...judged);
  printRows(judged);
  if (!quick) publish(judged, nodes);
}

for (const [name, measure] of Object.entries(measurements))
  if (isWanted(name)) await run(name, async () => add(name, await measure(environment, effort)));
if (isWanted('nodes'))
  await run('nodes', async () => {
    const measured = await nodeRows(environment, effort);
    nodes.push(...measured.points);
    console.table(nodes);
    add('nodes', measured.rows);
  });
await Promise.race([environment.close(), Bun.sleep(10_000)]);

const missed = rows.filter(({ reached }) => !reached);
for (const { work } of missed) console.log(`target missed: ${work}`);
for (const each of notMeasurable) console.log(each);
for (const each of failed) console.log(`failed: ${each}`);
process.exit(missed.length + failed.length > 0 ? 1 : 0);
