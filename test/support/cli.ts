/** Runs commands with their own folder and settings, in this process or as child processes. */
import { join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';
import { environment, root } from './service.ts';
import { type ShellResult, shell } from './shell.ts';
import { testMasterKey } from './test-server.ts';

/** An audit entry as `--json` prints it. */
export interface PrintedEntry {
  readonly id: string;
  readonly operation: string;
  readonly result: string;
  readonly entity?: { readonly id: string };
}

/** A running command with `--follow`. */
export interface Following {
  /** Resolves with the entries of the next chunk of standard output. */
  next(): Promise<PrintedEntry[]>;
  /** The exit code. */
  readonly ended: Promise<number>;
  /** Resolves with the next chunk of standard error. */
  nextMessage(): Promise<string>;
  /** Resolves with the exit code. */
  stop(): Promise<number>;
}

export interface Cli {
  readonly folder: string;
  /** The path of a file in the folder. */
  path(name: string): string;
  run(...words: string[]): Promise<ShellResult>;
  /** Runs with `--json` and parses the output. Throws if the output is empty. */
  // biome-ignore lint/suspicious/noExplicitAny: tests check the shape themselves
  json(...words: string[]): Promise<{ code: number; body: any }>;
  /** Runs with `--json` and returns one entry per line. Throws on an error. */
  entries(...words: string[]): Promise<PrintedEntry[]>;
  /** Starts with `--json` and `--follow`. */
  follow(...words: string[]): Following;
  /** Starts a child process. */
  start(...words: string[]): Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
}

export function openCli(settings: (folder: string) => Record<string, string> = () => ({})): Cli {
  const folder = temporaryFolder();
  const env = environment(folder, settings(folder));
  const run = (...words: string[]) => shell(words, { env });
  function start(...words: string[]) {
    const command = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), ...words];
    return Bun.spawn(command, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  }
  return {
    folder,
    path: (name) => join(folder, name),
    run,
    json: async (...words) => {
      const { code, out, err } = await run(...words, '--json');
      if (out === '') throw new Error(`no output, exit code ${code}: ${err}`);
      return { code, body: JSON.parse(out) };
    },
    entries: async (...words) => {
      const { code, out, err } = await run(...words, '--json');
      if (code !== 0 || err !== '') throw new Error(`exit code ${code}: ${err}`);
      return parseEntries(out);
    },
    follow: (...words) => {
      const child = start(...words, '--json', '--follow');
      const output = child.stdout.getReader();
      const messages = child.stderr.getReader();
      return {
        next: async () => parseEntries(new TextDecoder().decode((await output.read()).value)),
        ended: child.exited,
        nextMessage: async () => new TextDecoder().decode((await messages.read()).value),
        stop: () => {
          child.kill('SIGTERM');
          return child.exited;
        },
      };
    },
    start,
  };
}

/** A CLI with a SQLite database in `live.db` and the master key of `openTestServer`. */
export function openSqliteCli(): Cli {
  return openCli((folder) => ({
    DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
    SALLYPORT_MASTER_KEY: testMasterKey,
  }));
}

function parseEntries(lines: string): PrintedEntry[] {
  return lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}
