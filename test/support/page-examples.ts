/** Does what a page tells its reader to do, in one shell, and expects what it shows. */
import { expect } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './service.ts';

export interface Step {
  readonly script: string;
  /** The output that is expected under it, where `…` stands for anything, and alone on a line for any lines. */
  readonly expected: readonly string[];
}

export interface Example {
  readonly steps: readonly Step[];
  /** Code under a name: the reader puts it into a file. */
  readonly files: Readonly<Record<string, string>>;
}

const fence = /^```(\w+)(?: ([\w.-]+))?\n(.*?)^```$/gms;

/** Of a page, or of what stands under one of its headings. Every block of code has its part in it. */
export function readExample(path: string, heading?: string): Example {
  const text = readFileSync(join(root, path), 'utf8');
  const part = heading ? (text.split(/^## /m).find((one) => one.startsWith(`${heading}\n`)) ?? '') : text;
  const steps: { script: string; expected: string[] }[] = [];
  const files: Record<string, string> = {};
  for (const [, language, name, code = ''] of part.matchAll(fence)) {
    const last = steps.at(-1);
    if (name) files[name] = code;
    else if (language === 'sh') steps.push({ script: code, expected: [] });
    else if (language === 'text' && last) last.expected.push(...lines(code));
    else throw new Error(`${path} has a block of ${language} that nobody runs: ${code}`);
  }
  return { steps, files };
}

function lines(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

export const isStatus = (line: string) => /^\d{3}$/.test(line);

/** As one pattern over all lines. */
function patternOf(expected: readonly string[]): RegExp {
  const escaped = expected.map((line) =>
    line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(RegExp.escape).join('.*')}\\n`,
  );
  return new RegExp(`^${escaped.join('')}$`);
}

export interface ExampleSetup {
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What stands on the page, and what it is here. */
  readonly replacements: Readonly<Record<string, string>>;
  /** Is called when all is done and whatever was started still runs. */
  readonly whileRunning?: () => Promise<void>;
}

/** The shell, and what it has started and left running. */
function endGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGTERM');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Where `sallyport` is found. */
function commandIn(folder: string): string {
  const place = join(folder, '.bin');
  mkdirSync(place, { recursive: true });
  const script = `#!/bin/sh\nexec '${process.execPath}' --no-env-file '${join(root, 'src/main.ts')}' "$@"\n`;
  writeFileSync(join(place, 'sallyport'), script, { mode: 0o755 });
  return place;
}

/** Between the output of two steps. */
const separator = '\x1e';

/** Pastes the steps into a shell on a terminal, and expects what it shows: both outputs, in their order. */
export async function runInTerminal(
  { steps }: Example,
  { folder, env, replacements }: ExampleSetup,
): Promise<void> {
  const script = steps.map(
    ({ script }) => `printf '${separator}'\n{\n${adapted(script, replacements)}} </dev/null`,
  );
  let printed = '';
  const closed = Promise.withResolvers<void>();
  const decoder = new TextDecoder();
  const shell = Bun.spawn(['sh', '-e', '-c', script.join('\n')], {
    cwd: folder,
    env: { ...env, PATH: `${commandIn(folder)}:${env.PATH}` },
    terminal: {
      cols: 10_000,
      rows: 100,
      data: (_, chunk) => {
        printed += decoder.decode(chunk, { stream: true });
      },
      exit: () => closed.resolve(),
    },
  });
  await shell.exited;
  await closed.promise;
  const outputs = printed.replaceAll('\r', '').split(separator).slice(1);
  for (const [index, { script, expected }] of steps.entries()) {
    const output = lines(outputs[index] ?? 'the shell stopped before').map((line) => `${line}\n`);
    expect(output.join(''), script).toMatch(patternOf(expected));
  }
}

function adapted(text: string, instead: ExampleSetup['replacements']): string {
  return Object.entries(instead).reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

/** Statuses are expected on standard error, where `as` of the README prints them; all else on standard output. */
export async function runExample(
  { steps, files }: Example,
  { folder, env, replacements, whileRunning }: ExampleSetup,
): Promise<void> {
  const adapt = (text: string) => adapted(text, replacements);
  for (const [name, code] of Object.entries(files)) writeFileSync(join(folder, name), adapt(code));
  const script = steps.map(
    (step, index) => `{\n${adapt(step.script)}} >"$here/${index}.out" 2>"$here/${index}.err"`,
  );
  const whole = ['here=$PWD', ...script, 'echo done', 'read -r _ || :', ''];
  const shell = Bun.spawn(['sh', '-e', '-c', whole.join('\n')], {
    cwd: folder,
    env: { ...env, PATH: `${commandIn(folder)}:${env.PATH}` },
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const said = await shell.stdout.getReader().read();
  try {
    if (said.value) await whileRunning?.();
  } finally {
    endGroup(shell.pid);
    await shell.exited;
  }
  for (const [index, { script, expected }] of steps.entries()) {
    const [out, err] = ['out', 'err'].map((end) => Bun.file(join(folder, `${index}.${end}`)));
    const complaint = lines((await err?.exists()) ? ((await err?.text()) ?? '') : 'it did not get there');
    expect({ script, complaint }).toEqual({ script, complaint: expected.filter(isStatus) });
    const printed = lines((await out?.text()) ?? '').map((line) => `${line}\n`);
    expect(printed.join('')).toMatch(patternOf(expected.filter((line) => !isStatus(line))));
  }
  expect(said.value).toBeDefined();
}
