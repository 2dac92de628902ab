/** Runs the shell examples of a Markdown page and compares the output with the page. */
import { expect } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './service.ts';

export interface Step {
  readonly script: string;
  /** Output lines shown after the script. `…` matches any text; alone on a line it matches any lines. */
  readonly expected: readonly string[];
}

export interface Example {
  readonly steps: readonly Step[];
  /** Code blocks with a file name. */
  readonly files: Readonly<Record<string, string>>;
}

const fence = /^```(\w+)(?: ([\w.-]+))?\n(.*?)^```$/gms;

/**
 * Reads the code blocks of a page, or of one section, after those of the set-up that it links to. Throws if a block is
 * neither a script, output nor a file.
 */
export function readExample(path: string, heading?: string): Example {
  const text = readFileSync(join(root, path), 'utf8');
  const setUp = text.includes('quick-start.md#before-a-guide')
    ? readExample('docs/quick-start.md', 'Before a guide').steps
    : [];
  const section = heading ? (text.split(/^## /m).find((one) => one.startsWith(`${heading}\n`)) ?? '') : text;
  const steps: { script: string; expected: string[] }[] = [];
  const files: Record<string, string> = {};
  for (const [, language, name, code = ''] of section.matchAll(fence)) {
    const last = steps.at(-1);
    if (name) files[name] = code;
    else if (language === 'sh') steps.push({ script: code, expected: [] });
    else if (language === 'text' && last) last.expected.push(...lines(code));
    // Run by test/db/postgres-privileges.test.ts.
    else if (language === 'sql' && path === 'docs/operations/postgresql.md') continue;
    // Run by test/sdk/react.slow.test.ts and test/sdk/frameworks.slow.test.ts.
    else if ((language === 'jsx' || language === 'ts') && path === 'docs/reference/sdk.md') continue;
    else throw new Error(`${path} has a ${language} block that is never run: ${code}`);
  }
  return { steps: [...setUp, ...steps], files };
}

function lines(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

export const isStatus = (line: string) => /^\d{3}$/.test(line);

/** A pattern that matches all expected lines together. */
function patternOf(expected: readonly string[]): RegExp {
  const escaped = expected.map((line) =>
    line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(RegExp.escape).join('.*')}\\n`,
  );
  return new RegExp(`^${escaped.join('')}$`);
}

export interface ExampleSetup {
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Texts of the page, with their replacements in the test. */
  readonly replacements: Readonly<Record<string, string>>;
  /** Runs before the last step, which stops the servers of the example. */
  readonly whileRunning?: () => Promise<void>;
  /** Runs after the last step, before background processes of the example are ended. */
  readonly afterwards?: () => Promise<void>;
}

/** Ends the shell and its background processes. */
function endGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGTERM');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Creates a `sallyport` command and returns the folder for PATH. */
function commandIn(folder: string): string {
  const bin = join(folder, '.bin');
  mkdirSync(bin, { recursive: true });
  const script = `#!/bin/sh\nexec '${process.execPath}' --no-env-file '${join(root, 'src/main.ts')}' "$@"\n`;
  writeFileSync(join(bin, 'sallyport'), script, { mode: 0o755 });
  return bin;
}

/** Printed between the outputs of two steps. */
const separator = '\x1e';

/** Runs the steps in a shell on a terminal and checks what the terminal shows: stdout and stderr, interleaved. */
export async function runInTerminal(
  { steps }: Example,
  { folder, env, replacements }: ExampleSetup,
): Promise<void> {
  const script = steps.map(
    ({ script }) => `printf '${separator}'\n{\n${substitute(script, replacements)}} </dev/null`,
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
    const output = lines(outputs[index] ?? 'the shell stopped before this step').map((line) => `${line}\n`);
    expect(output.join(''), script).toMatch(patternOf(expected));
  }
}

function substitute(text: string, replacements: ExampleSetup['replacements']): string {
  return Object.entries(replacements).reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

/** Runs the steps in one shell. Expects status codes on stderr, where `as` of the README prints them, else stdout. */
export async function runExample(
  { steps, files }: Example,
  { folder, env, replacements, whileRunning, afterwards }: ExampleSetup,
): Promise<void> {
  const adapt = (text: string) => substitute(text, replacements);
  for (const [name, code] of Object.entries(files)) writeFileSync(join(folder, name), adapt(code));
  const script = steps.map(
    (step, index) => `{\n${adapt(step.script)}} >"$here/${index}.out" 2>"$here/${index}.err"`,
  );
  const pause = 'echo done\nread -r _ || :';
  if (whileRunning) script.splice(-1, 0, pause);
  const whole = ['here=$PWD', ...script, pause, ''];
  const shell = Bun.spawn(['sh', '-e', '-c', whole.join('\n')], {
    cwd: folder,
    env: { ...env, PATH: `${commandIn(folder)}:${env.PATH}` },
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const output = shell.stdout.getReader();
  let done = await output.read();
  try {
    if (done.value && whileRunning) {
      await whileRunning();
      shell.stdin.write('\n');
      await shell.stdin.flush();
      done = await output.read();
    }
    if (done.value) await afterwards?.();
  } finally {
    endGroup(shell.pid);
    await shell.exited;
  }
  for (const [index, { script, expected }] of steps.entries()) {
    const [out, err] = ['out', 'err'].map((end) => Bun.file(join(folder, `${index}.${end}`)));
    const errors = lines(
      (await err?.exists()) ? ((await err?.text()) ?? '') : 'the shell stopped before this step',
      // A notice of server commands on a slow machine.
    ).filter((line) => !line.startsWith('waiting for '));
    expect({ script, errors }).toEqual({ script, errors: expected.filter(isStatus) });
    const printed = lines((await out?.text()) ?? '').map((line) => `${line}\n`);
    expect(printed.join('')).toMatch(patternOf(expected.filter((line) => !isStatus(line))));
  }
  expect(done.value).toBeDefined();
}
