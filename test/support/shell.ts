/** Runs a command of the command line in this process. */
import { run } from '../../src/cli/run.ts';

export interface ShellOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly stdin?: string;
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
  { env = {}, stdin = '', answers }: ShellOptions = {},
): Promise<ShellResult> {
  const isTty = answers !== undefined;
  const lines = [...(answers ?? [])];
  let [out, err] = ['', ''];
  const code = await run(argv, {
    env,
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
    isTty: { stdin: isTty, stdout: isTty, stderr: isTty },
  });
  return { code, out, err };
}
