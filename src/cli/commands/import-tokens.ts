/** `sallyport tokens import`: creates tokens from a file of JSON lines, in batches. */
import { statSync } from 'node:fs';
import { ConflictError, type TokenCreate } from '../../../sdk/src/sallyport.ts';
import { refusedLine, tokenOfLine } from '../../domain/import-line.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { newLines, readLines, requireFile } from '../terminal/files.ts';
import { fields, progressBar, showProgress } from '../terminal/print.ts';
import { stoppable } from '../terminal/signals.ts';

export const importCommand: RemoteCommand = {
  usage: 'tokens import <FILE>',
  options: [option('rejected FILE', 'Write the lines that were refused, with the reason, to this new file.')],
  summary: 'Create tokens from a file with one token per line.',
  details:
    'Each line is a JSON object with the fields of `POST /tokens`, and an `id` or `unless_exists`, so that the import can be repeated: tokens that exist are skipped. FILE is - for standard input. The tokens are sent in batches of 100. One that is refused does not stop the others. A file that --rejected has written can be corrected and imported. Exits with 1 if a line was refused.',
  examples: ['sallyport tokens import cards.jsonl --rejected rejected.jsonl'],
  call: importTokens,
};

/** A line of the file. `end` is its last byte. */
interface Line {
  readonly text: string;
  readonly number: number;
  readonly end: number;
}

interface Refused {
  readonly line: number;
  readonly code: string;
  readonly error: string;
}

/** Limits the printed lines. With --json, all are listed. */
const maxPrinted = 20;

async function importTokens(call: Call): Promise<number> {
  const { args, options, terminal, service } = call;
  const path = args[0] as string;
  const rejectedPath = options.value('rejected');
  const rejected = rejectedPath === undefined ? undefined : newLines(rejectedPath);
  const size = path === '-' ? undefined : sizeOf(path);
  const progress = showProgress(terminal);
  const counts = { read: 0, created: 0, existing: 0 };
  const refused: Refused[] = [];
  const lines = new Map<TokenCreate, Line>();

  function refuse({ text, number }: Line, code: string, error: string): void {
    refused.push({ line: number, code, error });
    rejected?.write(refusedLine(number, code, error, text));
  }

  async function* bodies(stop: AbortSignal): AsyncGenerator<TokenCreate> {
    for await (const line of linesOf(call, path)) {
      stop.throwIfAborted();
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
    const interrupted = await stoppable(
      async (stop) => {
        for await (const { body, error } of service.tokens.createMany(bodies(stop))) {
          const line = lines.get(body) as Line;
          lines.delete(body);
          if (!error) counts.created++;
          else if (error instanceof ConflictError && error.code === 'token_exists') counts.existing++;
          else refuse(line, error.code, error.message);
          progress.update(
            progressBar(
              size === undefined ? 'lines' : 'bytes',
              size === undefined ? line.number : line.end,
              size,
            ),
          );
        }
      },
      () => terminal.writeError('sallyport: warning: interrupted; waiting for the batch in progress\n'),
    );
    progress.clear();
    for (const { line, error } of refused.slice(0, maxPrinted))
      terminal.writeError(`sallyport: warning: line ${line} ${error}\n`);
    if (refused.length > maxPrinted)
      terminal.writeError(`sallyport: warning: ${refused.length - maxPrinted} more lines were refused\n`);
    const result = { ...counts, refused, interrupted: interrupted !== undefined };
    const text = fields([
      ['read', String(counts.read)],
      ['created', String(counts.created)],
      ['existing', String(counts.existing)],
      ['refused', String(refused.length)],
    ]);
    return call.printResult(result, text, interrupted?.exitCode ?? (refused.length > 0 ? 1 : 0));
  } finally {
    progress.clear();
    rejected?.close();
  }
}

function sizeOf(path: string): number {
  requireFile(path);
  return statSync(path).size;
}

async function* linesOf({ input }: Call, path: string): AsyncGenerator<Line> {
  let number = 0;
  if (path !== '-') {
    for await (const line of readLines(path)) yield { ...line, number: ++number };
    return;
  }
  for (const text of (await input.standard('-')).split('\n')) yield { text, number: ++number, end: 0 };
}
