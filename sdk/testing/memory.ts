/**
 * One tenant in memory, for tests of applications. Rows have the columns of the database and become principals,
 * applications, sessions and tokens by the same functions. Everything is lost when the process ends.
 */
import { fail } from '../../src/domain/error.ts';
import type { JsonText } from '../../src/domain/json-text.ts';
import { type Digest, type Minted, newId } from '../../src/domain/key.ts';
import type { SearchValues } from '../../src/domain/search.ts';
import type { ApplicationRow } from '../../src/store/applications.ts';
import { directionOf, inOrder } from '../../src/store/lists/page.ts';
import type { Idempotency, ListPage, ListWindow, Tenant } from '../../src/store/store.ts';
import type { TokenRow } from '../../src/store/token-row.ts';

export interface KeyRow {
  readonly application_id: string;
  readonly id: string;
  readonly ending: string;
  readonly created_by: string | null;
  readonly created_at: number;
  readonly expires_at: number | null;
}

export interface SessionRow {
  readonly id: string;
  readonly application_id: string;
  /** Digests, as text. */
  readonly key: string;
  readonly nonce: string;
  /** The key that is its ceiling. */
  readonly authorizer: string | null;
  /** The key that authorized it without being its ceiling. */
  readonly unlimited_by: string | null;
  readonly permissions: string;
  readonly rules: string;
  readonly created_at: number;
  readonly expires_at: number;
  readonly authorized_at: number | null;
  readonly authorized_by: string | null;
  readonly quarantined_at: number | null;
  readonly jkt: string | null;
  readonly subject: string | null;
  readonly max_uses: number | null;
  readonly uses: number | null;
}

export interface MemoryToken extends TokenRow {
  readonly data: JsonText;
  readonly masked: JsonText | undefined;
  readonly searchValues: SearchValues;
}

/** All rows. Rows are replaced and never changed, so that a copy of the maps is a snapshot. */
interface Rows {
  applications: Map<string, ApplicationRow>;
  /** By digest. */
  keys: Map<string, KeyRow>;
  sessions: Map<string, SessionRow>;
  tokens: Map<string, MemoryToken>;
  idempotency: Map<string, { readonly request: string; readonly reply: string; readonly until: number }>;
}

type Expiring = { readonly expires_at: number | string | null };

export const hex = (digest: Digest) => digest.toString('hex');

export class Memory {
  readonly now: () => number;
  readonly tenant: Tenant;
  readonly rows: Rows = {
    applications: new Map(),
    keys: new Map(),
    sessions: new Map(),
    tokens: new Map(),
    idempotency: new Map(),
  };
  /** The last change, so that changes run one after another. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(tenant: Tenant, now: () => number) {
    this.tenant = tenant;
    this.now = now;
  }

  /** Ends all sessions and delegations. */
  expireSessions(): void {
    this.rows.sessions.clear();
  }

  /** Revokes a key with the sessions that it authorized, or ends the session of its key. Returns false if it is unknown. */
  revoke(digest: Digest): boolean {
    const { keys, sessions } = this.rows;
    const name = hex(digest);
    const ended = [...sessions.values()].filter(({ key, unlimited_by }) =>
      [key, unlimited_by].includes(name),
    );
    for (const { id } of ended) sessions.delete(id);
    return keys.delete(name) || ended.length > 0;
  }

  /** Runs changes one after another. Undoes a change that fails. */
  change<T>(work: () => Promise<T>): Promise<T> {
    const run = async () => {
      const before = Object.entries(this.rows).map(([name, map]) => [
        name,
        new Map(map as Map<string, never>),
      ]);
      try {
        return await work();
      } catch (error) {
        Object.assign(this.rows, Object.fromEntries(before));
        throw error;
      }
    };
    const done = this.#last.then(run);
    this.#last = done.catch(() => {});
    return done;
  }

  isValid({ expires_at }: Expiring): boolean {
    return expires_at === null || Number(expires_at) > this.now();
  }

  application(id: string): ApplicationRow | undefined {
    const row = this.rows.applications.get(id);
    return row && this.isValid(row) ? row : undefined;
  }

