/** A small disk: a file system in memory where that may be mounted, otherwise a limit on what one file may hold. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Context } from '../row.ts';

export interface SmallDisk {
  readonly folder: string;
  /** Put before the command of a process that is to have no more room than this. */
  readonly before: readonly string[];
  /** Takes all the room but this. */
  leave(kilobytes: number): void;
  /** Makes room for that process. */
  grow(pid: number): void;
}

/** Undefined if nothing can be mounted here. */
export function mountDisk(context: Context, folder: string, kilobytes: number): SmallDisk | undefined {
  mkdirSync(folder, { recursive: true });
  if (!succeeds('mount', ['-t', 'tmpfs', '-o', `size=${kilobytes}k`, 'tmpfs', folder])) return undefined;
  context.defer(() => succeeds('umount', ['-l', folder]));
  const grow = () => {
    if (!succeeds('mount', ['-o', 'remount,size=2g', folder])) throw new Error('no more room');
  };
  const leave = (left: number) => {
    const { bfree, bsize } = statfsSync(folder);
    const ballast = Math.max(0, bfree * bsize - left * 1024);
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(ballast));
  };
  return { folder, before: [], leave, grow };
}

/** A write beyond the limit fails, since the signal that would come with it is ignored. */
export function limitFiles(folder: string, kilobytes: number): SmallDisk {
  mkdirSync(folder, { recursive: true });
  const limited = `trap '' XFSZ; ulimit -S -f ${kilobytes}; exec "$@"`;
  return {
    folder,
    leave: () => {},
    before: ['bash', '-c', limited, 'limited'],
    grow: (pid) => {
      if (!succeeds('prlimit', ['--pid', String(pid), '--fsize=unlimited'])) throw new Error('no more room');
    },
  };
}

function succeeds(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
