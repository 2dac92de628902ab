/** Appends entries to a file, one JSON object per line. */
import { statSync } from 'node:fs';
import { constants, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { toJsonLines } from './batch.ts';
import { DeliveryError, type Sender } from './sender.ts';

const { O_APPEND, O_CREAT, O_RDWR, O_NONBLOCK } = constants;

/** Returns why a sink cannot write to the path. Undefined if it is a file, does not exist, or cannot be checked. */
export function pathProblem(path: string): string | undefined {
  try {
    const found = statSync(path);
    if (found.isFile()) return undefined;
    return found.isDirectory() ? 'is a folder: it must be a file' : 'is not a regular file';
  } catch {
    return undefined;
  }
}

/** Opens the file for each batch, so that log rotation can move it at any time. */
export function fileSender({ path }: { readonly path: string }): Sender {
  return {
    send: async (batch) => {
      // Without O_NONBLOCK, opening a named pipe would wait for a reader.
      const file = await open(path, O_APPEND | O_CREAT | O_RDWR | O_NONBLOCK, 0o600);
      try {
        const status = await file.stat();
        if (!status.isFile()) throw new DeliveryError(`${path} is not a regular file`);
        const isTorn = status.size > 0 && (await lastByte(file, status.size)) !== newline;
        // After a crash or a full disk the last line may be incomplete. Its batch is written again.
        await file.appendFile((isTorn ? '\n' : '') + toJsonLines(batch));
        await file.sync();
        if (status.size === 0) await syncFolder(dirname(path));
        return {};
      } finally {
        await file.close();
      }
    },
  };
}

const newline = 0x0a;

async function lastByte(file: Awaited<ReturnType<typeof open>>, size: number): Promise<number | undefined> {
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0];
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
