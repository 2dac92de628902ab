/**
 * Caches credentials while the database is unchanged. Only SQLite databases have this cache.
 *
 * Why a cached credential is never stale: a change to a credential applies to every request sent after its response.
 * 1. Every process numbers its commits in a shared counter while it holds SQLite's write lock: it stores `begun = n`
 *    before commit n, and `ended = n` after it. The response follows `ended = n`.
 * 2. An entry belongs to the generation that was read before its lookup. A generation is valid only if `begun` and
 *    `ended` were equal then, so the lookup saw every commit up to that number.
 * 3. An entry is used only if `begun` is still the same. Any later commit stores its number before it becomes visible,
 *    so there was none.
 * 4. A process that ends between the two stores leaves them different. Every request then reads the database until the
 *    next commit stores an equal pair. A process that stores `ended` late, after the next writer has begun, also only
 *    makes them different: the lock is free before `ended` is stored, so both orders occur.
 * 5. Expiry needs no commit. Each entry has the time at which it expires, and the clock is read for every request.
 *
 * Programs that write to the file without the counter, such as the sqlite3 shell, and processes whose counter file was
 * deleted meanwhile are detected by `pragma data_version`, which is read once per turn of the event loop: their commits
 * apply from the next turn on. Reading it for every request costs 2 µs, a seventh of `GET /applications/key`.
 */
import type { Principal } from '../domain/principal.ts';
import { BoundedCache } from './bounded-cache.ts';
import type { Local } from './engine/db.ts';

export interface FoundCredential {
  readonly principal: Principal;
  /** When it expires if nothing is committed. */
  readonly until: number;
  /** Characters of the grants it was made from. */
  readonly text: number;
}

export class CredentialCache {
  readonly #found = new BoundedCache<FoundCredential>(10_000);
  readonly #local: Local;
  #generation: number | undefined;

  constructor(local: Local) {
    this.#local = local;
  }

  /** Returns undefined if the key must be looked up, null if its credential has expired. */
  get(name: string): Principal | null | undefined {
    const generation = this.#local.generation();
    if (generation !== this.#generation) {
      this.#found.clear();
      this.#generation = generation;
    }
    const known = this.#found.get(name);
    if (!known) return undefined;
    const now = this.#local.now();
    return now < known.until ? { ...known.principal, now } : null;
  }

  /** Call it with the result of a lookup that started after `get`. */
  set(name: string, found: FoundCredential): void {
    if (this.#generation !== undefined) this.#found.set(name, found, found.text);
  }
}
