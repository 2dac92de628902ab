/** Printing lists: one page after the other, up to --limit. */
import type { Call, Option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { table } from './table.ts';
import { clearLine } from './terminal.ts';

const defaultLimit = 100;

export const limitOption: Option = {
  name: 'limit',
  value: 'NUMBER',
  description: `Maximum number of entries, or "all". Default: ${defaultLimit}.`,
};

interface Columns<T> {
  /** In the plural, for the message about an empty list. */
  readonly noun: string;
  readonly head: readonly string[];
  readonly row: (entry: T) => readonly string[];
}

/** JSON is written entry by entry; a table is printed when all rows are known. */
export async function printList<T>(
  call: Call,
  entries: AsyncIterable<T>,
  { noun, head, row }: Columns<T>,
): Promise<number> {
  const { options, json, terminal } = call;
  const limit = parseLimit(options.value('limit'));
  const progress = showProgress(terminal);
  const rows: (readonly string[])[] = [];
  let count = 0;
  let more = false;
  if (json) terminal.write('[');
  for await (const entry of entries) {
    if (count === limit) {
      more = true;
      break;
    }
    if (json) terminal.write(`${count > 0 ? ',\n' : ''}${JSON.stringify(entry)}`);
    else rows.push(row(entry));
    progress.update(`${++count} read`);
  }
  progress.clear();
  if (json) terminal.write(']\n');
  else printTable(call, noun, head, rows);
  if (more)
    terminal.writeError(
      `sallyport: hint: only the first ${count} are listed; pass --limit all to list all\n`,
    );
  return 0;
}

/** An empty list is a message on standard error, so that a pipe gets no rows. */
export function printTable(
  { print, colorize, terminal }: Pick<Call, 'print' | 'colorize' | 'terminal'>,
  noun: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  if (rows.length > 0) print(table(head, rows, colorize));
  else terminal.writeError(`No ${noun} found.\n`);
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return defaultLimit;
  if (text === 'all') return Number.POSITIVE_INFINITY;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--limit must be a whole number from 1, or "all", not "${text}"`);
}

/** Shows the progress of long work on a terminal, at most twice a second. */
export function showProgress({ writeError, isTty }: Call['terminal']) {
  const interval = 500;
  let next = performance.now() + interval;
  let visible = false;
  return {
    update(text: string): void {
      if (!isTty.stderr || performance.now() < next) return;
      next = performance.now() + interval;
      visible = true;
      writeError(clearLine + text);
    },
    clear(): void {
      if (visible) writeError(clearLine);
    },
  };
}
