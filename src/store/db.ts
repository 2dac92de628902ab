/**
 * The seam between SQL and the two databases. SQL is written once, in PostgreSQL's words:
 * - `$1`, `$2` … are parameters; times are milliseconds, ids text, digests bytes, lists JSON text;
 * - `:now` is this moment by the clock that decides: the machine's for SQLite, the database's for a fleet.
 */
import type { Awaitable } from '../domain/awaitable.ts';
import { Failure, fail } from '../domain/error.ts';

export type Value = string | number | null | Uint8Array;
/** Milliseconds in a row; PostgreSQL hands them out as text. */
export type Moment = number | string;

/** Runs statements. Inside `transaction`, all of them take effect together or not at all. */
export interface Queries {
  get<R>(sql: string, params?: readonly Value[]): Awaitable<R | undefined>;
  all<R>(sql: string, params?: readonly Value[]): Awaitable<R[]>;
  /** How many rows it changed. Outside a transaction, the change is durable when this returns. */
  run(sql: string, params?: readonly Value[]): Awaitable<number>;
}

/** A transaction that several changes may share. */
export interface Shared extends Queries {
  /**
   * What nobody needs before the end: `write` writes it together with whatever else is left for it, when all have
   * run. Where no transaction is open it is written at once.
   */
  leave<T>(write: (tx: Queries, all: readonly T[]) => Promise<void>, one: T): Awaitable<void>;
}

/** Where statements run: on the database itself, or within a transaction that is already open. */
export interface Room extends Shared {
  readonly dialect: 'sqlite' | 'postgres';
  /** Durable when it is done, unless one is open already. `work` awaits nothing but its own statements. */
  transaction<T>(work: (tx: Queries) => Promise<T>): Promise<T>;
  transaction<T>(work: (tx: Queries) => Awaitable<T>): Awaitable<T>;
}

/** How a change gets along with others. */
export interface Manner {
  /** Whether its statements may run between those of others of its kind: it goes by no row that it has read before. */
  readonly alongside?: boolean | undefined;
  /** Names the row that it holds first: all take such rows in the same order, so that no two wait for each other. */
  readonly holds?: string | undefined;
}

/** What a database on this machine can tell without being asked. */
export interface Local {
  /** Whether nobody has committed anything since this was last asked. */
  unchanged(): boolean;
  /** This moment, by the clock that decides. */
  now(): number;
  /** What is wrong, if its file is no longer where it was opened. */
  lost(): string | undefined;
}

export interface Db extends Room {
  transaction<T>(work: (tx: Queries) => Awaitable<T>): Promise<T>;
  readonly local?: Local;
  /**
   * One row by a unique binary key. The SQL compares with `= :key`, selects that column as `key` and ends with its
   * conditions; look-ups of one tick may share a query, and those that come while one is under way the next; each is
   * read after it was asked for, from a primary.
   */
  lookup<R>(sql: string, key: Uint8Array): Awaitable<R | undefined>;
  /**
   * Changes that wait at the same time share one transaction, and so one commit, each with an outcome of its own:
   * what one of them throws is its own affair. Durable when it resolves. `work` awaits nothing but its own
   * statements, and may run twice, if the first time has come to nothing.
   */
  change<T>(work: (tx: Shared) => Awaitable<T>, manner?: Manner): Promise<T>;
  /**
   * Holds off every other process that calls this on the same database. Over a network it is given up after a few
   * seconds, or after an hour if it is `slow`.
   */
  exclusively<T>(work: (tx: Queries) => Promise<T>, pace?: 'slow'): Promise<T>;
  close(): Promise<void>;
}

/** The database is out of reach, or cannot write. The message is for the operator, not for the caller. */
export class DbUnavailable extends Failure {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('unavailable', options);
    this.message = message;
  }
}

/**
 * What a new row belongs to is not there any more. Only a tenant can go while somebody who was let in adds to it,
 * and a key of a tenant that is gone is nobody's.
 */
export function ownerGone(cause: unknown): Failure {
  return fail('unauthenticated', { cause });
}

/** Appended to a select, where rows have locks of their own: on SQLite, a transaction that changes has the whole file. */
export function rowLock({ dialect }: Pick<Db, 'dialect'>, lock: Lock): string {
  return dialect === 'postgres' ? lock : '';
}

type Lock = 'for update' | 'for update skip locked' | 'for no key update' | 'for share';

/** Milliseconds after which a request to PostgreSQL is given up, where the configuration does not say otherwise. */
export const defaultTimeout = 800;
