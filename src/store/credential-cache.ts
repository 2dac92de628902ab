/**
 * Caches credentials by the digest of the key.
 *
 * On SQLite, a credential is read from the database only if a process has committed since it was last read. It is never
 * stale: a change to a credential applies to every request sent after the response to the change.
 * 1. Every process numbers its commits in a shared counter while it holds SQLite's write lock: it stores `begun = n`
 *    before commit n, and `ended = n` after it. The response follows `ended = n`.
 * 2. An entry belongs to the generation that was read before its lookup. A generation exists only if `begun` and `ended`
 *    were equal then, so the lookup saw every commit up to that number.
 * 3. An entry is used only if `begun` is still the same. A later commit stores its number before it becomes visible, so
 *    no later commit is visible.
 * 4. A process that ends between the two stores leaves them different. Every request then reads the database until the
 *    next commit. A process that stores `ended` after the next writer has begun has the same effect.
 * 5. Expiry needs no commit. Each entry has the time at which it expires, and the clock is read for every request.
 *
 * Commits of programs that do not use the counter, such as the sqlite3 shell, are detected by `pragma data_version`. The
 * same holds for a process that uses another counter file because the first one was deleted. The pragma is read once per
 * turn of the event loop, so these commits apply from the next turn on. To read it for every request would take 2 µs,
 * 14 % of `GET /applications/key`.
 *
 * On PostgreSQL, every request reads the row. An entry is reused if the row is unchanged, which saves parsing and
 * compiling the grants: 20 % of `GET /applications/key`. The same is done on SQLite after a commit.
 */
import { type Awaitable, then } from '../domain/awaitable.ts';
import type { Digest } from '../domain/key.ts';
import type { Principal } from '../domain/principal.ts';
import { BoundedCache } from './bounded-cache.ts';
import type { DbTime, Local } from './engine/db.ts';

export interface FoundCredential {
  readonly principal: Principal;
  /** When it expires, if no commit changes that. */
  readonly until: number;
  /** Length of the stored grants in characters, which is counted as its size in the cache. */
  readonly text: number;
}

interface Entry<R> extends FoundCredential {
  readonly row: R;
  /** Undefined if a commit was in progress at the lookup, and on PostgreSQL. */
  readonly generation: number | undefined;
}

export class CredentialCache<R extends { readonly now: DbTime }> {
  readonly #entries = new BoundedCache<Entry<R>>(10_000);
  readonly #local: Local | undefined;
  readonly #lookUp: (digest: Digest) => Awaitable<R | undefined>;
  readonly #toCredential: (row: R, digest: Digest) => FoundCredential;

  constructor(
    local: Local | undefined,
    lookUp: (digest: Digest) => Awaitable<R | undefined>,
    toCredential: (row: R, digest: Digest) => FoundCredential,
  ) {
    this.#local = local;
    this.#lookUp = lookUp;
    this.#toCredential = toCredential;
  }

  /** See `Credentials.find`. */
  find(digest: Digest): Awaitable<Principal | undefined> {
    const name = digest.toString('latin1');
    const generation = this.#local?.generation();
    const known = this.#entries.get(name);
    if (this.#local && known && generation !== undefined && known.generation === generation) {
      const now = this.#local.now();
      return now < known.until ? { ...known.principal, now } : undefined;
    }
    return then(this.#lookUp(digest), (row) => {
      if (!row) return undefined;
      const found = known && isSame(known.row, row) ? known : this.#toCredential(row, digest);
      const { principal, until, text } = found;
      this.#entries.set(name, { principal, until, text, row, generation }, text);
      return { ...principal, now: Number(row.now) };
    });
  }
}

/** Ignores the time of the lookup, and the key, by which both were found. */
function isSame<R extends object>(one: R, other: R): boolean {
  for (const field in one)
    if (field !== 'now' && field !== 'key' && one[field] !== other[field]) return false;
  return true;
}
