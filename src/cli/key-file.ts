/** New keys go to a file that nobody else can read. */
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { type Option, UsageError } from './command.ts';

export const keyToOption: Option = {
  name: 'key-to',
  takes: 'FILE',
  sentence: 'Write the new key to this new file, for its owner alone, and do not print it.',
};

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
      writeSync(file, text);
      fsyncSync(file);
      kept = true;
    });
  } finally {
    closeSync(file);
    if (!kept) rmSync(path, { force: true });
  }
}

function create(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new UsageError(`${path}: ${code === 'EEXIST' ? 'is there already' : message}`);
  }
}
