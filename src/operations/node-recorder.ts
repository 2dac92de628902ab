/**
 * Records this node in the database, so that a rotation of the master key, other nodes and `doctor` know about it, and
 * increases the beat of the database (see domain/database-position.ts). Each record also shows whether the clock that
 * decides on expiry was set.
 */
import { hostname } from 'node:os';
import { build } from '../config/version.ts';
import type { MasterKeys } from '../db/keys/keyring.ts';
import { newId } from '../domain/key.ts';
import type { Nodes } from '../store/nodes.ts';
import type { Log } from '../telemetry/log.ts';
import type { Observer } from '../telemetry/observe.ts';
import type { Check } from './check.ts';
import type { PositionMemory } from './known-positions.ts';
import { findNodeProblems, type NodeConfig } from './node-problems.ts';

/** Milliseconds after which the row is renewed. Two attempts can fail before the row expires. */
const renewal = 15_000;
/** Milliseconds. A larger difference between the clocks, or a larger jump, is logged. */
export const clockTolerance = 2000;
/** Milliseconds without deletions after a jump forward, in which an operator or a time server can correct the clock. */
const settlingTime = 60_000;

export interface NodeRecorder {
  /** Increases the beat. Writes the row if it must be renewed, or if the URL or master keys of this node have changed. */
  record(): Promise<void>;
  /** Removes the row. Logs errors and never rejects. */
  remove(): Promise<void>;
  /** Finds the problems of this node and logs new ones. */
  findProblems(): Promise<void>;
  problems(): readonly Check[];
  /** Seconds by which the clock of this machine is ahead of the database. Undefined before the first row is written. */
  clockOffset(): number | undefined;
  /** Checks the clock that decides on expiry. Resolves to false for a minute after it was set forward. */
  isClockSettled(): Promise<boolean>;
}

export interface NodeEnvironment {
  readonly config: NodeConfig;
  readonly log: Log;
  readonly now: () => number;
  /** A clock that is not affected by changes of the system time. */
  readonly clock: () => number;
  readonly observer: Pick<Observer, 'clockJumped'>;
  /**
   * Recorded before the node listens, so that an old primary knows the address of every node that served. Only a port
   * that the system chooses is not known until then.
   */
  readonly listening: { readonly url?: string };
  readonly positions: Pick<PositionMemory, 'setNodes'>;
}

/** A reading of the clock that decides on expiry, between two readings of the monotonic clock. */
interface Reading {
  readonly time: number;
  readonly before: number;
  readonly after: number;
}

export function nodeRecorder(
  nodes: Nodes,
  masters: Pick<MasterKeys, 'ids'>,
  { config, log, now, clock: monotonic, observer, listening, positions }: NodeEnvironment,
): NodeRecorder {
  const id = newId(now());
  const name = `${hostname()} (process ${process.pid})`;
  let written: { readonly at: number; readonly what: string } | undefined;
  let offset: number | undefined;
  let reading: Reading | undefined;
  let settledAt = Number.NEGATIVE_INFINITY;
  let problems: readonly Check[] = [];

  function checkClock(ahead: number): void {
    const [wasOff, isOff] = [offset ?? 0, ahead].map((value) => Math.abs(value) > clockTolerance);
    offset = ahead;
    const fields = { seconds_ahead: Math.round(ahead / 100) / 10 };
    if (isOff && !wasOff) log.warn('the clock of this machine differs from that of the database', fields);
    if (wasOff && !isOff) log.info('the clock of this machine is correct again', fields);
  }

  function checkJump(latest: Reading): void {
    const jump = reading ? jumpBetween(reading, latest) : 0;
    reading = latest;
    if (Math.abs(jump) <= clockTolerance) return;
    const direction = jump > 0 ? 'forward' : 'back';
    if (direction === 'forward') settledAt = latest.after + settlingTime;
    observer.clockJumped(direction);
    log.warn(`the clock was set ${direction}`, { seconds: Math.round(Math.abs(jump) / 100) / 10 });
  }

  async function write(at: number, masterKeys: readonly string[]): Promise<void> {
    const before = monotonic();
    const time = await nodes.record({
      id,
      name,
      version: build(),
      url: listening.url,
      masterKeys,
      clock: at,
    });
    written = { at, what: [listening.url, ...masterKeys].join() };
    const after = monotonic();
    // The database may have taken its time at any moment in between.
    checkClock(at > time ? at - time : Math.min(0, at + after - before - time));
    checkJump({ time, before, after });
  }

  const others = async () => (await nodes.active()).filter((node) => node.id !== id);

  return {
    record: async () => {
      await nodes.beat();
      const [at, masterKeys] = [now(), readIds(masters)];
      const isSame = written?.what === [listening.url, ...masterKeys].join();
      if (isSame && written && Math.abs(at - written.at) < renewal) return;
      await write(at, masterKeys);
      positions.setNodes((await others()).flatMap(({ url }) => url ?? []));
    },
    isClockSettled: async () => {
      await write(now(), readIds(masters));
      return monotonic() >= settledAt;
    },
    findProblems: async () => {
      const known = problems.map(({ message }) => message);
      problems = await findNodeProblems(config, await others(), await nodes.schema());
      for (const { message, hint } of problems) if (!known.includes(message)) log.warn(message, { hint });
    },
    problems: () => problems,
    remove: () =>
      nodes.remove(id).catch((error) => log.warn('could not remove the record of this node', { error })),
    clockOffset: () => (offset === undefined ? undefined : offset / 1000),
  };
}

/** Milliseconds by which the clock was set between two readings, at least. Negative if it was set back. */
function jumpBetween(first: Reading, second: Reading): number {
  const advance = second.time - first.time;
  return (
    Math.max(0, advance - (second.after - first.before)) +
    Math.min(0, advance - (second.before - first.after))
  );
}

/** Returns no ids if the key file cannot be read, because the node cannot use a new key then. */
function readIds(masters: Pick<MasterKeys, 'ids'>): readonly string[] {
  try {
    return masters.ids();
  } catch {
    return [];
  }
}
