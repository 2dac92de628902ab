/** Reads and writes files of the user. New files are readable only by their owner. */
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  lstatSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { readFileLines } from '../../db/line-reader.ts';
import { syncFolderOf, writeFileLines } from '../../db/line-writer.ts';
import { copyOwnership, createExclusively, pathWithoutLinks } from '../../db/sqlite/file-ownership.ts';
import { type Call, option } from '../command.ts';
import { describeSystemError, systemErrorOf, UsageError } from '../errors.ts';
import { interruptible } from './signals.ts';

export function requireFile(path: string): void {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file?.isFile())
    throw new UsageError(`${path} ${file ? 'is not a file' : 'does not exist'}`, 'check the path');
  accessSync(path, constants.R_OK);
}

/** The lines of a file, with the position of their end. One that is not UTF-8 is replaced by text that is not JSON. */
export async function* readLines(path: string): AsyncGenerator<{ text: string; end: number }> {
  let previous: { readonly text: string; readonly start: number } | undefined;
  // `readFileLines` returns an empty text for a line that is not UTF-8.
  const ended = ({ text, start }: NonNullable<typeof previous>, end: number) => ({
    text: text === '' && end > start ? '\ufffd' : text,
    end,
  });
  for await (const line of readFileLines(path)) {
    if (previous) yield ended(previous, line.start - 1);
    previous = line;
  }
  if (previous) yield ended(previous, statSync(path).size);
}

/** Writes a new file and flushes it to disk. Removes the file if anything fails. */
export function writeLines(path: string, lines: AsyncIterable<string>): Promise<void> {
  return interruptible(async (checkInterrupted) => {
    const file = createFile(path);
    try {
      await writeFileLines(file, lines, checkInterrupted);
      syncFolderOf(path);
    } catch (error) {
      rmSync(path, { force: true });
      throw describeSystemError(`cannot write ${path}`, error);
    } finally {
      closeSync(file);
    }
  });
}

export interface NewLines {
  readonly path: string;
  write(line: string | Uint8Array): void;
  /** Flushes the lines to disk. Returns their number. */
  close(): number;
}

/** A new file that is created with its first line. Throws UsageError if it exists or its folder cannot be written. */
export function newLines(path: string): NewLines {
  requireUnused(path);
  try {
    accessSync(dirname(path), constants.W_OK);
  } catch (error) {
    throw writeError(path, error);
  }
  let file: number | undefined;
  let count = 0;
  return {
    path,
    write: (line) => {
      file ??= createFile(path);
      try {
        writeFileSync(file, Buffer.concat([Buffer.from(line), Buffer.from('\n')]));
      } catch (error) {
        throw describeSystemError(`cannot write ${path}`, error);
      }
      count++;
    },
    close: () => {
      if (file === undefined) return 0;
      fsyncSync(file);
      closeSync(file);
      file = undefined;
      syncFolderOf(path);
      return count;
    },
  };
}

/** Creates a file that only its owner can read. Throws UsageError if the path exists. */
export function createFile(path: string): number {
  try {
    return createExclusively(path);
  } catch (error) {
    requireUnused(path);
    throw writeError(path, error);
  }
}

export function writeError(path: string, error: unknown): UsageError {
  const known = systemErrorOf(error);
  return new UsageError(`cannot write ${path}: ${known?.reason ?? (error as Error).message}`, known?.hint);
}

/** Gives a file another name with a hard link. The caller deletes `from`. Throws UsageError if `path` exists. */
export function linkExclusively(path: string, from: string): void {
  try {
    linkSync(from, path);
  } catch {
    requireUnused(path);
    // The file system may not support hard links.
    renameSync(from, path);
  }
}

export function requireUnused(path: string): void {
  if (!lstatSync(path, { throwIfNoEntry: false })) return;
  throw new UsageError(`${path} already exists`, 'choose another file name, or move the existing file away');
}

export const keyToOption = option(
  'key-to FILE',
  'Write the key to this new file (mode 0600) instead of printing it.',
);

/** Creates something with a key. With `--key-to`, the key is written to that file, and `show` gets the file name. */
export async function withKey<T extends { key: string }>(
  call: Call,
  create: () => Promise<T>,
  show: (call: Call, created: T | Omit<T, 'key'>, keyFile?: string) => number,
): Promise<number> {
  const path = call.options.value('key-to');
  if (path === undefined) return show(call, await create());
  return withNewFile(path, async (write) => {
    const { key, ...created } = await create();
    write(`${key}\n`);
    return show(call, created, path);
  });
}

/**
 * Creates the file before `work` creates a key, so that a key is never lost to an unwritable path. Removes the file if
 * `work` fails before it calls `write`.
 */
export async function withNewFile<T>(
  path: string,
  work: (write: (text: string) => void) => Promise<T>,
): Promise<T> {
  const file = createFile(path);
  let written = false;
  try {
    return await work((text) => {
      try {
        writeSync(file, text);
        fsyncSync(file);
        syncFolderOf(path);
      } catch (error) {
        throw describeSystemError(`cannot write ${path}`, error);
      }
      written = true;
    });
  } finally {
    closeSync(file);
    if (!written) rmSync(path, { force: true });
  }
}

/**
 * Replaces an existing file atomically with the text that `work` writes. The owner stays the same. The mode does, too,
 * unless `mode` is given. If `work` fails before it writes, the file is unchanged.
 */
export async function withReplacedFile<T>(
  path: string,
  work: (write: (text: string) => void) => Promise<T>,
  mode?: number,
): Promise<T> {
  const target = pathWithoutLinks(path);
  const temporary = `${target}.${process.pid}.tmp`;
  return withNewFile(temporary, (write) =>
    work((text) => {
      write(text);
      try {
        copyOwnership(target, temporary);
        if (mode !== undefined) chmodSync(temporary, mode);
        renameSync(temporary, target);
        syncFolderOf(target);
      } catch (error) {
        rmSync(temporary, { force: true });
        throw describeSystemError(`cannot write ${path}`, error);
      }
    }),
  );
}
