/** Runs rows: sequentially per database, all databases in parallel. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { citus, type Database, postgres, sqlite } from '../test/support/test-server.ts';
import { CitusCluster, citusBinaries } from './crash/citus.ts';
import { buildProgram } from './crash/executable.ts';
import { type Fleet, startFleet } from './fleet.ts';
import { NotFinished } from './not-finished.ts';
import { Random } from './random.ts';
import { allDatabases, type Context, type DatabaseName, type Outcome, type Row } from './row.ts';
import { Secrets } from './secrets.ts';

export interface RunOptions {
  readonly seed: number;
  readonly size: Context['size'];
  /** Milliseconds after which a row is stopped. It then counts as not finished. */
  readonly rowTimeout?: number;
  /** Milliseconds by which timers are late. */
  readonly delayOfTimers?: () => Promise<number>;
  /** Called when a row has ended. */
  readonly report?: (result: Result) => void;
}

export interface Result extends Omit<Outcome, 'late'> {
  readonly row: Row;
  /** Why the row did not finish. */
  readonly unfinished?: string;
  readonly database: DatabaseName;
  /** Of Citus and its PostgreSQL. */
  readonly versions?: string;
  readonly seconds: number;
}

const root = join(import.meta.dirname, '..');
const known: Record<DatabaseName, Database> = { SQLite: sqlite, PostgreSQL: postgres, Citus: citus };
/** Times are not judged on a machine whose timers are later than this, in milliseconds. */
const longestDelay = 250;
/** Ten times what the longest row usually takes. */
const defaultRowTimeout = 2_400_000;

export class Run {
  readonly #options: RunOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'sallyport-torture-'));
  readonly #secrets = new Secrets();
  readonly #databaseUrls: string[] = [];
  readonly #program = mkdtempSync(join(tmpdir(), 'sallyport-program-'));
  #built: Promise<string> | undefined;
  #versions: string | undefined;
  readonly #clusters: CitusCluster[] = [];
  readonly #fleets = new Map<DatabaseName, Promise<Fleet>>();

