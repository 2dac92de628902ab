/** Records the statements of a store, and measures their cost. */

import { Database as Sqlite } from 'bun:sqlite';
import { SQL } from 'bun';
import type { Db, Queries } from '../../src/db/db.ts';
import { boundOf, type Statement, type Value } from '../../src/db/statement.ts';

export interface Recorded {
  readonly sql: string;
  readonly params: readonly Value[];
  readonly rows: number;
  /** Bytes in the binary columns of the returned rows. */
  readonly bytes: number;
}

export interface Recorder {
  through(db: Db): Db;
  /** Returns the statements since the last call. */
  take(): Recorded[];
}

export function recorder(): Recorder {
  let statements: Recorded[] = [];
  const record = (statement: Statement, rows: readonly unknown[]): void => {
    const [sql, params] = boundOf(statement);
    const values = rows.flatMap((row) => Object.values(Object(row)));
    const bytes = values.reduce<number>((sum, one) => sum + (one instanceof Uint8Array ? one.length : 0), 0);
    statements.push({ sql, params, rows: rows.length, bytes });
  };
  const recorded = <Q extends Queries>(queries: Q): Q => ({
    ...queries,
    all: async <R>(statement: Statement) => {
      const rows = await queries.all<R>(statement);
      record(statement, rows);
      return rows;
    },
    get: async <R>(statement: Statement) => {
      const row = await queries.get<R>(statement);
      record(statement, [row]);
      return row;
    },
    insert: async (target, rows, onlyIf) => {
      record([target.one, Object.values(rows[0] ?? {})], []);
      return queries.insert(target, rows, onlyIf);
    },
    returning: async <R>(statement: Statement) => {
      const rows = await queries.returning<R>(statement);
      record(statement, rows);
      return rows;
    },
    run: async (statement: Statement) => {
      const changed = await queries.run(statement);
      record(statement, []);
      return changed;
    },
  });
  return {
    through: (db) => ({
      ...recorded(db),
      transaction: (work, ...rest) => db.transaction((tx) => work(recorded(tx)), ...rest),
    }),
    take: () => {
      const taken = statements;
      statements = [];
      return taken;
    },
  };
}

const atNow = (sql: string, now: number) => sql.replace(/:now\b/g, String(now));

/** The query plan steps of the statements on SQLite. */
export function plansOf(url: string, statements: readonly Recorded[], now: number): string[] {
  const db = new Sqlite(url.slice('sqlite:'.length));
  try {
    return statements.flatMap(({ sql, params }) => {
      const text = `explain query plan ${atNow(sql, now).replace(/\$(\d+)/g, '?$1')}`;
      const rows = db.query(text).all(...(params as string[])) as { detail: string }[];
      return rows.map(({ detail }) => detail);
    });
  } finally {
    db.close();
  }
}

interface PlanNode {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: PlanNode[];
  /** Only on Citus: the plans of the workers. */
  readonly 'Distributed Query'?: {
    readonly Job: { readonly Tasks: { 'Remote Plan': { Plan: PlanNode }[][] }[] };
  };
}

/** Counts rows of plan nodes that read a table. Sorting, and index entries of deleted rows, do not count. */
function rowsOf(node: PlanNode): number {
  const remote = (node['Distributed Query']?.Job.Tasks ?? []).flatMap((task) => task['Remote Plan'].flat());
  const nodes = [...(node.Plans ?? []), ...remote.map(({ Plan }) => Plan)];
  const below = nodes.reduce((sum, each) => sum + rowsOf(each), 0);
  if (node['Relation Name'] === undefined) return below;
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  return (node['Actual Rows'] + removed) * node['Actual Loops'] + below;
}

/** Like a parameter, it has the type that its place in the statement needs. */
function literalOf(value: Value | undefined): string {
  if (value === null || value === undefined) return 'null';
  return `'${value instanceof Uint8Array ? `\\x${value.toHex()}` : String(value).replaceAll("'", "''")}'`;
}

/**
 * The number of rows that the statements read from tables on PostgreSQL. With literals, because Citus explains a
 * statement with parameters by another plan than it runs.
 */
export async function rowsVisited(
  url: string,
  statements: readonly Recorded[],
  now: number,
): Promise<number> {
  const db = new SQL(url, { max: 1 });
  let visited = 0;
  for (const { sql, params } of statements) {
    const text = atNow(sql, now).replace(/\$(\d+)/g, (_, number) => literalOf(params[Number(number) - 1]));
    const [answer] = await db.unsafe(`explain (analyze, timing off, format json) ${text}`);
    visited += rowsOf(answer['QUERY PLAN'][0].Plan);
  }
  await db.close();
  return visited;
}
