/**
 * Detects a PostgreSQL server that is behind: an old primary that runs again, a standby that was promoted without the
 * newest changes, or a restored backup. There, revoked keys would be valid again.
 *
 * Every node increases `beat` in the table `heartbeat` once a second, and remembers the newest position that it has
 * seen. A server with an older position is refused.
 */

export interface Position {
  /** Identifies the database. Positions of different databases are not compared. */
  readonly installation: string;
  /** How often an operator has accepted a database that was behind. */
  readonly era: number;
  /** PostgreSQL increases it when a standby is promoted. 0 if the database has no timelines. */
  readonly timeline: number;
  readonly beat: number;
}

/** Positions of a database that nodes have recorded. */
export interface KnownPositions {
  /**
   * The newest positions that this node and other nodes have seen. Call it before the position of a server is read:
   * other nodes increase the beat all the time, so what they have seen later says nothing about that server.
   */
  newest(): Promise<readonly Position[]>;
  /** Called with the position of each server that is used. */
  saw(position: Position, host: string): void;
  /** Called after each attempt to connect to a Citus worker, with the error if it failed. */
  triedWorker?(worker: string, error?: Error): void;
}

/** Accepts every server. */
export const anyPosition: KnownPositions = { newest: async () => [], saw: () => {} };

export function isBehind(found: Position, seen: Position): boolean {
  if (found.installation !== seen.installation || found.era > seen.era) return false;
  return found.era < seen.era || found.timeline < seen.timeline || found.beat < seen.beat;
}

/** A position that was seen and that the database does not have. Undefined if it has all. */
export function newerThan(found: Position, seen: readonly Position[]): Position | undefined {
  return seen.find((each) => isBehind(found, each));
}

export function describePosition({ era, timeline, beat }: Position): string {
  return `beat ${beat} of timeline ${timeline}${era === 0 ? '' : ` (accepted ${era} times)`}`;
}
