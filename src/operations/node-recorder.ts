/** Records this node in the database, so that a rotation of the master key and `doctor` know about it. */
import { hostname } from 'node:os';
import { version } from '../config/version.ts';
import { newId } from '../domain/key.ts';
import type { MasterKeys } from '../store/crypto/keyring.ts';
import type { Nodes } from '../store/nodes.ts';
import type { Log } from '../telemetry/log.ts';

/** Milliseconds after which the row is renewed. Two attempts can fail before the row expires. */
const renewal = 15_000;
/** Milliseconds. A larger difference between the clocks is logged. */
export const clockTolerance = 2000;

export interface NodeRecorder {
  /** Writes the row if it must be renewed, or if the master keys of this node have changed. */
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
): NodeRecorder {
  const id = newId(now());
  const name = `${hostname()} (process ${process.pid})`;
  let written: { readonly at: number; readonly masterKeys: string } | undefined;
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
      const [at, masterKeys] = [now(), readIds(masters)];
      const isSame = written?.masterKeys === masterKeys.join();
      if (isSame && written && Math.abs(at - written.at) < renewal) return;
      const decisive = await nodes.record({ id, name, version, masterKeys, clock: at });
      written = { at, masterKeys: masterKeys.join() };
      checkClock(at - decisive);
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
