/** Reads the applications and tokens that `sallyport import` copies from a file of JSON lines. */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { findInexactNumber } from '../../domain/number-precision.ts';
import { isObject } from '../../domain/token.ts';
import { type FileLine, readFileLines } from '../../store/engine/line-reader.ts';
import { requireFile } from '../terminal/files.ts';
import type { Kind, Origin, Source, SourceItem, SourceRecord } from './import-source.ts';

interface Line {
  readonly text: string;
  readonly raw: Origin['raw'];
}

/**
 * Reads one object per line. A line with `permissions` or `rules` is an application, any other a token. A line that
 * cannot be read could be either: it is reported when the records of the kind `errorsWith` are read.
 */
export function linesSource(lines: () => AsyncIterable<Line>, errorsWith: Kind): Source {
  async function* read(kind: Kind, stop?: AbortSignal): AsyncGenerator<SourceItem> {
    const places = new Map<string, string>();
    let number = 0;
    for await (const line of lines()) {
      stop?.throwIfAborted();
      const place = `line ${++number}`;
      if (line.text.trim() === '') continue;
      const item = parseLine(line, number);
      if (kind !== ('error' in item ? errorsWith : kindOf(item.record))) continue;
      const earlier = places.get(item.place);
      if (earlier === undefined) yield item;
      else yield { ...item, place, code: 'id_repeated', error: `has the same id as ${earlier}` };
      places.set(item.place, place);
    }
  }
  const total = async (kind: Kind) => {
    let count = 0;
    for await (const _ of read(kind)) count++;
    return count;
  };
  return { read, total };
}

function kindOf(record: SourceRecord): Kind {
  return 'permissions' in record || 'rules' in record ? 'applications' : 'tokens';
}

/** Replaces a line that is not UTF-8. It is not valid JSON, so the line is reported. */
const notUtf8 = '\ufffd';

/** Each call of the result reads the lines from the start. Standard input, `-`, is read once by `readStandard`. */
export function linesOf(path: string, readStandard: () => Promise<string>): () => AsyncIterable<Line> {
  if (path !== '-') return () => fileLines(path);
  let text: Promise<string> | undefined;
  return async function* () {
    text ??= readStandard();
    for (const line of (await text).split('\n'))
      yield { text: line.includes(notUtf8) ? notUtf8 : line, raw: () => line };
  };
}

/** `readFileLines` returns an empty text for a line that is not UTF-8. Its length in bytes shows the difference. */
async function* fileLines(path: string): AsyncGenerator<Line> {
  requireFile(path);
  const toLine = ({ text, start }: FileLine, end: number): Line =>
    text === '' && end > start
      ? { text: notUtf8, raw: () => readBytes(path, start, end) }
      : { text, raw: () => text };
  let previous: FileLine | undefined;
  for await (const line of readFileLines(path)) {
    if (previous) yield toLine(previous, line.start - 1);
    previous = line;
  }
  if (previous) yield toLine(previous, statSync(path).size);
}

function readBytes(path: string, start: number, end: number): Uint8Array {
  const bytes = Buffer.alloc(end - start);
  const file = openSync(path, 'r');
  try {
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, start));
  } finally {
    closeSync(file);
  }
}

function parseLine({ text, raw }: Line, line: number): SourceItem {
  const json = text.replace(/^\ufeff/, '');
  const place = `line ${line}`;
  let record: unknown;
  try {
    record = JSON.parse(json);
  } catch {
    return { place, line, raw, code: 'invalid_json', error: 'is not valid JSON in UTF-8' };
  }
  if (!isObject(record)) return { place, line, raw, code: 'invalid_json', error: 'is not a JSON object' };
  const origin =
    typeof record.id === 'string' ? { place: record.id, id: record.id, line, raw } : { place, line, raw };
  const inexact = findInexactNumber(json);
  if (inexact === undefined) return { ...origin, record };
  const error = `${inexact} is a number with too many digits: write it as a string`;
  return { ...origin, code: 'inexact_number', error };
}
