/**
 * `npm run torture`: tries to break every guarantee and prints a table. Exits with 1 if a row fails, and otherwise with 3
 * if one did not finish. `--seed N` repeats a run, `--only NAME,NAME` selects rows, `--on DATABASE` selects a database,
 * `--short` uses small sizes. Rows on Citus are skipped where it is not installed.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres.ts';
import { citusBinaries } from './crash/citus.ts';
import { merge, type StoredResults, table, toStored, type Verdict, verdictOf } from './results-table.ts';
import { allDatabases } from './row.ts';
import { rows } from './rows.ts';
import { type Result, Run } from './runner.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    only: { type: 'string' },
    on: { type: 'string' },
    short: { type: 'boolean' },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const names = values.only?.split(',') ?? rows.map(({ name }) => name);
const unknown = names.filter((name) => !rows.some((row) => row.name === name));
const noDatabase = values.on !== undefined && !allDatabases.some((name) => name === values.on);
if (unknown.length > 0 || noDatabase || !Number.isSafeInteger(seed)) {
  console.error(
    `--seed takes a number; --on takes ${allDatabases.join(' or ')}; --only takes ${rows.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}

if (citusBinaries() === undefined) {
  console.error('Citus is not installed: pg_config finds no citus.so. The rows on Citus are skipped.');
  if (values.on === 'Citus') process.exit(2);
}

const began = performance.now();
/** The commit, before a result changes a file. */
const version = commit();
const server = await startPostgres();
process.env.SALLYPORT_TEST_POSTGRES = server.url;
const run = new Run({ seed, size: values.short ? 'short' : 'full', report });
const stop = async () => {
  await run.close();
  await server.stop();
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => stop().finally(() => process.exit(130)));
}

const chosen = rows
  .filter(({ name }) => names.includes(name))
  .map((row) => ({ ...row, databases: row.databases.filter((name) => (values.on ?? name) === name) }));
const results = await run.all(chosen).finally(stop);

console.log(`\n${table(toStored(results, seed, version))}`);
for (const { row, database, failures, unfinished } of results) {
  for (const failure of failures) console.log(`\n${row.name} on ${database}: ${failure}`);
  if (unfinished !== undefined) console.log(`\n${row.name} on ${database} did not finish: ${unfinished}`);
}
const count = (verdict: Verdict) => results.filter((result) => verdictOf(result) === verdict).length;
const seconds = Math.round((performance.now() - began) / 1000);
console.log(
  `\n${count('holds')} hold, ${count('FAILS')} fail, ${count('not finished')} did not finish, in ${seconds} s`,
);
if (!values.short)
  console.log('Results are in torture/results.json. Run npm run docs to update torture/RESULTS.md.');
process.exitCode = count('FAILS') > 0 ? 1 : count('not finished') > 0 ? 3 : 0;

function report(result: Result): void {
  const { row, database, failures, unfinished, seconds } = result;
  console.error(`${row.name} on ${database}: ${verdictOf(result)}, ${seconds.toFixed(1)} s`);
  for (const line of unfinished === undefined ? failures : [unfinished]) console.error(`  ${line}`);
  if (!values.short) store(result);
}

/** Stores each result when its row ends, so that an interrupted run does not lose it. */
function store(result: Result): void {
  const path = join(import.meta.dirname, 'results.json');
  const earlier = JSON.parse(readFileSync(path, 'utf8')) as StoredResults;
  const names = rows.map(({ name }) => name);
  const all = merge(earlier, toStored([result], seed, version), names);
  writeFileSync(path, `${JSON.stringify(all, null, 2)}\n`);
}

function commit(): string {
  const said = (...args: string[]) =>
    Bun.spawnSync(['git', ...args], { cwd: import.meta.dirname, stdout: 'pipe', stderr: 'ignore' })
      .stdout.toString()
      .trim();
  const changed = said('status', '--porcelain', '--untracked-files=no') !== '';
  return `${said('rev-parse', '--short', 'HEAD') || 'unknown'}${changed ? '+' : ''}`;
}
