/**
 * Caches credentials by the digest of the key.
 *
 * On SQLite, a credential is read from the database only if a process has committed since it was last read. A change by
 * any Sallyport process applies to every request sent after the response to the change:
 * 1. Every process numbers its commits while it holds SQLite's write lock: it sets the shared counter `begun` to n before
 *    commit n, and `ended` to n after it. It sends the response to the change after that.
 * 2. An entry belongs to the generation that was read before its lookup. A generation exists only if `begun` and `ended`
 *    were equal then, so the lookup saw every commit up to that number.
 * 3. An entry is used only if `begun` is still the same. A commit sets `begun` before it becomes visible, so no commit
 *    has become visible since.
 * 4. If a process dies between the two writes, the counters differ, and every request reads the database until the next
 *    commit. The same happens if a process sets `ended` after the next writer has set `begun`.
 * 5. Expiry needs no commit. Each entry has the time at which it expires, and the clock is read for every request.
 *
 * Commits of programs that do not use the counter, such as the sqlite3 shell, are detected by `pragma data_version`. The
 * same holds for a process that uses another counter file because the first one was deleted. The pragma is read at most
 * once per millisecond, so these commits apply after a millisecond. To read it for every request would take 2 µs, 14 %
 * of `GET /applications/key`.
 *
 * On PostgreSQL, every request reads the row. An entry is reused if the row is unchanged, which saves parsing and
 * compiling the grants: 20 % of `GET /applications/key`. The same is done on SQLite after a commit.
 */
import { type Awaitable, then } from '../domain/awaitable.ts';
import type { Digest } from '../domain/key.ts';
import type { Principal } from '../domain/principal.ts';
import type { DbTime, Local } from './engine/db.ts';

export interface CachedCredential {
  readonly principal: Principal;
  /** When the credential expires, unless a later commit changes that. */
  readonly until: number;
  /** Length of the stored grants in characters, which counts towards `maxText`. */
  readonly text: number;
}

interface Entry<R> extends CachedCredential {
  readonly row: R;
  /** Undefined if a commit was in progress at the lookup, and on PostgreSQL. */
  readonly generation: number | undefined;
}

/** The limits of a cache. An entry takes several times as much memory as its text. */
const maxEntries = 10_000;
const maxText = 16_000_000;

/**
 * Returns a function that finds the principal of a key by its tenant and digest. It returns undefined if the key is
 * invalid. The digest covers the tag of the tenant, so an entry is named by the digest alone.
 */
export function cached<R extends { readonly now: DbTime }>(
  local: Local | undefined,
  lookUp: (tenant: string, digest: Digest) => Awaitable<R | undefined>,
  toCredential: (row: R, digest: Digest) => CachedCredential,
): (tenant: string, digest: Digest) => Awaitable<Principal | undefined> {
  const entries = new Map<string, Entry<R>>();
  let totalText = 0;

  /** Drops all entries when a new one exceeds a limit. */
  function save(name: string, entry: Entry<R>): void {
    totalText -= entries.get(name)?.text ?? 0;
    entries.delete(name);
    if (entries.size >= maxEntries || totalText + entry.text > maxText) {
      entries.clear();
      totalText = 0;
    }
    entries.set(name, entry);
    totalText += entry.text;
  }

  return (tenant, digest) => {
    const name = digest.toString('latin1');
    const generation = local?.generation();
    const entry = entries.get(name);
    if (local && entry && generation !== undefined && entry.generation === generation) {
      const now = local.now();
      return now < entry.until ? { ...entry.principal, now } : undefined;
    }
    return then(lookUp(tenant, digest), (row) => {
      if (!row) return undefined;
      const known = entries.get(name);
      // On PostgreSQL, concurrent requests with the same key share one lookup, and so the same row object.
      if (known?.row === row) return { ...known.principal, now: Number(row.now) };
      const { principal, until, text } = known && isSame(known.row, row) ? known : toCredential(row, digest);
      save(name, { principal, until, text, row, generation });
      return { ...principal, now: Number(row.now) };
    });
  };
}

/** Compares two rows that were found by the same key. Ignores `now`, the time of the lookup, and `key`. */
function isSame<R extends object>(one: R, other: R): boolean {
  for (const field in one)
    if (field !== 'now' && field !== 'key' && one[field] !== other[field]) return false;
  return true;
}
