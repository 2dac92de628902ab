/**
 * File ownership. Root often works in the data folder of a service that runs as another user. Files that root
 * creates must belong to that user. That user can create links in the folder at any time. So links are never followed
 * when a file is created or written, or when its owner is changed.
 */
import { Database, constants as sqlite } from 'bun:sqlite';
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/**
 * Resolves the links in a path, so that the result can be opened without following links. Throws if this process is
 * root and the link belongs to another user, who could point it at any file.
 */
export function pathWithoutLinks(path: string): string {
  const file = lstatSync(path, { throwIfNoEntry: false });
  if (!file?.isSymbolicLink()) return inRealFolder(path);
  if (isRoot() && file.uid !== 0)
    throw new Error(`${path} is a link that belongs to user ${file.uid}, which root does not follow`);
  return realpathSync(path);
}

/** Like `pathWithoutLinks`, for a new file: resolves only the links in the path of its folder. */
export function inRealFolder(path: string): string {
  return join(realpathSync(dirname(path)), basename(path));
}

/**
 * Opens a SQLite file. Does not follow a link that is put there after `pathWithoutLinks` has checked the path.
 * `vacuum into` does not follow links either.
 */
export function openDatabase(path: string, mode: keyof typeof openModes): Database {
  return new Database(pathWithoutLinks(path), openModes[mode] | sqlite.SQLITE_OPEN_NOFOLLOW);
}

const openModes = {
  create: sqlite.SQLITE_OPEN_READWRITE | sqlite.SQLITE_OPEN_CREATE,
  existing: sqlite.SQLITE_OPEN_READWRITE,
  'read-only': sqlite.SQLITE_OPEN_READONLY,
} as const;

/**
 * Creates a file that only its owner can read or write, and returns its descriptor. Throws EEXIST if a file or link
 * exists.
 */
export function createExclusively(path: string): number {
  return openSync(path, 'wx+', 0o600);
}

/** Creates an empty private file with the owner of `model`. Returns false if the path exists. */
export function createOwned(path: string, model = dirname(path)): boolean {
  try {
    writeOwned(path, '', model);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Like `createOwned`, but writes `content` and flushes it to disk. Throws EEXIST if the path exists. */
export function writeOwned(path: string, content: string | Uint8Array, model = dirname(path)): void {
  const file = createExclusively(path);
  try {
    giveTo(model, (uid, gid) => fchownSync(file, uid, gid));
    if (content === '') return;
    writeFileSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Makes a file smaller. Returns false if it does not exist, is empty, or has more than one name. */
export function shrinkOwned(path: string, bytes: number): boolean {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isFile()) return false;
  const file = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
  const { nlink, size } = fstatSync(file);
  const canShrink = nlink === 1 && size > 0;
  if (canShrink) ftruncateSync(file, Math.max(0, size - bytes));
  closeSync(file);
  return canShrink;
}

/** Gives a new file or folder the owner of `model`, if this process is root. */
function giveTo(model: string, chown: (uid: number, gid: number) => void): void {
  if (!isRoot()) return;
  const { uid, gid } = statSync(model);
  try {
    chown(uid, gid);
  } catch {
    // Root may lack the privilege to change owners, for example in a Docker container. Then the file belongs to root.
  }
}

/** Gives `path` the owner and mode of `old`, the file that it will replace. Throws if the owner cannot be set. */
export function copyOwnership(old: string, path: string): void {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const created = fstatSync(file);
    if (created.nlink !== 1) throw new Error(`${path} has more than one name`);
    const before = lstatSync(old, { throwIfNoEntry: false });
    if (!before?.isFile()) {
      giveTo(dirname(old), (uid, gid) => fchownSync(file, uid, gid));
      return;
    }
    const { uid, gid, mode } = before;
    let shared = 0o777;
    try {
      if (created.uid !== uid || created.gid !== gid) fchownSync(file, uid, gid);
    } catch (error) {
      if (created.uid !== uid) throw error;
      // The group could not be set, so the group gets no access.
      shared = 0o707;
    }
    fchmodSync(file, mode & shared);
  } finally {
    closeSync(file);
  }
}

/** Creates a private folder and its missing parents. */
export function createFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  const owner = dirname(first);
  for (let folder = path; folder.length > owner.length; folder = dirname(folder))
    giveTo(owner, (uid, gid) => lchownSync(folder, uid, gid));
}
