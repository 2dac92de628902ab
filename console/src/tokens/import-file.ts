/** Creates the tokens of a file with one token per line. */
import type { Sallyport, TokenCreate } from '../../../sdk/src/sallyport.ts';
import { refusedLine, tokenOfLine } from '../../../src/domain/import-line.ts';

/** `text` is the line of the file with refused lines, which has the reason. */
export interface Refused {
  readonly line: number;
  readonly code: string;
  readonly text: string;
}

export interface Import {
  readonly read: number;
  readonly created: number;
  readonly existing: number;
  readonly refused: readonly Refused[];
  /** Which part of the file is done, from 0 to 1. */
  readonly done: number;
}

interface Line {
  readonly text: string;
  readonly number: number;
  readonly end: number;
}

/** Calls `update` after each result. Throws after `signal` is aborted and the batch in progress has ended. */
export async function importFile(
  api: Sallyport,
  file: File,
  signal: AbortSignal,
  update: (progress: Import) => void,
): Promise<void> {
  const counts = { read: 0, created: 0, existing: 0, done: 0 };
  const refused: Refused[] = [];
  const lines = new Map<TokenCreate, Line>();
  const refuse = ({ text, number }: Line, code: string, error: string) =>
    refused.push({ line: number, code, text: refusedLine(number, code, error, text) });

  async function* bodies(): AsyncGenerator<TokenCreate> {
    for await (const line of linesOf(file)) {
      signal.throwIfAborted();
      if (line.text.trim() === '') continue;
      counts.read++;
      const body = tokenOfLine<TokenCreate>(line.text);
      if ('error' in body) refuse(line, body.code, body.error);
      else {
        lines.set(body.token, line);
        yield body.token;
      }
    }
  }

  try {
    for await (const { body, error } of api.tokens.createMany(bodies())) {
      const line = lines.get(body) as Line;
      lines.delete(body);
      if (!error) counts.created++;
      else if (error.code === 'token_exists') counts.existing++;
      else refuse(line, error.code, error.message);
      counts.done = line.end / file.size;
      update({ ...counts, refused });
    }
    counts.done = 1;
  } finally {
    update({ ...counts, refused: refused.toSorted((a, b) => a.line - b.line) });
  }
}

/** The text of a line that is not UTF-8 is no JSON, so that no other data than that of the file is stored. */
function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return '\ufffd';
  }
}

async function* linesOf(file: File): AsyncGenerator<Line> {
  const reader = file.stream().getReader();
  let rest = new Uint8Array();
  let [number, end] = [0, 0];
  const lineOf = (bytes: Uint8Array): Line => {
    end += bytes.length + 1;
    return { text: textOf(bytes), number: ++number, end: Math.min(end, file.size) };
  };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const bytes = new Uint8Array(rest.length + value.length);
    bytes.set(rest);
    bytes.set(value, rest.length);
    let from = 0;
    for (let at = bytes.indexOf(10, rest.length); at >= 0; at = bytes.indexOf(10, from)) {
      yield lineOf(bytes.subarray(from, at));
      from = at + 1;
    }
    rest = bytes.slice(from);
  }
  if (rest.length > 0) yield lineOf(rest);
}
