/**
 * `npm run torture:planted`: plants known bugs, one at a time, into a copy of the project and checks that the
 * corresponding row fails. `--only NAME` plants one bug. Exits with 1 if a bug is not detected.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bug } from './bug.ts';
import { bugs } from './bugs.ts';
import { rows } from './rows.ts';

const root = join(import.meta.dirname, '..');
/** Inside the project, so that its packages resolve. */
const copy = join(root, '.planted');
const notCopied = ['node_modules', 'mutation', '.git', '.planted', '.stryker', 'data', 'dist'];
const seed = '7';

const { values } = parseArgs({ options: { only: { type: 'string' } } });
const chosen = bugs.filter(({ name }) => (values.only ?? name) === name);
if (chosen.length === 0) {
  console.error(`--only takes ${bugs.map(({ name }) => JSON.stringify(name)).join(', ')}`);
  process.exit(2);
}

let detected = 0;
let running: Bun.Subprocess | undefined;
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    running?.kill(signal);
    await running?.exited;
    process.exit(130);
  });
}

for (const bug of chosen) {
  if (!rows.some(({ name }) => name === bug.row)) throw new Error(`unknown row ${bug.row}`);
  plant(bug);
  const { code, said } = await tortured(bug);
  const failure = /: FAILS.*\n\s*(.*)/.exec(said)?.[1];
  const threw = failure?.startsWith('the row threw') ?? false;
  if (code === 1 && failure !== undefined && !threw) detected++;
  const outcome = code === 1 && !threw ? 'detected' : 'NOT NOTICED';
  console.log(
    `${outcome}  ${bug.name}, by ${bug.row} on ${bug.database}: ${(failure ?? said).slice(0, 200)}`,
  );
}
console.log(`\n${detected} of ${chosen.length} planted bugs detected`);
process.exitCode = detected === chosen.length ? 0 : 1;

function plant({ name, changes }: Bug): void {
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(copy);
  for (const entry of readdirSync(root)) {
    if (!notCopied.includes(entry)) cpSync(join(root, entry), join(copy, entry), { recursive: true });
  }
  for (const { file, from, to } of changes) {
    const path = join(copy, file);
    const text = readFileSync(path, 'utf8');
    const parts = text.split(from);
    if (parts.length !== 2) {
      throw new Error(
        `${name}: ${file} contains this text ${parts.length - 1} times instead of once:\n${from}`,
      );
    }
    writeFileSync(path, parts.join(to));
  }
}

async function tortured({ row, database }: Bug): Promise<{ code: number; said: string }> {
  const options = ['--short', '--seed', seed, '--only', row, '--on', database];
  const command = [process.execPath, '--no-env-file', 'torture/run.ts', ...options];
  const child = Bun.spawn(command, { cwd: copy, stdio: ['ignore', 'ignore', 'pipe'] });
  running = child;
  const said = await new Response(child.stderr).text();
  return { code: await child.exited, said };
}
