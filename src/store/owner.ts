/**
 * Whose a file is: what root does for a service that runs as somebody else must not lock that one out. The folder may
 * be the other one's, who could put a link there: no link is followed, neither to make a file nor to give it away.
 */
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  lchownSync,
  mkdirSync,
  openSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** A new and empty file for its owner alone, who is that of `model`. False if there is something by that name. */
export function createOwned(path: string, model = dirname(path)): boolean {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
  giveToOwnerOf(model, path);
  return true;
}

/** Makes a new file or folder belong to whoever `model` belongs to. Whoever is not root has nothing to give. */
export function giveToOwnerOf(model: string, path: string): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = statSync(model);
  try {
    lchownSync(path, uid, gid);
  } catch {
    // Some roots may not, such as those of containers: what they make is theirs.
  }
}

/** Before `path` takes the place of `old`: the same owner, and the same mode. Throws where that cannot be. */
export function makeLike(old: string, path: string): void {
  if (!existsSync(old)) {
    giveToOwnerOf(dirname(old), path);
    return;
  }
  const { uid, gid, mode } = statSync(old);
  const made = statSync(path);
  let shared = 0o777;
  try {
    if (made.uid !== uid || made.gid !== gid) lchownSync(path, uid, gid);
  } catch (error) {
    if (made.uid !== uid) throw error;
    // It stays with another group, which is not the one that could read it.
    shared = 0o707;
  }
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  fchmodSync(file, mode & shared);
  closeSync(file);
}

/** With all that is missing above it, for its owner alone. */
export function makeFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  const owner = dirname(first);
  for (let made = path; made.length > owner.length; made = dirname(made)) giveToOwnerOf(owner, made);
}
