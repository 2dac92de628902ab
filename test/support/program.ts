/** Runs the program as a separate process in a temporary folder. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingList } from '../../src/config/settings.ts';
import { closeLater } from './cleanup.ts';
import { generousTimeout } from './test-server.ts';

const main = join(import.meta.dirname, '..', '..', 'src', 'main.ts');
export const keyPattern = /slp_[a-z]{3}_[0-9A-Za-z]{55}/;

export interface Finished {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface RunningProgram {
  readonly url: string;
  readonly pid: number;
  /** Everything printed to stdout so far. */
  out(): string;
  err(): string;
  /** Waits until stdout or stderr matches, and returns the pattern's first group. Throws if the process ends first. */
  until(pattern: RegExp): Promise<string>;
  kill(signal: NodeJS.Signals): void;
  /** Resolves with the exit code. */
  readonly ended: Promise<number>;
}

/** A temporary folder in which to run the program. `close` kills the processes that still run. */
export class ProgramFolder {
  readonly folder = mkdtempSync(join(tmpdir(), 'sallyport-cli-'));
  readonly #started: Bun.Subprocess[] = [];

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Runs a command and waits until it exits. */
  async run(args: string[], env: Record<string, string> = {}): Promise<Finished> {
    const started = this.#spawn(args, env);
    const code = await started.process.exited;
    await started.drained;
    return { code, out: started.out(), err: started.err() };
  }

  /** Starts the service on a free port and waits for its banner. */
  async serve(env: Record<string, string> = {}, args: string[] = []): Promise<RunningProgram> {
    const started = this.start(['serve', ...args], { PORT: '0', SALLYPORT_DRAIN: '0', ...env });
    const url = await started.until(/listening on (http:\S+)\n(?:.*\n)*.*curl/);
    return { ...started, url };
  }

  /** Starts a command and does not wait for its output. */
  start(args: string[], env: Record<string, string> = {}): Omit<RunningProgram, 'url'> {
    const { process, out, err, until } = this.#spawn(args, env);
    const kill = (signal: NodeJS.Signals) => process.kill(signal);
    return { pid: process.pid, out, err, until, kill, ended: process.exited };
  }

  readonly close = closeLater(async () => {
    for (const process of this.#started) process.kill('SIGKILL');
    await Promise.all(this.#started.map((process) => process.exited));
    rmSync(this.folder, { recursive: true, force: true });
  });

  /** The environment without the settings of the shell that runs the tests. */
  environment(env: Record<string, string>): Record<string, string | undefined> {
    const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, undefined]));
    return { ...process.env, ...unset, SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout), ...env };
  }

  command(args: string[]): string[] {
    return [process.execPath, '--no-env-file', main, ...args];
  }

  #spawn(args: string[], env: Record<string, string>) {
    const child = Bun.spawn(this.command(args), {
      cwd: this.folder,
      env: this.environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#started.push(child);
    let [out, err] = ['', ''];
    let wake = () => {};
    const collect = async (stream: ReadableStream<Uint8Array>, add: (text: string) => void) => {
      const decoder = new TextDecoder();
      for await (const bytes of stream) {
        add(decoder.decode(bytes, { stream: true }));
        wake();
      }
    };
    const drained = Promise.all([
      collect(child.stdout, (text) => {
        out += text;
      }),
      collect(child.stderr, (text) => {
        err += text;
      }),
    ]).then(() => wake());

    async function until(pattern: RegExp): Promise<string> {
      for (;;) {
        const match = pattern.exec(out) ?? pattern.exec(err);
        if (match) return match[1] as string;
        if (child.exitCode !== null)
          throw new Error(`the process exited with ${child.exitCode}: ${out}${err}`);
        await Promise.race([new Promise<void>((resolve) => (wake = resolve)), child.exited]);
      }
    }

    return { process: child, out: () => out, err: () => err, drained, until };
  }
}
