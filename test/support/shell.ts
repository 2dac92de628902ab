/** Runs a command of the command line in this process. */
import { expect } from 'bun:test';
import { run } from '../../src/cli/run.ts';
import { fewConnections, generousTimeout } from './test-server.ts';

export interface ShellOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly stdin?: string;
  /** The width of the terminal. */
  readonly columns?: number;
  /** Lines typed at prompts, or functions that return them. If present, input and output are a terminal. */
  readonly answers?: readonly (string | (() => Promise<string>))[];
}

export interface ShellResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function shell(
  argv: readonly string[],
  { env = {}, stdin = '', answers, columns }: ShellOptions = {},
): Promise<ShellResult> {
  const isTty = answers !== undefined;
  const lines = [...(answers ?? [])];
  let [out, err] = ['', ''];
  const code = await run(argv, {
    env: {
      SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout),
      SALLYPORT_DATABASE_CONNECTIONS: String(fewConnections),
      ...env,
    },
    write: (text) => {
      out += text;
    },
    writeAsync: async (text) => {
      out += text;
    },
    writeError: (text) => {
      err += text;
    },
    readAll: async () => stdin,
    prompt: async (question) => {
      err += question;
      const line = lines.shift();
      return typeof line === 'function' ? line() : line;
    },
    // Otherwise the output would depend on the load of the machine.
    showsDelays: false,
    columns,
    isTty: { stdin: isTty, stdout: isTty, stderr: isTty },
  });
  return { code, out, err };
}

export interface ApiShell {
  call(argv: readonly string[], options?: ShellOptions): Promise<ShellResult>;
  /** Runs with `--json` and parses the output. The command must succeed without messages. */
  // biome-ignore lint/suspicious/noExplicitAny: tests check the shape themselves
  json(argv: readonly string[], options?: ShellOptions): Promise<any>;
}

/** Runs API commands with this service and key. `env` of a call overrides both. */
export function apiShell(url: string, key: string): ApiShell {
  const call: ApiShell['call'] = (argv, { env, ...rest } = {}) =>
    shell(argv, { env: { SALLYPORT_URL: url, SALLYPORT_KEY: key, ...env }, ...rest });
  return {
    call,
    json: async (argv, options) => {
      const { code, out, err } = await call([...argv, '--json'], options);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      return JSON.parse(out);
    },
  };
}
