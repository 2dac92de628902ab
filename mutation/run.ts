/**
 * Runs the domain tests on the active mutant. Only tests that import the mutated file, directly or indirectly, can
 * fail, so the others are skipped. Tests that import it directly run first, because they find most mutants; tests with
 * thousands of generated cases run last.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const slow = /(proof|properties|grant)\.test\.ts$/;

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
}

const importCache = new Map<string, string[]>();

/** The file and everything it imports at run time. Type-only imports are not followed. */
function reachableFrom(path: string, reachable = new Set<string>()): Set<string> {
  if (reachable.has(path)) return reachable;
  reachable.add(path);
  for (const target of importsOf(path)) reachableFrom(target, reachable);
  return reachable;
}

function importsOf(path: string): string[] {
  const known = importCache.get(path);
  if (known) return known;
  const matches = readFileSync(path, 'utf8').matchAll(
    /^(?:import|export)\s+(?!type\s)(?:[^'";]*?\sfrom\s+)?'(\.[^']+\.ts)'/gm,
  );
  const imports = Array.from(matches, ([, target]) => join(dirname(path), target as string));
  importCache.set(path, imports);
  return imports;
}

/** The mutated file, or undefined in Stryker's first run, which has no mutant. */
function mutatedFile(): string | undefined {
  const active = process.env.__STRYKER_ACTIVE_MUTANT__;
  if (active === undefined) return undefined;
  const marker = `stryMutAct_9fa48("${active}")`;
  const found = filesIn('src/domain').find((path) => readFileSync(path, 'utf8').includes(marker));
  if (!found) throw new Error(`mutant ${active} is in no file of src/domain`);
  return found;
}

function pass(tests: string[]): boolean {
  if (tests.length === 0) return true;
  const command = [process.execPath, '--no-env-file', 'test', '--bail', '--timeout', '60000', ...tests];
  return Bun.spawnSync(command, { stdio: ['ignore', 'ignore', file ? 'ignore' : 'inherit'] }).exitCode === 0;
}

const file = mutatedFile();
const tests = filesIn('test/domain').filter((test) => !file || reachableFrom(test).has(file));
const rank = (test: string) => (slow.test(test) ? 2 : file && importsOf(test).includes(file) ? 0 : 1);
const ok = [0, 1, 2].every((wanted) => pass(tests.filter((test) => rank(test) === wanted)));
process.exitCode = ok ? 0 : 1;
