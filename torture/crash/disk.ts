/** A small disk: a tmpfs if it can be mounted, otherwise a file size limit. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Context } from '../row.ts';

export interface SmallDisk {
  readonly folder: string;
  /** Command prefix for a process that is limited to this disk. */
  readonly before: readonly string[];
  /** Fills the disk except for this many kilobytes. */
  leave(kilobytes: number): void;
  /** Frees space for the process. */
  grow(pid: number): void;
}

/** Returns undefined if mounting is not allowed. */
export function mountDisk(context: Context, folder: string, kilobytes: number): SmallDisk | undefined {
  mkdirSync(folder, { recursive: true });
  if (!succeeds('mount', ['-t', 'tmpfs', '-o', `size=${kilobytes}k`, 'tmpfs', folder])) return undefined;
  context.defer(() => succeeds('umount', ['-l', folder]));
  const grow = () => {
    if (!succeeds('mount', ['-o', 'remount,size=2g', folder]))
      throw new Error('the limit could not be raised');
  };
  const leave = (left: number) => {
    const { bfree, bsize } = statfsSync(folder);
    const ballast = Math.max(0, bfree * bsize - left * 1024);
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(ballast));
  };
  return { folder, before: [], leave, grow };
}

/** Ignores SIGXFSZ, so that writes beyond the limit fail with an error. */
export function limitFiles(folder: string, kilobytes: number): SmallDisk {
  mkdirSync(folder, { recursive: true });
  const limited = `trap '' XFSZ; ulimit -S -f ${kilobytes}; exec "$@"`;
  return {
    folder,
    leave: () => {},
    before: ['bash', '-c', limited, 'limited'],
    grow: (pid) => {
      if (!succeeds('prlimit', ['--pid', String(pid), '--fsize=unlimited']))
        throw new Error('the limit could not be raised');
    },
  };
}

function succeeds(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
