/** Whose a file is: what root does for a service that runs as somebody else must not lock that one out. */
import { chmodSync, chownSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** Makes a new file or folder belong to whoever `model` belongs to. Whoever is not root has nothing to give. */
export function giveToOwnerOf(model: string, path: string): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = statSync(model);
  try {
    chownSync(path, uid, gid);
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
  try {
    if (made.uid !== uid || made.gid !== gid) chownSync(path, uid, gid);
  } catch (error) {
    if (made.uid !== uid) throw error;
  }
  chmodSync(path, mode & 0o777);
}

/** With all that is missing above it, for its owner alone. */
export function makeFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  const owner = dirname(first);
  for (let made = path; made.length > owner.length; made = dirname(made)) giveToOwnerOf(owner, made);
}
