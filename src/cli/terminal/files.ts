/** Files that an operator names. */
import {
  accessSync,
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { createExclusively } from '../../store/engine/file-ownership.ts';
import { UsageError } from '../errors.ts';
import { heeding } from './signals.ts';
import { describeSystemError, systemErrorOf } from './system-error.ts';

const feed = 0x0a;
const longestLine = 64 * 1024 * 1024;
const chunkOfLines = 256;

/** The lines of a file, one at a time, however long the file is. */
export async function* readLines(path: string): AsyncGenerator<string> {
  mustBeFile(path);
  let rest = Buffer.alloc(0);
  for await (const chunk of Bun.file(path).stream()) {
    const bytes = Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = bytes.indexOf(feed); end >= 0; end = bytes.indexOf(feed, start)) {
      yield decode(bytes.subarray(start, end));
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (rest.length > longestLine) throw new UsageError(`${path} has a line that is longer than any of ours`);
  }
  if (rest.length > 0) yield decode(rest);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Bytes that are no text make a line that means nothing. */
function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    return '';
  }
}

export function mustBeFile(path: string): void {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file?.isFile()) throw new UsageError(`${path} is ${file ? 'not a file' : 'not there'}`);
  accessSync(path, constants.R_OK);
}

/** A new file that is complete and on disk when this resolves, with its last line, or not there at all. */
export function writeLines(path: string, lines: AsyncIterable<string>): Promise<string> {
  return heeding((heed) => writeEach(path, lines, heed));
}

async function writeEach(
  path: string,
  lines: AsyncIterable<string>,
  heed: () => Promise<void>,
): Promise<string> {
  const file = create(path);
  let last = '';
  try {
    let waiting: string[] = [];
    for await (const line of lines) {
      last = line;
      if (waiting.push(line, '\n') < chunkOfLines) continue;
      writeFileSync(file, waiting.join(''));
      waiting = [];
      await heed();
    }
    writeFileSync(file, waiting.join(''));
    fsyncSync(file);
    syncFolderOf(path);
    return last;
  } catch (error) {
    rmSync(path, { force: true });
    throw describeSystemError(`${path} cannot be written`, error);
  } finally {
    closeSync(file);
  }
}

/** For its owner alone. Refuses what is there already. */
export function create(path: string): number {
  try {
    return createExclusively(path);
  } catch (error) {
    mustBeFree(path);
    throw notMade(path, error);
  }
}

export function notMade(path: string, error: unknown): UsageError {
  const trouble = systemErrorOf(error);
  return new UsageError(
    `${path} cannot be written: ${trouble?.says ?? (error as Error).message}`,
    trouble?.todo,
  );
}

/** Gives a file its name in one step, and never takes that of another. */
export function nameIt(path: string, from: string): void {
  try {
    linkSync(from, path);
  } catch {
    mustBeFree(path);
    // Not every file system has links.
    renameSync(from, path);
  }
}

export function mustBeFree(path: string): void {
  if (!lstatSync(path, { throwIfNoEntry: false })) return;
  throw new UsageError(
    `${path} is there already`,
    'name a file that is not there yet, or move this one away',
  );
}

/** Makes the name of a file as durable as what is in it. */
export function syncFolderOf(path: string): void {
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
