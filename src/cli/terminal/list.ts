/** Lists: as many entries as are wanted, page after page. */
import type { Call, Option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { table } from './table.ts';
import { clearLine } from './terminal.ts';

const usual = 100;

export const limitOption: Option = {
  name: 'limit',
  takes: 'NUMBER',
  sentence: `Maximum number of entries, or all; default ${usual}.`,
};

interface Listing<T> {
  readonly head: readonly string[];
  readonly row: (entry: T) => readonly string[];
}

/** As JSON, entries are written as they come; a table waits for all of them. */
export async function printList<T>(
  { options, json, paint, print, terminal }: Call,
  entries: AsyncIterable<T>,
  { head, row }: Listing<T>,
): Promise<number> {
  const limit = limitOf(options.value('limit'));
  const seen = progress(terminal);
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
    seen.say(`${++count} so far`);
  }
  seen.done();
  if (json) terminal.write(']\n');
  else print(rows.length > 0 ? table(head, rows, paint) : 'none');
  if (more) terminal.note(`sallyport: hint: there are more than these ${count}: --limit all shows them\n`);
  return 0;
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return usual;
  if (text === 'all') return Number.POSITIVE_INFINITY;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--limit must be a whole number from 1, or all, not "${text}"`);
}

/** How far long work has come, for a person who waits. */
export function progress({ note, person }: Call['terminal']) {
  const pause = 500;
  let next = performance.now() + pause;
  let shown = false;
  return {
    say(text: string): void {
      if (!person.watches || performance.now() < next) return;
      next = performance.now() + pause;
      shown = true;
      note(clearLine + text);
    },
    done(): void {
      if (shown) note(clearLine);
    },
  };
}
