/** A row of the torture run: a guarantee and an attempt to break it. */
import type { Database } from '../test/support/test-server.ts';
import type { CitusCluster } from './crash/citus.ts';
import type { Fleet, FleetOptions } from './fleet.ts';
import type { Random } from './random.ts';
import type { Secrets } from './secrets.ts';

export type DatabaseName = Database['name'] | 'Citus';

export interface Row {
  /** Used with `--only`. */
  readonly name: string;
  /** The guarantee in one sentence. */
  readonly requirement: string;
  readonly databases: readonly DatabaseName[];
  /** Whether it must run alone, because it measures time. */
  readonly alone?: boolean;
  /** Whether it inspects the artifacts of other rows and must run last. */
  readonly last?: boolean;
  run(context: Context): Promise<Outcome>;
}

export interface Outcome {
  /** Measured values, in display order. */
  readonly figures: Readonly<Record<string, number | string>>;
  /** Violations of the guarantee. Empty if it holds, and if the row did not finish. */
  readonly failures: readonly string[];
  /** Times that are too long. They are failures, unless the machine is too busy to judge times. */
  readonly late?: readonly string[];
}

export interface Context {
  readonly database: Database;
  readonly seed: number;
  /** A separate sequence for each row and database. */
  readonly random: Random;
  readonly size: 'full' | 'short';
  /** Returns the first value in the full run and the second in the short run. */
  sized<T>(full: T, short: T): T;
  /** A folder for this row and database. It exists until the end of the run and is searched for secrets. */
  readonly folder: string;
  /** All secrets that a row has received or created. */
  readonly secrets: Secrets;
  /** Starts a Citus cluster, which is killed at the end of the row. Undefined on other databases. */
  citus(): Promise<CitusCluster> | undefined;
  /** Creates an empty database, which exists until the end of the run, and returns its URL. */
  freshDatabase(): Promise<string>;
  /** The program as one file, for rows that start it often. */
  executable(): Promise<string>;
  /** Three nodes on one database, shared by all rows. Each row uses its own tenants. */
  fleet(): Promise<Fleet>;
  /** Starts nodes for this row only. They are stopped when the row ends. */
  start(options?: FleetOptions): Promise<Fleet>;
  /** Artifacts of the whole run so far. */
  remains(): Promise<RunArtifacts>;
  /** Registers cleanup for the end of the row. Runs in reverse order, also after errors. */
  defer(work: () => unknown): void;
}

/** Files and databases of a run, for the rows that inspect them. */
export interface RunArtifacts {
  /** Folder with all files that rows and nodes have written. */
  readonly folder: string;
  /** All databases of the run. */
  readonly databaseUrls: readonly string[];
  /** The shared fleets, still running. */
  readonly fleets: readonly Fleet[];
}

export const bothDatabases: readonly DatabaseName[] = ['SQLite', 'PostgreSQL'];
/** Rows on Citus are skipped where it is not installed. */
export const allDatabases: readonly DatabaseName[] = [...bothDatabases, 'Citus'];
