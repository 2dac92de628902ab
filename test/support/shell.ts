/** The command line in this process, between pipes or before a person. */
import { run } from '../../src/cli/run.ts';

export interface Surroundings {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly stdin?: string;
  /** What a person types, line by line, or does before; with it, a person sits there. */
  readonly person?: readonly (string | (() => Promise<string>))[];
}

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function shell(
  argv: readonly string[],
  { env = {}, stdin = '', person }: Surroundings = {},
): Promise<Said> {
  const here = person !== undefined;
  const lines = [...(person ?? [])];
  let [out, err] = ['', ''];
  const code = await run(argv, {
    env,
    write: (text) => {
      out += text;
    },
    pour: async (text) => {
      out += text;
    },
    note: (text) => {
      err += text;
    },
    read: async () => stdin,
    ask: async (question) => {
      err += question;
      const line = lines.shift();
      return typeof line === 'function' ? line() : line;
    },
    person: { types: here, reads: here, watches: here },
  });
  return { code, out, err };
}