  constructor(options: RunOptions) {
    this.#options = options;
    chmodSync(this.#folder, 0o755);
  }

  /** One result for every row and database, in the order of the rows. Leaves Citus out where it is not installed. */
  async all(rows: readonly Row[]): Promise<Result[]> {
    const results: Result[] = [];
    const turn = async (row: Row, name: DatabaseName) => {
      const result = await this.one(row, name);
      results.push(result);
      this.#options.report?.(result);
    };
    const lane = async (name: DatabaseName) => {
      for (const row of rows) {
        if (!row.alone && !row.last && row.databases.includes(name)) await turn(row, name);
      }
    };
    const usable = allDatabases.filter((name) => name !== 'Citus' || citusBinaries() !== undefined);
    await Promise.all(usable.map(lane));
    for (const row of [...rows.filter((each) => each.alone), ...rows.filter((each) => each.last)]) {
      for (const name of row.databases) await turn(row, name);
    }
    return results.toSorted((a, b) => rows.indexOf(a.row) - rows.indexOf(b.row));
  }

  async one(row: Row, name: DatabaseName): Promise<Result> {
    const deferred: (() => unknown)[] = [];
    const began = performance.now();
    const outcome = await this.#attempt(row, this.#contextOf(row, name, deferred));
    for (const work of deferred.toReversed()) await work();
    const versions = name === 'Citus' ? this.#versions : undefined;
    return {
      row,
      database: name,
      ...outcome,
      ...(versions !== undefined && { versions }),
      seconds: (performance.now() - began) / 1000,
    };
  }

  async #attempt(row: Row, context: Context): Promise<Pick<Result, 'figures' | 'failures' | 'unfinished'>> {
    const { rowTimeout = defaultRowTimeout, delayOfTimers = measureDelay } = this.#options;
    const timeout = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => timeout.reject(new NotFinished(`stopped after ${rowTimeout / 1000} s`)),
      rowTimeout,
    );
    try {
      const { late = [], ...outcome } = await Promise.race([row.run(context), timeout.promise]);
      if (late.length === 0 || outcome.failures.length > 0) return outcome;
      const delay = Math.round(await delayOfTimers());
      if (delay <= longestDelay) return { ...outcome, failures: late };
      return { ...outcome, unfinished: `${late.join('; ')}, but timers are ${delay} ms late here` };
    } catch (error) {
      const { stack, message } = error as Error;
      if (error instanceof NotFinished) return { figures: {}, failures: [], unfinished: message };
      return { figures: {}, failures: [`the row threw: ${stack ?? message}`] };
    } finally {
      clearTimeout(timer);
    }
  }

  #contextOf(row: Row, name: DatabaseName, deferred: (() => unknown)[]): Context {
    const { seed, size } = this.#options;
    const folder = join(this.#folder, `${row.name}-${name}`);
    mkdirSync(folder, { recursive: true });
    let started = 0;
    const startCitus = async () => {
      const cluster = await this.#startCitus(folder);
      deferred.push(() => cluster.kill());
      return cluster;
    };
    const isCitus = name === 'Citus';
    const freshDatabase = async () =>
      isCitus ? (await startCitus()).coordinator.url() : this.#fresh(name, folder);
    return {
      database: known[name],
      seed,
      random: new Random(seed, `${row.name} ${name}`),
      size,
      sized: (full, short) => (size === 'full' ? full : short),
      folder,
      secrets: this.#secrets,
      citus: () => (isCitus ? startCitus() : undefined),
      freshDatabase,
      executable: () => {
        this.#built ??= buildProgram(root, this.#program);
        return this.#built;
      },
      fleet: () => this.#fleet(name),
      start: async (options = {}) => {
        const where = join(folder, `fleet-${started++}`);
        const url = options.databaseUrl ?? (await freshDatabase());
        const fleet = await startFleet(url, where, this.#secrets, options);
        deferred.push(() => fleet.close());
        return fleet;
      },
      defer: (work) => deferred.push(work),
      remains: async () => ({
        folder: this.#folder,
        databaseUrls: this.#databaseUrls,
        fleets: await Promise.all(this.#fleets.values()),
      }),
    };
  }

  async #startCitus(folder: string): Promise<CitusCluster> {
    const cluster = await CitusCluster.start(join(folder, `citus-${this.#clusters.length}`));
    this.#clusters.push(cluster);
    this.#versions ??= await cluster.versions();
    return cluster;
  }

  async #fresh(name: DatabaseName, folder: string): Promise<string> {
    if (name === 'Citus') return (await this.#startCitus(folder)).coordinator.url();
    const databaseFolder = join(folder, `database-${this.#databaseUrls.length}`);
    mkdirSync(databaseFolder, { recursive: true });
    const url = await known[name].createEmpty(databaseFolder);
    this.#databaseUrls.push(url);
    return url;
  }

  #fleet(name: DatabaseName): Promise<Fleet> {
    let fleet = this.#fleets.get(name);
    if (!fleet) {
      const folder = join(this.#folder, `fleet-${name}`);
      fleet = this.#fresh(name, folder).then((url) => startFleet(url, folder, this.#secrets));
      this.#fleets.set(name, fleet);
    }
    return fleet;
  }

  async close(): Promise<void> {
    const fleets = await Promise.allSettled(this.#fleets.values());
    for (const fleet of fleets) if (fleet.status === 'fulfilled') await fleet.value.close();
    for (const cluster of this.#clusters) await cluster.kill();
    for (const folder of [this.#folder, this.#program]) rmSync(folder, { recursive: true, force: true });
  }
}

async function measureDelay(): Promise<number> {
  const delays: number[] = [];
  for (let sample = 0; sample < 20; sample++) {
    const began = performance.now();
    await Bun.sleep(50);
    delays.push(performance.now() - began - 50);
  }
  return Math.max(...delays);
}
