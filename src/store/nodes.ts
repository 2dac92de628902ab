/** The nodes that use this database. Each node renews its row; a row that is not renewed expires. */

import type { Db, DbTime } from '../db/db.ts';
import { schemaOf } from '../db/migrate.ts';
import { databaseTime } from '../db/sql.ts';
import { sql } from '../db/statement.ts';
import type { Position } from '../domain/database-position.ts';

export interface NodeRecord {
  readonly id: string;
  /** For operators: host name and process id. */
  readonly name: string;
  readonly version: string;
  /** Where other nodes reach it. Undefined if it does not listen yet. */
  readonly url: string | undefined;
  readonly masterKeys: readonly string[];
  /** The current time by the node's own clock. */
  readonly clock: number;
}

export interface ActiveNode extends Omit<NodeRecord, 'clock'> {
  /** When the node last renewed its row, by the clock of `:now` (see db.ts). */
  readonly seenAt: number;
  /** Milliseconds by which the node's own clock was ahead of the clock of `:now`. */
  readonly clockOffset: number;
}

export interface Nodes {
  /** Adds or renews the row of a node, and deletes rows that expired a day ago. Returns the time by the clock of `:now`. */
  record(node: NodeRecord): Promise<number>;
  remove(id: string): Promise<void>;
  /** The time by the clock of `:now`. */
  now(): Promise<number>;
  /** The nodes whose row has not expired. */
  active(): Promise<ActiveNode[]>;
  /** The node that renewed its row last, also if the row has expired. */
  latest(): Promise<{ readonly name: string; readonly seenAt: number } | undefined>;
  /** The version of the schema. */
  schema(): Promise<number>;
  /** The position of the PostgreSQL database. Undefined on SQLite. */
  position(): Promise<Position | undefined>;
  /** Makes all nodes accept the database, although it may be a copy, or behind what they have seen. */
  acceptAfter(seen: Position): Promise<void>;
  /** Increases the beat of the database. Throws if the server is behind or has a copy. Does nothing on SQLite. */
  beat(): Promise<void>;
}

/** Milliseconds after which the row of a node expires, unless the node renews it. */
export const nodeLifetime = 45_000;
/** Milliseconds that an expired row remains: a new node asks the nodes that a database knows whether it is behind. */
const memory = 86_400_000;

interface Row {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly url: string | null;
  readonly master_keys: string;
  readonly clock: DbTime;
  readonly seen_at: DbTime;
}

export function nodes(db: Db): Nodes {
  return {
    record: ({ id, name, version, url, masterKeys, clock }) =>
      db.transaction(async (tx) => {
        await tx.run(sql`delete from nodes where seen_at < :now - ${memory}`);
        const [row] = await tx.returning<{ seen_at: DbTime }>(sql`
          insert into nodes (id, name, version, url, master_keys, clock, seen_at)
            values (${id}, ${name}, ${version}, ${url}, ${JSON.stringify(masterKeys)}, ${clock}, :now)
           on conflict (id) do update set url = excluded.url, master_keys = excluded.master_keys, clock = excluded.clock,
             seen_at = excluded.seen_at
           returning seen_at`);
        return Number(row?.seen_at);
      }),
    remove: async (id) => {
      await db.run(sql`delete from nodes where id = ${id}`);
    },
    now: () => databaseTime(db),
    active: async () => {
      const rows = await db.all<Row>(sql`
        select * from nodes where seen_at >= :now - ${nodeLifetime} order by name`);
      return rows.map(({ id, name, version, url, master_keys, clock, seen_at }) => ({
        id,
        name,
        version,
        url: url ?? undefined,
        masterKeys: JSON.parse(master_keys) as string[],
        seenAt: Number(seen_at),
        clockOffset: Number(clock) - Number(seen_at),
      }));
    },
    latest: async () => {
      const row = await db.get<{ name: string; seen_at: DbTime }>(
        'select name, seen_at from nodes order by seen_at desc limit 1',
      );
      return row && { name: row.name, seenAt: Number(row.seen_at) };
    },
    schema: () => schemaOf(db),
    position: async () => db.position?.(),
    acceptAfter: async ({ era, beat }) => {
      await db.run(sql`
        update heartbeat set era = greatest(era, ${era}) + 1, beat = greatest(beat, ${beat}), home = null`);
    },
    beat: async () => {
      if (!db.position) return;
      await db.run('update heartbeat set beat = beat + 1');
      const { home, here } = (await db.position()) ?? {};
      if (home === undefined && here !== undefined)
        await db.run(sql`update heartbeat set home = ${here} where home is null`);
    },
  };
}
