/**
 * Detects a PostgreSQL server that is behind: an old primary that runs again, a standby that was promoted without the
 * newest changes, or a restored backup. There, revoked keys would be valid again.
 *
 * Every node increases `beat` in the table `heartbeat` once a second, and remembers the newest position that it has
 * seen. A server with an older position is refused. So is a copy: a database on another server than the one in which
 * nodes count, or with another id there.
 */

/** Maximum databases whose positions are stored. */
const maxInstallations = 10;

export interface Position {
  /** Identifies the database. Positions of different databases are not compared. */
  readonly installation: string;
  /** How often an operator has accepted a database that was behind. */
  readonly era: number;
  /** PostgreSQL increases it when a standby is promoted. 0 if the database has no timelines. */
  readonly timeline: number;
  readonly beat: number;
}

/** The position of a server. Server and database are unknown if the role may not read them. */
export interface ServerPosition extends Position {
  /** The server and the database in which nodes increase the beat. */
  readonly home?: string;
  /** The server and the database that answered. */
  readonly here?: string;
}

/** Positions of a database that nodes have recorded. */
export interface KnownPositions {
  /**
   * The newest positions that this node and other nodes have seen. Call it before the position of a server is read:
   * other nodes increase the beat all the time, so what they have seen later says nothing about that server.
   */
  newest(): Promise<readonly Position[]>;
  /** The newest positions that the nodes at these URLs have seen, unless `newest` asks them. */
  ask(urls: readonly string[]): Promise<readonly Position[]>;
  /** Whether a restored copy of a database is used, too. */
  readonly acceptsCopies?: boolean;
  /** Called with the position of each server that is used. */
  saw(position: Position, host: string): void;
}

/** Accepts every server. */
export const anyPosition: KnownPositions = {
  newest: async () => [],
  ask: async () => [],
  acceptsCopies: true,
  saw: () => {},
};

/** Whether the database was restored from a dump, or copied, since a node last used it. */
export function isCopy({ home, here }: ServerPosition): boolean {
  return home !== undefined && here !== undefined && home !== here;
}

export function isBehind(found: Position, seen: Position): boolean {
  if (found.installation !== seen.installation || found.era > seen.era) return false;
  return found.era < seen.era || found.timeline < seen.timeline || found.beat < seen.beat;
}

/** A position that was seen and that the database does not have. Undefined if it has all. */
export function newerThan(found: Position, seen: readonly Position[]): Position | undefined {
  return seen.find((each) => isBehind(found, each));
}

/** The positions with this one, unless a newer one of the same database is there. The one that was seen last is the first. */
export function withPosition(positions: readonly Position[], seen: Position): readonly Position[] {
  const { installation, era, timeline, beat } = seen;
  const known = positions.find((each) => each.installation === installation);
  if (known && isBehind(seen, known)) return positions;
  const others = positions.filter((each) => each !== known);
  return [{ installation, era, timeline, beat }, ...others].slice(0, maxInstallations);
}

export function isPosition(value: unknown): value is Position {
  const { installation, era, timeline, beat } = (value ?? {}) as Position;
  return typeof installation === 'string' && [era, timeline, beat].every(Number.isSafeInteger);
}

export function describePosition({ era, timeline, beat }: Position): string {
  return `beat ${beat} of timeline ${timeline}${era === 0 ? '' : ` (accepted ${era} times)`}`;
}
