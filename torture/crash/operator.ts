/** Runs `doctor` and `audit verify` as an operator would. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { databaseTimeout } from '../retry.ts';
import type { Context } from '../row.ts';
import { environmentOf } from './node.ts';

interface CommandResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Milliseconds after which a command that should have ended is killed. */
const maxTime = 120_000;

export async function runCommand(
  context: Context,
  databaseUrl: string,
  command: readonly string[],
  env: Record<string, string> = {},
): Promise<CommandResult> {
  const child = Bun.spawn([...command], {
    cwd: context.folder,
    env: environmentOf(context.folder, databaseUrl, { ...databaseTimeout(context), ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: maxTime,
    killSignal: 'SIGKILL',
  });
  const [out, err] = await Promise.all([child.stdout, child.stderr].map((each) => new Response(each).text()));
  return { code: await child.exited, out: out as string, err: err as string };
}

/** Failed checks of `doctor` and findings of `audit verify` in an export. */
export async function operatorChecks(
  context: Context,
  databaseUrl: string,
  program: readonly string[],
): Promise<string[]> {
  const file = join(context.folder, `audit-${crypto.randomUUID()}.jsonl`);
  const run = (...args: string[]) => runCommand(context, databaseUrl, [...program, ...args]);
  const doctor = await run('doctor', '--json');
  const exported = await run('audit', 'export', file);
  const verified = await run('audit', 'verify', file);
  rmSync(file, { force: true });
  return [
    ...failuresIn(doctor),
    ...[exported, verified].flatMap(({ code, out, err }) => (code === 0 ? [] : [out + err])),
  ];
}

interface Check {
  readonly name: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly message: string;
}

function failuresIn({ out, err }: CommandResult): string[] {
  try {
    const { checks } = JSON.parse(out) as { checks: Check[] };
    return checks
      .filter(({ state }) => state === 'fail')
      .map(({ name, message }) => `doctor: ${name}: ${message}`);
  } catch {
    return [`doctor: ${out}${err}`];
  }
}
