/**
 * Runs the tests of the domain on the mutant that is switched on: those that import its file, directly or not,
 * since no other can tell the difference. Those that try thousands of cases come last.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const slow = /(proof|properties|grant)\.test\.ts$/;

function filesIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
}

const seen = new Map<string, string[]>();

/** All that a file needs when it runs; what it takes from others for their types alone is gone by then. */
function reachedFrom(path: string, reached = new Set<string>()): Set<string> {
  if (reached.has(path)) return reached;
  reached.add(path);
  for (const target of importsOf(path)) reachedFrom(target, reached);
  return reached;
}

function importsOf(path: string): string[] {
  const known = seen.get(path);
  if (known) return known;
  const matches = readFileSync(path, 'utf8').matchAll(
    /^(?:import|export)\s+(?!type\s)(?:[^'";]*?\sfrom\s+)?'(\.[^']+\.ts)'/gm,
  );
  const imports = Array.from(matches, ([, target]) => join(dirname(path), target as string));
  seen.set(path, imports);
  return imports;
}

/** The file in which the mutant stands; none on the first run, when all is as it was. */
function mutated(): string | undefined {
  const active = process.env.__STRYKER_ACTIVE_MUTANT__;
  if (active === undefined) return undefined;
  const mark = `stryMutAct_9fa48("${active}")`;
  const found = filesIn('src/domain').find((path) => readFileSync(path, 'utf8').includes(mark));
  if (!found) throw new Error(`there is no mutant ${active}`);
  return found;
}

function pass(tests: string[]): boolean {
  if (tests.length === 0) return true;
  const command = [process.execPath, '--no-env-file', 'test', '--bail', '--timeout', '60000', ...tests];
  return Bun.spawnSync(command, { stdio: ['ignore', 'ignore', file ? 'ignore' : 'inherit'] }).exitCode === 0;
}

const file = mutated();
const tests = filesIn('test/domain').filter((test) => !file || reachedFrom(test).has(file));
const ok = pass(tests.filter((test) => !slow.test(test))) && pass(tests.filter((test) => slow.test(test)));
process.exitCode = ok ? 0 : 1;
