/** New keys go to a file that nobody else can read. */
import { closeSync, fsyncSync, rmSync, writeSync } from 'node:fs';
import type { Call, Option } from '../command.ts';
import { create, syncFolderOf } from './files.ts';
import { describeSystemError } from './system-error.ts';

export const keyToOption: Option = {
  name: 'key-to',
  takes: 'FILE',
  sentence: 'Write the key to this new file (mode 0600) instead of printing it.',
};

/** Puts the key of what is made into the file that was named for it, which `show` is told then. */
export async function withKey<T extends { key: string }>(
  { options }: Call,
  make: () => Promise<T>,
  show: (made: T | Omit<T, 'key'>, keyFile?: string) => number,
): Promise<number> {
  const path = options.value('key-to');
  if (path === undefined) return show(await make());
  return withNewFile(path, async (keep) => {
    const { key, ...made } = await make();
    keep(`${key}\n`);
    return show(made, path);
  });
}

/**
 * Makes the file before there is a key to lose. `keep` puts the text into it; work that fails before that
 * leaves no file behind.
 */
export async function withNewFile<T>(
  path: string,
  work: (keep: (text: string) => void) => Promise<T>,
): Promise<T> {
  const file = create(path);
  let kept = false;
  try {
    return await work((text) => {
      try {
        writeSync(file, text);
        fsyncSync(file);
        syncFolderOf(path);
      } catch (error) {
        throw describeSystemError(`${path} cannot be written`, error);
      }
      kept = true;
    });
  } finally {
    closeSync(file);
    if (!kept) rmSync(path, { force: true });
  }
}
