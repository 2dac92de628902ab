/** Small and read-only file systems. Only root can mount them. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMissing } from './skip.ts';

/** Returns false if it failed. */
export function mount(...options: string[]): boolean {
  return spawnSync('mount', options, { stdio: 'ignore' }).status === 0;
}

export function unmount(folder: string): void {
  spawnSync('umount', ['-l', folder]);
}

export const noMount = isMissing(canMount(), 'full-disk tests: this user cannot mount a tmpfs');

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-mount-'));
  const could = mount('-t', 'tmpfs', 'tmpfs', folder);
  if (could) unmount(folder);
  rmdirSync(folder);
  return could;
}
