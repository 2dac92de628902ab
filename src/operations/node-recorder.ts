/**
 * Records this node in the database, so that a rotation of the master key, other nodes and `doctor` know about it, and
 * increases the beat of the database (see domain/database-position.ts).
 */
import { hostname } from 'node:os';
import { version } from '../config/version.ts';
import { newId } from '../domain/key.ts';
import type { MasterKeys } from '../store/crypto/keyring.ts';
import type { Nodes } from '../store/nodes.ts';
import type { Log } from '../telemetry/log.ts';
import type { PositionMemory } from './known-positions.ts';

/** Milliseconds after which the row is renewed. Two attempts can fail before the row expires. */
const renewal = 15_000;
/** Milliseconds. A larger difference between the clocks is logged. */
export const clockTolerance = 2000;

export interface NodeRecorder {
  /** Increases the beat. Writes the row if it must be renewed, or if the URL or master keys of this node have changed. */
  record(): Promise<void>;
  /** Removes the row. Logs errors and never rejects. */
  remove(): Promise<void>;
  /** Seconds by which the clock of this machine is ahead of the database. Undefined before the first row is written. */
  clockOffset(): number | undefined;
}

export function nodeRecorder(
  nodes: Nodes,
  masters: Pick<MasterKeys, 'ids'>,
  log: Log,
  now: () => number,
  url: () => string | undefined,
  positions: Pick<PositionMemory, 'setNodes'>,
): NodeRecorder {
  const id = newId(now());
  const name = `${hostname()} (process ${process.pid})`;
  let written: { readonly at: number; readonly what: string } | undefined;
  let offset: number | undefined;

  function checkClock(ahead: number): void {
    const [wasOff, isOff] = [offset ?? 0, ahead].map((value) => Math.abs(value) > clockTolerance);
    offset = ahead;
    const fields = { seconds_ahead: Math.round(ahead / 100) / 10 };
    if (isOff && !wasOff) log.warn('the clock of this machine differs from that of the database', fields);
    if (wasOff && !isOff) log.info('the clock of this machine is correct again', fields);
  }

  return {
    record: async () => {
      await nodes.beat();
      const [at, masterKeys] = [now(), readIds(masters)];
      const what = [url(), ...masterKeys].join();
      if (written?.what === what && Math.abs(at - written.at) < renewal) return;
      const decisive = await nodes.record({ id, name, version, url: url(), masterKeys, clock: at });
      written = { at, what };
      checkClock(at - decisive);
      const others = (await nodes.active()).filter((node) => node.id !== id);
      positions.setNodes(others.flatMap((node) => node.url ?? []));
    },
    remove: () =>
      nodes.remove(id).catch((error) => log.warn('could not remove the record of this node', { error })),
    clockOffset: () => (offset === undefined ? undefined : offset / 1000),
  };
}

/** Returns no ids if the key file cannot be read, because the node cannot use a new key then. */
function readIds(masters: Pick<MasterKeys, 'ids'>): readonly string[] {
  try {
    return masters.ids();
  } catch {
    return [];
  }
}
