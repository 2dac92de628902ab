/** Writes new keys to files that only their owner can read. */
import { closeSync, fsyncSync, rmSync, writeSync } from 'node:fs';
import type { Call, Option } from '../command.ts';
import { createFile, syncFolderOf } from './files.ts';
import { describeSystemError } from './system-error.ts';

export const keyToOption: Option = {
  name: 'key-to',
  value: 'FILE',
  description: 'Write the key to this new file (mode 0600) instead of printing it.',
};

/** Creates something with a key. With `--key-to`, the key goes to that file and `show` gets the file name instead. */
export async function withKey<T extends { key: string }>(
  { options }: Call,
  create: () => Promise<T>,
  show: (created: T | Omit<T, 'key'>, keyFile?: string) => number,
): Promise<number> {
  const path = options.value('key-to');
  if (path === undefined) return show(await create());
  return withNewFile(path, async (write) => {
    const { key, ...created } = await create();
    write(`${key}\n`);
    return show(created, path);
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