  key(digest: string): KeyRow | undefined {
    const row = this.rows.keys.get(digest);
    return row && this.isValid(row) && this.application(row.application_id) ? row : undefined;
  }

  isSessionValid(session: SessionRow): boolean {
    const { authorizer, authorized_by } = session;
    if (!this.isValid(session) || !this.application(session.application_id)) return false;
    return authorizer === null || this.key(authorizer)?.application_id === authorized_by;
  }

  /** When the session ends: with its application, its authorizer and the key that is its ceiling. */
  endsOf({ application_id, authorizer, authorized_by, expires_at }: SessionRow) {
    const { applications, keys } = this.rows;
    return {
      expires_at,
      application_end: applications.get(application_id)?.expires_at ?? null,
      authorizer_end: (authorizer && applications.get(authorized_by ?? '')?.expires_at) || null,
      key_end: (authorizer && keys.get(authorizer)?.expires_at) || null,
    };
  }

  keysOf(application: string): [digest: string, key: KeyRow][] {
    return [...this.rows.keys].filter(
      ([digest, key]) => key.application_id === application && this.key(digest),
    );
  }

  addKey(
    application_id: string,
    { digest, ending }: Minted,
    { by, at }: { readonly by: string | null; readonly at: number },
    expiresAt: number | undefined,
  ): KeyRow {
    const dates = { created_at: at, expires_at: expiresAt ?? null };
    const row = { application_id, id: newId(at), ending, created_by: by, ...dates };
    this.rows.keys.set(hex(digest), row);
    return row;
  }

  /** Makes all keys of the application expire at this time, if they do not expire earlier. */
  expireKeys(application: string, expires_at: number): void {
    for (const [digest, key] of this.rows.keys)
      if (key.application_id === application && (key.expires_at === null || key.expires_at > expires_at))
        this.rows.keys.set(digest, { ...key, expires_at });
  }

  session(id: string): SessionRow | undefined {
    const row = this.rows.sessions.get(id);
    return row && this.isSessionValid(row) ? row : undefined;
  }

  saveSession(row: SessionRow): SessionRow {
    this.rows.sessions.set(row.id, row);
    return row;
  }

  token(id: string): MemoryToken | undefined {
    const row = this.rows.tokens.get(id);
    return row && this.isValid(row) ? row : undefined;
  }
}

const retention = 86_400_000;

export function idempotency(memory: Memory): Idempotency {
  const nameOf = ({ caller, key }: { caller: string; key: string }) => `${caller} ${key}`;
  return {
    find: async (_, request) => {
      const known = memory.rows.idempotency.get(nameOf(request));
      if (!known || known.until <= memory.now()) return undefined;
      if (known.request !== request.request) throw fail('idempotency_mismatch');
      return JSON.parse(known.reply);
    },
    save: async (_, { request, ...names }, reply, now) => {
      const record = { request, reply: JSON.stringify(reply), until: now + retention };
      memory.rows.idempotency.set(nameOf(names), record);
    },
  };
}

/** One page of the rows, by id. */
export function page<R, T>(
  rows: readonly R[],
  idOf: (row: R) => string,
  { size, page: number, start, ...window }: ListWindow,
  toView: (row: R) => T,
): ListPage<T> {
  const direction = directionOf(window);
  const from = number === undefined ? 0 : (number - 1) * size;
  const rest = inOrder(direction, rows, idOf)
    .filter((row) => direction.precedes(start ?? direction.start, idOf(row)))
    .slice(from);
  const last = rest[size - 1];
  const next = rest.length > size && last ? idOf(last) : undefined;
  const total = number === undefined ? undefined : rows.length;
  return { rows: rest.slice(0, size).map(toView), next, total, tooDeep: false };
}

/** Whether a map in JSON has all of these entries. */
export function hasAll(text: string | null, entries: Readonly<Record<string, string>>): boolean {
  const map: Record<string, string> = JSON.parse(text ?? '{}');
  return Object.entries(entries).every(([name, value]) => map[name] === value);
}
