/** Prints lists, tables and the progress of long work. */
import { escapeText } from '../../domain/escape.ts';
import { type Call, type Context, option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { clearLine, type Terminal } from './terminal.ts';

const defaultLimit = 100;

export const limitOption = option(
  'limit NUMBER',
  `Maximum number of entries, or "all". Default: ${defaultLimit}.`,
);

interface Columns<T> {
  /** In the plural, for the message about an empty list. */
  readonly noun: string;
  readonly head: readonly string[];
  /** Loads other data that the rows need, such as names. Not called with --json. */
  readonly load?: (entries: readonly T[]) => Promise<void>;
  readonly row: (entry: T) => readonly string[];
}

/** Reads all entries before it prints any, so that a failure never leaves half a list on standard output. */
export async function printList<T>(
  call: Call,
  entries: AsyncIterable<T>,
  { noun, head, load, row }: Columns<T>,
): Promise<number> {
  const { options, json, print, terminal } = call;
  const limit = parseLimit(options.value('limit'));
  const { read, more } = await readUpTo(limit, entries, terminal);
  if (json) print(`[${read.map((entry) => JSON.stringify(entry)).join(',\n')}]`);
  else {
    await load?.(read);
    printRows(call, noun, head, read.map(row));
  }
  if (more)
    terminal.writeError(
      `sallyport: hint: only the first ${read.length} are listed; pass --limit all to list all\n`,
    );
  return 0;
}

async function readUpTo<T>(
  limit: number,
  entries: AsyncIterable<T>,
  terminal: Terminal,
): Promise<{ read: T[]; more: boolean }> {
  const progress = showProgress(terminal);
  const read: T[] = [];
  try {
    for await (const entry of entries) {
      if (read.length === limit) return { read, more: true };
      read.push(entry);
      progress.update(`${read.length} read`);
    }
    return { read, more: false };
  } finally {
    progress.clear();
  }
}

/** For a table that was read completely. */
export const rowsOption = option('limit NUMBER', 'Maximum number of rows. Default: all. --json prints all.');

/** Prints a list that was read completely: `values` with --json, otherwise the rows. Returns the exit code. */
export function printTable(
  context: Context,
  values: unknown,
  noun: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): number {
  if (context.json) context.print(JSON.stringify(values));
  else {
    const limit = parseLimit(context.options.value(rowsOption.name) ?? 'all');
    printRows(context, noun, head, rows.slice(0, limit));
    if (rows.length > limit)
      context.terminal.writeError(`sallyport: hint: ${rows.length - limit} more rows are not listed\n`);
  }
  return 0;
}

/** Reports an empty list on standard error, so that a pipe gets no rows. */
function printRows(
  { print, colorize, terminal, wide }: Context,
  noun: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  if (rows.length === 0) {
    terminal.writeError(`No ${noun} found.\n`);
    return;
  }
  const escaped = rows.map((row) => row.map(escapeText));
  const whole = columnWidths([head, ...escaped]);
  const widths = wide ? whole : fitted(whole, escaped, terminal.columns ?? Number.POSITIVE_INFINITY);
  const lines = escaped.map((row) =>
    inColumns(
      row.map((cell, column) => cut(cell, widths[column])),
      widths,
    ),
  );
  print([colorize('dim', inColumns(head, widths)), ...lines].join('\n'));
}

const minWidth = 10;
const idPattern = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$/;

/** Narrows the widest columns until a line fits. Ids are not cut, because they are copied. */
function fitted(widths: readonly number[], rows: readonly (readonly string[])[], columns: number): number[] {
  const narrowed = [...widths];
  const areIds = widths.map((_, column) => rows.every((row) => idPattern.test(row[column] ?? '')));
  const total = () => narrowed.reduce((sum, width) => sum + width + 2, -2);
  while (total() > columns) {
    const candidates = narrowed.map((width, column) => (areIds[column] || width <= minWidth ? 0 : width));
    const widest = Math.max(...candidates);
    if (widest === 0) break;
    narrowed[candidates.indexOf(widest)] = widest - 1;
  }
  return narrowed;
}

function cut(cell: string, width = 0): string {
  if (Bun.stringWidth(cell) <= width) return cell;
  const parts = [...new Intl.Segmenter().segment(cell)].map(({ segment }) => segment);
  while (parts.length > 0 && Bun.stringWidth(parts.join('')) > width - 1) parts.pop();
  return `${parts.join('')}…`;
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return defaultLimit;
  if (text === 'all') return Number.POSITIVE_INFINITY;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--limit must be a whole number from 1, or "all", not "${text}"`);
}

/** Milliseconds between two messages on a terminal, and between two lines elsewhere. */
const [progressInterval, lineInterval] = [500, 5000];

/**
 * Shows the progress of long work on a terminal, in one line that changes. With `lines`, prints a line every few seconds
 * if standard error is not a terminal.
 */
export function showProgress(
  { writeError, showsDelays, isTty }: Pick<Terminal, 'writeError' | 'showsDelays' | 'isTty'>,
  { lines = false, now = () => performance.now() } = {},
) {
  const interval = isTty.stderr ? progressInterval : lineInterval;
  const isShown = showsDelays && (isTty.stderr || lines);
  let next = now() + interval;
  let visible = false;
  return {
    update(text: string): void {
      if (!isShown || now() < next) return;
      next = now() + interval;
      visible = isTty.stderr;
      writeError(visible ? clearLine + text : `${text}\n`);
    },
    clear(): void {
      if (visible) writeError(clearLine);
      visible = false;
    },
  };
}

const barWidth = 20;

/** Such as `tokens [##########          ] 600 of 1200 (50 %)`, or only the count without a total. */
export function progressBar(noun: string, done: number, total: number | undefined): string {
  if (total === undefined || total === 0) return `${noun}: ${done}`;
  const share = Math.min(1, done / total);
  const bar = '#'.repeat(Math.floor(share * barWidth)).padEnd(barWidth);
  return `${noun} [${bar}] ${done} of ${total} (${Math.floor(share * 100)} %)`;
}

/** One "name  value" line per pair. Omits pairs with an empty value. */
export function fields(pairs: readonly (readonly [name: string, value: string | undefined])[]): string {
  const present = pairs.filter(([, value]) => value !== undefined && value !== '');
  const width = Math.max(...present.map(([name]) => name.length));
  return present.map(([name, value]) => `${name.padEnd(width)}  ${escapeText(value as string)}`).join('\n');
}

export function columnWidths(rows: readonly (readonly string[])[]): number[] {
  return (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => Bun.stringWidth(row[column] ?? ''))),
  );
}

export function inColumns(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, column) => cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(cell))))
    .join('  ')
    .trimEnd();
}
