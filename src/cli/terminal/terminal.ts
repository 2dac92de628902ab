/** What the command line stands in: where it reads and writes, and where a person sits. */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { escapeJson, escapeLines } from '../../domain/escape.ts';
import { colours } from './colors.ts';
import { systemErrorOf } from './system-error.ts';

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Data, on standard output. */
  write(text: string): void;
  /** The same for more than fits into memory: resolves when whoever reads it has taken it. */
  pour(text: string): Promise<void>;
  /** What is not data, on standard error. */
  note(text: string): void;
  /** All of standard input. */
  read(): Promise<string>;
  /** One line that a person types; nothing if there is no more. */
  ask(question: string): Promise<string | undefined>;
  /** Whether a person types the input, reads the output, and reads the notes. */
  readonly person: { readonly types: boolean; readonly reads: boolean; readonly watches: boolean };
}

/** Clears the line that a progress message was written on. */
export const clearLine = '\r\x1b[K';

/**
 * The same terminal with control characters escaped, whoever wrote the text. Only the colours of `paint` pass, and
 * what `pour` writes to a pipe, which is data for a program.
 */
export function escaping(terminal: Terminal, isJson: boolean): Terminal {
  const { person } = terminal;
  return {
    ...terminal,
    write: (text) => terminal.write(isJson ? escapeJson(text) : escapePainted(text, person.reads)),
    pour: (text) => terminal.pour(person.reads ? escapeJson(text) : text),
    note: (text) => {
      const progress = text.startsWith(clearLine) ? clearLine : '';
      terminal.note(progress + escapeLines(text.slice(progress.length)));
    },
    ask: (question) => terminal.ask(escapeLines(question)),
  };
}

function escapePainted(text: string, isPainted: boolean): string {
  if (!isPainted) return escapeLines(text);
  // Every second part is a colour.
  return text
    .split(colours)
    .map((part, index) => (index % 2 === 1 ? part : escapeLines(part)))
    .join('');
}

export function processTerminal(): Terminal {
  process.stdout.on('error', stop);
  process.stderr.on('error', nowhereToSay);
  return {
    env: process.env,
    write: (text) => process.stdout.write(text),
    pour: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
    note: (text) => process.stderr.write(text),
    read: () => new Response(Bun.stdin.stream()).text(),
    ask: async (question) => {
      const lines = createInterface({ input: process.stdin, output: process.stderr });
      const ended = new Promise<undefined>((resolve) => lines.once('close', () => resolve(undefined)));
      try {
        return await Promise.race([lines.question(question), ended]);
      } finally {
        lines.close();
      }
    },
    person: {
      types: process.stdin.isTTY === true,
      reads: process.stdout.isTTY === true,
      watches: process.stderr.isTTY === true,
    },
  };
}

/** What cannot be told there can be told nowhere, and is no reason to fail. */
function nowhereToSay(): void {}

/** Whoever read the output has seen enough; or it could not be written, which must not pass for success. */
function stop(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(0);
  const says = systemErrorOf(error)?.says ?? error.message;
  writeSync(
    2,
    `sallyport: error: standard output cannot be written: ${says}\n` +
      'sallyport: hint: what was asked for may be done all the same: look before you ask again\n',
  );
  process.exit(1);
}
