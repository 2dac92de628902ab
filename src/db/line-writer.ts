/** Writes the lines of large files. */
import { closeSync, fsyncSync, openSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Lines per write. */
const chunkSize = 128;

/** Writes lines to an open file and flushes it to disk. Calls `between` regularly, which may throw to stop. */
export async function writeFileLines(
  file: number,
  lines: AsyncIterable<string>,
  between: () => Promise<void>,
): Promise<void> {
  let buffer: string[] = [];
  for await (const line of lines) {
    if (buffer.push(`${line}\n`) < chunkSize) continue;
    writeFileSync(file, buffer.join(''));
    buffer = [];
    await between();
  }
  writeFileSync(file, buffer.join(''));
  fsyncSync(file);
}

/** Flushes the folder of a file, so that the new name of the file survives a power loss. */
export function syncFolderOf(path: string): void {
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
