/** Standard input and output of the command line, and the environment. Tests pass their own. */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { escapeJson, escapeLines } from '../../domain/escape.ts';
import { systemErrorOf } from '../errors.ts';

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  write(text: string): void;
  /** Writes to standard output and resolves when the text was written, so that long output does not fill the memory. */
  writeAsync(text: string): Promise<void>;
  /** Writes messages to standard error. */
  writeError(text: string): void;
  readAll(): Promise<string>;
  /** Reads one line, which is not shown if `isSecret`. Resolves with undefined at the end of input. */
  prompt(question: string, isSecret?: boolean): Promise<string | undefined>;
  /** Whether to print messages that only slow work causes: what a command waits for, and its progress. */
  readonly showsDelays: boolean;
  /** The width of the terminal. Undefined if standard output is none. */
  readonly columns?: number | undefined;
  readonly isTty: { readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean };
}

export type Color = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
export type Colorize = (color: Color, text: string) => string;

const codes: Record<Color, readonly [on: number, off: number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
};

/** Matches every sequence that `colorizer` writes. */
const colorCodes = new RegExp(`(\x1b\\[(?:${Object.values(codes).flat().join('|')})m)`);

/** Colors on a terminal, unless NO_COLOR or TERM=dumb is set. */
export function colorizer({ env, isTty }: Terminal): Colorize {
  const plain = !isTty.stdout || Boolean(env.NO_COLOR) || env.TERM === 'dumb';
  if (plain) return (_, text) => text;
  return (color, text) => `\x1b[${codes[color][0]}m${text}\x1b[${codes[color][1]}m`;
}

/** Clears the line of a progress message. */
export const clearLine = '\r\x1b[K';

/**
 * Escapes control characters in all output, because names and log entries come from other people. Does not escape the
 * color codes of `colorizer`, nor what `writeAsync` sends to a pipe for another program.
 */
export function escaping(terminal: Terminal, isJson: boolean): Terminal {
  const { stdout } = terminal.isTty;
  return {
    ...terminal,
    write: (text) => terminal.write(isJson ? escapeJson(text) : escapeColored(text, stdout)),
    writeAsync: (text) => terminal.writeAsync(stdout ? escapeJson(text) : text),
    writeError: (text) => {
      const progress = text.startsWith(clearLine) ? clearLine : '';
      terminal.writeError(progress + escapeLines(text.slice(progress.length)));
    },
    prompt: (question, isSecret) => terminal.prompt(escapeLines(question), isSecret),
  };
}

function escapeColored(text: string, isColored: boolean): string {
  if (!isColored) return escapeLines(text);
  // `colorCodes` has one group, so every second part is a color code.
  return text
    .split(colorCodes)
    .map((part, index) => (index % 2 === 1 ? part : escapeLines(part)))
    .join('');
}

export function processTerminal(): Terminal {
  process.stdout.on('error', exitOnWriteError);
  // Without a handler, a write error on standard error would end the process.
  process.stderr.on('error', () => {});
  return {
    env: process.env,
    write: (text) => process.stdout.write(text),
    writeAsync: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
    writeError: (text) => process.stderr.write(text),
    readAll: () => new Response(Bun.stdin.stream()).text(),
    prompt: async (question, isSecret = false) => {
      // Readline writes to its output what the user types.
      const hidden = new Writable({ write: (_chunk, _encoding, done) => done() });
      const shown = isSecret ? { output: hidden, terminal: true } : { output: process.stderr };
      if (isSecret) process.stderr.write(question);
      const lines = createInterface({ input: process.stdin, ...shown });
      const ended = new Promise<undefined>((resolve) => lines.once('close', () => resolve(undefined)));
      try {
        return await Promise.race([lines.question(question), ended]);
      } finally {
        lines.close();
        if (isSecret) process.stderr.write('\n');
      }
    },
    showsDelays: true,
    columns: process.stdout.columns,
    isTty: {
      stdin: process.stdin.isTTY === true,
      stdout: process.stdout.isTTY === true,
      stderr: process.stderr.isTTY === true,
    },
  };
}

/** A closed pipe, as in `| head`, is success. Any other write error is a failure. */
function exitOnWriteError(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(0);
  const reason = systemErrorOf(error)?.reason ?? error.message;
  writeSync(
    2,
    `sallyport: error: cannot write to standard output: ${reason}\n` +
      'sallyport: hint: the command may have succeeded; check before you run it again\n',
  );
  process.exit(1);
}
