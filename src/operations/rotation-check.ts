/** Checks before a rotation that every node can use the new master key. */
import { type ActiveNode, type Nodes, nodeLifetime } from '../store/nodes.ts';

/** Milliseconds between two checks, and the maximum time between reading the key file and writing the record. */
const pause = 200;
const inProgress = 2000;

/**
 * Returns the active nodes that cannot use the master key `id`. A node reads its key file again before it renews its
 * record. The function therefore waits until every record without the key was renewed or has expired. If it waits, it
 * calls `onWait` once, with the nodes and the seconds until the last of their records expires.
 */
export async function nodesWithoutKey(
  nodes: Nodes,
  id: string,
  onWait: (nodes: readonly ActiveNode[], seconds: number) => void,
): Promise<ActiveNode[]> {
  const start = await nodes.now();
  for (let isFirst = true; ; isFirst = false) {
    const lacking = await recordedWithoutKey(nodes, id);
    const due = lacking.filter(({ seenAt }) => seenAt <= start + inProgress);
    if (due.length === 0) return lacking;
    const lastSeen = Math.max(...due.map(({ seenAt }) => seenAt));
    if (isFirst) onWait(due, Math.ceil((lastSeen + nodeLifetime - start) / 1000));
    await Bun.sleep(pause);
  }
}

/** The active nodes whose record does not list the master key `id`. Does not wait for newer records. */
export async function recordedWithoutKey(nodes: Nodes, id: string): Promise<ActiveNode[]> {
  return (await nodes.active()).filter(({ masterKeys }) => !masterKeys.includes(id));
}
