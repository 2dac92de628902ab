/** Checks before a rotation that every node can use the new master key. */
import type { DbTime } from '../store/engine/db.ts';
import type { Maintenance } from '../store/maintenance.ts';
import type { ActiveNode } from '../store/nodes.ts';

/** In milliseconds: between two checks, and the time that a node needs at most to write a record that it has begun. */
const pause = 200;
const inProgress = 2000;

/**
 * Returns the active nodes that cannot use the master key `id`. A node reads its key file again before it renews its
 * record, so this waits until every node without the key has renewed it, or has not for so long that it expired.
 */
export async function nodesWithoutKey(
  { db, nodes }: Pick<Maintenance, 'db' | 'nodes'>,
  id: string,
  onWait: (nodes: readonly ActiveNode[]) => void,
): Promise<ActiveNode[]> {
  const start = Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
  for (let isFirst = true; ; isFirst = false) {
    const lacking = (await nodes.active()).filter(({ masterKeys }) => !masterKeys.includes(id));
    if (lacking.every(({ seenAt }) => seenAt > start + inProgress)) return lacking;
    if (isFirst) onWait(lacking);
    await Bun.sleep(pause);
  }
}
