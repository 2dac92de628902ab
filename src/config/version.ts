import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { lazy } from '../domain/lazy.ts';

export const version: string = manifest.version;

/** Set by deploy/build.ts: the commit, or an empty text if it is not known. Not declared outside of a build. */
declare const SALLYPORT_COMMIT: string;

/** The version with the commit, if it is known, such as 0.3.0+1a2b3c4d5e6f. Packages of npm have no commit. */
export const build: () => string = lazy(() => {
  const commit =
    typeof SALLYPORT_COMMIT === 'string' ? SALLYPORT_COMMIT : commitOf(join(import.meta.dirname, '../..'));
  return commit ? `${version}+${commit.slice(0, 12)}` : version;
});

/** The commit that is checked out in a folder. Reads the files of git, so that every start is fast and needs no git. */
export function commitOf(root: string): string | undefined {
  try {
    const folder = gitFolder(root);
    const head = readFileSync(join(folder, 'HEAD'), 'utf8').trim();
    const ref = /^ref: (.+)$/.exec(head)?.[1];
    if (ref === undefined) return head;
    const link = join(folder, 'commondir');
    const common = existsSync(link) ? resolve(folder, readFileSync(link, 'utf8').trim()) : folder;
    const file = join(common, ref);
    if (existsSync(file)) return readFileSync(file, 'utf8').trim();
    const packed = readFileSync(join(common, 'packed-refs'), 'utf8').split('\n');
    return packed.find((line) => line.endsWith(` ${ref}`))?.slice(0, -ref.length - 1);
  } catch {
    return undefined;
  }
}

/** In a work tree that `git worktree` has created, `.git` is a file with the path of the folder. */
function gitFolder(root: string): string {
  const path = join(root, '.git');
  const isLink = existsSync(join(path, 'HEAD')) === false;
  return isLink
    ? resolve(
        root,
        readFileSync(path, 'utf8')
          .replace(/^gitdir: /, '')
          .trim(),
      )
    : path;
}
