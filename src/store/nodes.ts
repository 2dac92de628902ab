/** The nodes that use this database. Each node renews its row; a row that is not renewed expires. */
import type { Db, DbTime } from './engine/db.ts';

export interface NodeRecord {
  readonly id: string;
  /** For operators: host name and process id. */
  readonly name: string;
  readonly version: string;
  /** Ids of the master keys that the node can use. */
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
  /** Adds or renews the row of a node, and deletes expired rows. Returns the time by the clock of `:now`. */
  record(node: NodeRecord): Promise<number>;
  remove(id: string): Promise<void>;
  /** The nodes whose row has not expired. */
  active(): Promise<ActiveNode[]>;
}

/** Milliseconds after which the row of a node expires, unless the node renews it. */
export const nodeLifetime = 45_000;

interface Row {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly master_keys: string;
  readonly clock: DbTime;
  readonly seen_at: DbTime;
}

export function nodes(db: Db): Nodes {
  return {
    record: ({ id, name, version, masterKeys, clock }) =>
      db.transaction(async (tx) => {
        await tx.run('delete from nodes where seen_at < :now - $1', [nodeLifetime]);
        const row = await tx.get<{ seen_at: DbTime }>(
          `insert into nodes (id, name, version, master_keys, clock, seen_at) values ($1, $2, $3, $4, $5, :now)
           on conflict (id) do update set master_keys = excluded.master_keys, clock = excluded.clock,
             seen_at = excluded.seen_at
           returning seen_at`,
          [id, name, version, JSON.stringify(masterKeys), clock],
        );
        return Number(row?.seen_at);
      }),
    remove: async (id) => {
      await db.run('delete from nodes where id = $1', [id]);
    },
    active: async () => {
      const rows = await db.all<Row>('select * from nodes where seen_at >= :now - $1 order by name', [
        nodeLifetime,
      ]);
      return rows.map(({ id, name, version, master_keys, clock, seen_at }) => ({
        id,
        name,
        version,
        masterKeys: JSON.parse(master_keys) as string[],
        seenAt: Number(seen_at),
        clockOffset: Number(clock) - Number(seen_at),
      }));
    },
  };
}
