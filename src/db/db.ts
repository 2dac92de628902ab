/**
 * The interface to SQLite and PostgreSQL. SQL is written once, in PostgreSQL's dialect:
 * - values are parameters, see `sql`; times are milliseconds, ids text, digests bytes, lists JSON text;
 * - `:now` is the current time: of the machine for SQLite, of the database server for PostgreSQL.
 */

import type { Awaitable } from '../domain/awaitable.ts';
import type { ServerPosition } from '../domain/database-position.ts';
import { Failure, fail } from '../domain/error.ts';
import {
  type Bound,
  type Clause,
  type Lookup,
  none,
  raw,
  type Statement,
  type Target,
  type Value,
} from './statement.ts';

/** A value of a unique column. */
export type Key = string | Uint8Array;
/** A bigint column, such as a time in milliseconds. PostgreSQL returns it as text. */
export type DbTime = number | string;

/** Runs statements. Inside `transaction`, all of them take effect together or not at all. */
export interface Queries extends Engine {
  /** For statements that only read, also those that lock rows. */
  get<R>(statement: Statement): Awaitable<R | undefined>;
  all<R>(statement: Statement): Awaitable<R[]>;
  /** Returns the number of changed rows. Outside a transaction, the change is durable when this returns. */
  run(statement: Statement): Awaitable<number>;
  /** Like `run`, for a statement that ends with `returning`. */
  returning<R>(statement: Statement): Awaitable<R[]>;
  /**
   * Inserts rows in as few round trips as the database needs, and returns their number. With `onlyIf`, returns 0 if its
   * `select` finds no row. The caller must then fail the transaction, because rows may have been inserted.
   */
  insert<R extends Record<string, Value>>(
    target: Target<R>,
    rows: readonly R[],
    onlyIf?: Bound,
  ): Awaitable<number>;
  /**
   * Finds one row by a unique key, from the primary. Concurrent lookups may share a query. Without a tenant, the row is
   * of a table that all tenants share.
   */
  lookup<R>(lookup: Lookup<R>, key: Key, tenant?: string): Awaitable<R | undefined>;
}

/** What callers must know about the database. */
export interface Engine {
  /** Whose spelling of SQL it understands, where there are two. */
  readonly dialect: 'sqlite' | 'postgres';
  /**
   * Whether it is a file that only this machine uses, and statements run in this process. Changes then run one after
   * another, so nothing has to be locked. A statement costs no round trip, but other requests wait for it.
   */
  readonly isEmbedded: boolean;
  /**
   * Whether it is faster to write several tables, or rows of a `select`, with one statement. Otherwise use several: a Citus cluster would commit
   * that one in two phases.
   */
  readonly writesTogether: boolean;
}

/** A transaction that several changes may share. */
export interface Transaction extends Queries {
  /**
   * Defers an insert until just before the commit. Rows with the same `write` are inserted in one batch. Outside a
   * transaction the row is written immediately.
   */
  defer<T>(write: (tx: Queries, rows: readonly T[]) => Promise<void>, row: T): Awaitable<void>;
}

/** Runs statements on the database, or within a transaction that is already open. */
export interface Executor extends Transaction {
  /**
   * The changes of `work` are durable when this resolves. If a transaction is already open, `work` becomes part of that
   * transaction and is durable when it commits. `work` may await only its own statements. A cluster is faster if it knows
   * the tenant of the rows.
   */
  transaction<T>(work: (tx: Queries) => Promise<T>, tenant?: string): Promise<T>;
  transaction<T>(work: (tx: Queries) => Awaitable<T>, tenant?: string): Awaitable<T>;
}

/** The id of the entity that is changed, or a unique symbol for a new entity. */
export type Entity = string | symbol;

/** The entity of a change that shares its transaction with no other one: it writes much, or locks in its own order. */
export const alone: Entity = Symbol('alone');

/** State of an embedded database (SQLite) that is read without a query. */
export interface Local {
  /** A number that changes with every commit of any process. Returns undefined while a commit is in progress. */
  generation(): number | undefined;
  /** The current time, like `:now` in SQL. */
  now(): number;
  /** Returns a message if the database file is damaged or no longer at its path, or if its disk does not answer. */
  fileProblem(): string | undefined;
  /** Whether only essential changes are made, because the disk is full. */
  isDiskFull(): boolean;
  /** Resolves when everything that was read so far is on disk. What `change` resolves with is. */
  durable(): Promise<void>;
}

export interface Db extends Executor {
  transaction<T>(work: (tx: Queries) => Awaitable<T>, tenant?: string): Promise<T>;
  readonly local?: Local;
  /** Whether the tables are distributed by tenant over a Citus cluster. A transaction should then change one tenant. */
  isDistributed?(): Promise<boolean>;
  /** Sends statements to the server with the rows of the tenant. On a cluster, that costs a fraction. */
  readonly of?: ((tenant: string) => Db) | undefined;
  /** On Citus: why this process cannot connect to workers, with their names. Empty if it can. */
  workerProblems?(): Promise<string[]>;
  /** On PostgreSQL: throws if the server is behind what was seen, or has a copy of the database. Undefined if the database has no schema yet. */
  position?(): Promise<ServerPosition | undefined>;
  /**
   * Runs a change in a transaction that it may share with concurrent changes, on PostgreSQL only with those of the same
   * tenant. Without a tenant, the change is about no tenant's data. Durable when it resolves. An error of one
   * change does not affect the others. `work` may await only its own statements, and may run again if the transaction
   * was rolled back. Changes of different entities may interleave. Changes of the same entity run one after another,
   * and so do changes without an entity. If the disk is full, an essential change uses reserved space, and others fail.
   */
  change<T>(
    work: (tx: Transaction) => Awaitable<T>,
    entity?: Entity,
    tenant?: string,
    isEssential?: boolean,
  ): Promise<T>;
  /**
   * Runs `work` alone: other processes that call this on the same database wait. On PostgreSQL, `work` may run again
   * after a conflict. There the timeout is a few seconds, or an hour with `slow` or `moving`. Work that is `moving` rows
   * between servers of a cluster waits only for other such work.
   */
  exclusively<T>(work: (tx: Queries) => Promise<T>, pace?: 'slow' | 'moving'): Promise<T>;
  close(): Promise<void>;
}

/** The database cannot be reached or cannot write. The message is for the operator, not for the caller. */
export class DbUnavailable extends Failure {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('unavailable', options);
    this.message = message;
  }
}

/**
 * The error for a violated foreign key: the tenant or application of a new row was deleted after the caller was
 * authenticated.
 */
export function ownerDeleted(cause: unknown): Failure {
  return fail('unauthenticated', { cause });
}

/** A row lock to append to a select. Empty on SQLite, where a writing transaction locks the whole file. */
export function rowLock({ isEmbedded }: Pick<Engine, 'isEmbedded'>, lock: Lock): Clause {
  return isEmbedded ? none : raw(lock);
}

type Lock = 'for update' | 'for update skip locked' | 'for no key update' | 'for share' | 'for key share';

/** The default timeout of one read or transaction on PostgreSQL, in milliseconds. */
export const defaultTimeout = 800;

/** The shortest timeout of a command that opens the database, in milliseconds. No request waits for it. */
export const commandTimeout = 5000;

/** The default size of the connection pool of a process. */
export const defaultConnections = 10;
