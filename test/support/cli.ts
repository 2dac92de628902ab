/** A command as an operator gives it, within this process and in a folder of its own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { environment, root } from './service.ts';
import { shell } from './shell.ts';

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

/** An entry of the audit log, as a command prints it. */
export interface Shown {
  readonly operation: string;
  readonly result: string;
  readonly entity?: { readonly id: string };
}

/** A command that goes on printing entries. */
export interface Following {
  /** What comes next, as far as it comes at once. */
  next(): Promise<Shown[]>;
  /** The exit code, when it has ended. */
  readonly ended: Promise<number>;
  /** What it says next on standard error. */
  said(): Promise<string>;
  /** Answers with the exit code. */
  stop(): Promise<number>;
}

export interface Desk {
  readonly folder: string;
  /** Of a file in the folder. */
  path(name: string): string;
  run(...words: string[]): Promise<Said>;
  /** With `--json`, and what it printed. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came back
  json(...words: string[]): Promise<{ code: number; body: any }>;
  /** With `--json`, and the entries that it printed, one on each line; fails if it complained. */
  entries(...words: string[]): Promise<Shown[]>;
  /** With `--json` and `--follow`. */
  follow(...words: string[]): Following;
  /** As a process of its own, which goes on until it is told to stop. */
  start(...words: string[]): Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  clear(): void;
}

/** Where an operator sits, with these settings. */
export function openDesk(settings: (folder: string) => Record<string, string> = () => ({})): Desk {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-desk-'));
  const env = environment(folder, settings(folder));
  async function run(...words: string[]): Promise<Said> {
    const { code, out, err } = await shell(words, { env });
    return { code, out, error: err };
  }
  function start(...words: string[]) {
    const command = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), ...words];
    return Bun.spawn(command, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  }
  return {
    folder,
    path: (name) => join(folder, name),
    run,
    json: async (...words) => {
      const { code, out, error } = await run(...words, '--json');
      if (out === '') throw new Error(`it printed nothing, and exited with ${code}: ${error}`);
      return { code, body: JSON.parse(out) };
    },
    entries: async (...words) => {
      const { code, out, error } = await run(...words, '--json');
      if (code !== 0 || error !== '') throw new Error(`it exited with ${code}: ${error}`);
      return entriesIn(out);
    },
    follow: (...words) => {
      const following = start(...words, '--json', '--follow');
      const reader = following.stdout.getReader();
      const notes = following.stderr.getReader();
      return {
        next: async () => entriesIn(new TextDecoder().decode((await reader.read()).value)),
        ended: following.exited,
        said: async () => new TextDecoder().decode((await notes.read()).value),
        stop: () => {
          following.kill('SIGTERM');
          return following.exited;
        },
      };
    },
    start,
    clear: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function entriesIn(lines: string): Shown[] {
  return lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}
