/** What a row of the torture run is: one guarantee, and a way to try to break it. */
import type { Database } from '../test/support/test-server.ts';
import type { Fleet, FleetOptions } from './fleet.ts';
import type { Random } from './random.ts';
import type { Secrets } from './secrets.ts';

export type DatabaseName = Database['name'];

export interface Row {
  /** For `--only`; words joined by dashes. */
  readonly name: string;
  /** One sentence: what must be shown. */
  readonly must: string;
  readonly databases: readonly DatabaseName[];
  /** Whether nothing else may run beside it, because it measures time. */
  readonly alone?: boolean;
  /** Whether it looks at what the others have left behind, and so comes last. */
  readonly last?: boolean;
  run(context: Context): Promise<Outcome>;
}

export interface Outcome {
  /** What was measured, in the order in which it is shown. */
  readonly figures: Readonly<Record<string, number | string>>;
  /** What fell short, each in a sentence; none if all is well. */
  readonly shortfalls: readonly string[];
}

export interface Context {
  readonly database: Database;
  readonly seed: number;
  /** Its own sequence for every row and database. */
  readonly random: Random;
  readonly size: 'full' | 'short';
  /** The first in the full run, the second in the short one. */
  sized<T>(full: T, short: T): T;
  /** A folder for this row and database. It stays until the run is over, and all in it is searched for secrets. */
  readonly folder: string;
  /** Everything secret that a row has been handed or has made up goes in here. */
  readonly secrets: Secrets;
  /** The address of a new and empty database, which stays until the run is over. */
  freshDatabase(): Promise<string>;
  /** The program as one file that starts at once, for rows that start it often. */
  executable(): Promise<string>;
  /** Three nodes on one database, shared by all rows of this database: a row keeps to tenants of its own. */
  fleet(): Promise<Fleet>;
  /** Nodes for this row alone. They are stopped when the row ends. */
  start(options?: FleetOptions): Promise<Fleet>;
  /** What the whole run has left behind so far. */
  remains(): Promise<Remains>;
  /** Done when the row has ended, however it has; the last one given is done first. */
  defer(work: () => unknown): void;
}

/** What one run leaves for its last rows to look at. */
export interface Remains {
  /** Everything that rows and nodes have written. */
  readonly folder: string;
  /** Every database of the run. */
  readonly databaseUrls: readonly string[];
  /** The shared fleets, which still run. */
  readonly fleets: readonly Fleet[];
}

export const bothDatabases: readonly DatabaseName[] = ['SQLite', 'PostgreSQL'];
