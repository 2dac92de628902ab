/** Periodic jobs of a node. No request waits for them. */

import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { DamagedChain } from '../audit/errors.ts';
import type { Retention } from '../audit/proof.ts';
import type { Trail } from '../audit/trail.ts';
import type { Maintenance } from '../store/maintenance.ts';
import type { Store } from '../store/store.ts';
import type { Log } from '../telemetry/log.ts';
import type { Observed, Observer } from '../telemetry/observe.ts';
import type { NodeRecorder } from './node-recorder.ts';

/** Maximum rows per transaction. On SQLite, other changes wait for such a transaction. */
const batchSize = { sweep: 100, notices: 100 };
/** Maximum milliseconds that `stop` waits for running jobs. */
const maxStopTime = 3000;

export interface BackgroundJobs {
  /** Runs every job once, one after the other. */
  flush(): Promise<void>;
  /**
   * Stops the timers and flushes the recorders. Resolves when running jobs have ended, or after three seconds.
   */
  stop(): Promise<void>;
}

/** Collects records in memory; `flush` writes them to the database. */
interface Recorder {
  flush(): Promise<void>;
}

interface Recorders {
  readonly trail: Pick<Trail, 'writeDue' | 'flush'>;
  readonly usage: Recorder;
  readonly requestCounter: Recorder;
  readonly node: Pick<NodeRecorder, 'record' | 'remove' | 'isClockSettled' | 'findProblems'>;
  /** Undefined if metrics are off. */
  readonly metrics: Pick<Observed, 'readGauges'> | undefined;
}

interface Data {
  readonly store: Pick<Store, 'ping'>;
  readonly maintenance: Pick<
    Maintenance,
    'audit' | 'analyzeTables' | 'reindexSearch' | 'sweep' | 'writeExpiryNotices'
  >;
}

/** Without `timers`, the jobs run only on `flush`. Without `retention`, audit entries are not deleted. */
export function startBackgroundJobs(
  { store, maintenance }: Data,
  { trail, usage, requestCounter, node, metrics }: Recorders,
  observer: Pick<Observer, 'swept'>,
  log: Log,
  timers = true,
  retention?: Omit<Retention, 'goOn'>,
): BackgroundJobs {
  let stopped = false;
  const writeUsage = job('write usage', 60_000, () => usage.flush());
  const writeRequestCounts = job('write request counts', 60_000, () => requestCounter.flush());
  const recordNode = job('record this node', 1000, () => node.record());
  const jobs = [
    recordNode,
    job('look for problems of this node', 60_000, () => node.findProblems()),
    job('write denials and reads', 1000, () => trail.writeDue()),
    writeUsage,
    writeRequestCounts,
    job('announce expiring keys', 60_000, () => whileFull(batchSize.notices, maintenance.writeExpiryNotices)),
    job('record the ends of the audit chains', 60_000, () => maintenance.audit.recordHeads()),
    job('seal audit entries', 250, maintenance.audit.sealDue),
    // Entries that other processes have left, and entries that were not committed when this one sealed.
    job('seal remaining audit entries', 10_000, () =>
      timers ? maintenance.audit.sealRest(() => !stopped) : maintenance.audit.seal(),
    ),
    job('index tokens with a new search key', 5000, () => whileFull(1, maintenance.reindexSearch)),
    job('analyze tables', 1000, async () => {
      const tables = await maintenance.analyzeTables();
      if (tables.length > 0) log.debug('analyzed tables that have grown', { tables });
    }),
    job('ping the database', 5000, () =>
      store.ping().catch((error) => log.error('the database is unreachable', { error })),
    ),
    ...(metrics ? [job('read the gauges', 5000, metrics.readGauges)] : []),
    job('check file descriptors', 1000, async () => checkFileDescriptors(log)),
    job('sweep', 30_000, async () => {
      if (!(await node.isClockSettled())) return;
      const removed = await whileFull(batchSize.sweep, maintenance.sweep);
      observer.swept(removed);
      if (removed > 0) log.debug('removed expired rows', { removed });
    }),
    ...(retention ? [job('delete old audit entries', 60_000, () => deleteDelivered(retention))] : []),
  ];

  async function deleteDelivered(given: Omit<Retention, 'goOn'>): Promise<void> {
    const chains = await maintenance.audit.deleteDelivered({ ...given, goOn: () => !stopped });
    if (chains > 0) log.info('deleted audit entries that were delivered', { chains });
  }

  /** Repeats `work` until it processes less than a full batch. Returns the total number of rows. */
  async function whileFull(batch: number, work: (limit: number) => Promise<number>): Promise<number> {
    let total = 0;
    for (let last = batch; last >= batch && !stopped; total += last) last = await work(batch);
    return total;
  }

  function job(name: string, interval: number, work: () => Promise<unknown>): Job {
    return startJob(work, timers ? interval : undefined, failureOf(log, name));
  }

  /** Runs the steps concurrently, so that the recorders are flushed even if a job hangs. */
  const finish = () =>
    Promise.all([
      ...jobs.map((one) => one.stop()),
      trail.flush().then(() => recordHeads(maintenance, log)),
      writeUsage.runNow(),
      writeRequestCounts.runNow(),
      Promise.resolve(recordNode.stop()).then(() => node.remove()),
    ]);

  return {
    flush: async () => {
      await trail.flush();
      for (const one of jobs) await one.runNow();
    },
    stop: async () => {
      stopped = true;
      const timedOut = Promise.withResolvers<void>();
      const timer = setTimeout(() => {
        log.warn('stopped while background jobs were still running');
        timedOut.resolve();
      }, maxStopTime);
      await Promise.race([finish(), timedOut.promise]);
      clearTimeout(timer);
    },
  };
}

/**
 * Without file descriptors, the server cannot accept connections, and reports nothing: clients, health checks and
 * scrapes time out.
 */
function checkFileDescriptors(log: Log): void {
  try {
    closeSync(openSync(devNull, 'r'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EMFILE' || code === 'ENFILE')
      log.error('no file descriptors are left: new connections wait', { error });
  }
}

/** Seals all entries and records the ends of the chains, so that a later truncation of the log can be detected. */
async function recordHeads({ audit }: Data['maintenance'], log: Log): Promise<void> {
  try {
    await audit.seal();
    await audit.recordHeads('all');
    await audit.seal();
  } catch (error) {
    log.warn('could not record the ends of the audit chains', { error });
  }
}

/** An audit chain that was changed needs an operator. Other failures can be temporary. */
function failureOf(log: Log, job: string): (error: unknown) => void {
  return (error) => log[error instanceof DamagedChain ? 'error' : 'warn'](`could not ${job}`, { error });
}

interface Job {
  /** Waits for a run in progress, then runs the job again. The new run sees everything recorded before this call. */
  runNow(): Promise<void>;
  /** Stops the timer. Returns a promise that resolves at the end of the run in progress. */
  stop(): Promise<unknown> | undefined;
}

/** Starts a job. Without `interval`, it runs only on `runNow`. */
function startJob(
  work: () => Promise<unknown>,
  interval: number | undefined,
  onError: (error: unknown) => void,
): Job {
  let running: Promise<unknown> | undefined;
  const run = async () => {
    try {
      await work();
    } catch (error) {
      onError(error);
    }
    running = undefined;
  };
  const timer =
    interval === undefined
      ? undefined
      : setInterval(() => {
          running ??= run();
        }, interval);
  timer?.unref();
  return {
    runNow: async () => {
      await running;
      running ??= run();
      await running;
    },
    stop: () => {
      clearInterval(timer);
      return running;
    },
  };
}
