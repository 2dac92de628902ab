/** What is done now and then beside answering requests. No answer depends on any of it. */
import type { DenialLog } from '../http/pipeline/denial-log.ts';
import type { UsageRecorder } from '../http/pipeline/usage-recorder.ts';
import type { Log } from '../log.ts';
import type { Observer } from '../observe.ts';
import type { Store } from '../store/store.ts';

/** Rows that one transaction seals or removes. On SQLite other requests wait while it runs. */
const batches = { seal: 500, sweep: 100 };
/** Milliseconds for which a program that is told to stop waits for what is under way. */
const patience = 3000;

export interface BackgroundJobs {
  /** Does at once what is done now and then. */
  flush(): Promise<void>;
  /** Resolves when what was under way is done, and nothing is left waiting; or after some seconds, if it hangs. */
  stop(): Promise<void>;
}

export function startBackgroundJobs(
  store: Store,
  denials: DenialLog,
  uses: UsageRecorder,
  observer: Observer,
  log: Log,
  timers: boolean,
): BackgroundJobs {
  let stopped = false;
  const used = chore('write what was last used when', 60_000, () => uses.flush());
  const refused = chore('write refusals', 1000, () => denials.flush());
  const chores = [
    refused,
    used,
    chore('seal the audit log', 1000, () => whileFull(batches.seal, (limit) => store.audit.seal(limit))),
    chore('see how tables have grown', 1000, async () => {
      const tables = await store.renewStatistics();
      if (tables.length > 0) log.debug('looked again at tables that have grown', { tables });
    }),
    chore('look for the database', 5000, () =>
      store.ping().catch((error) => log.error('the database is out of reach', { error })),
    ),
    chore('sweep', 30_000, async () => {
      const removed = await whileFull(batches.sweep, (limit) => store.sweep(limit));
      observer.swept(removed);
      if (removed > 0) log.debug('swept', { removed });
    }),
  ];

  /** As long as a whole batch was done there may be more. */
  async function whileFull(batch: number, work: (limit: number) => Promise<number>): Promise<number> {
    let total = 0;
    for (let last = batch; last >= batch && !stopped; total += last) last = await work(batch);
    return total;
  }

  function chore(name: string, every: number, work: () => Promise<unknown>) {
    let running: Promise<unknown> | undefined;
    const turn = async () => {
      try {
        await work();
      } catch (error) {
        log.warn(`could not ${name}`, { error });
      }
      running = undefined;
    };
    const timer = timers
      ? setInterval(() => {
          running ??= turn();
        }, every)
      : undefined;
    timer?.unref();
    return {
      /** A turn that is under way may have begun too early for what is there now. */
      now: async () => {
        await running;
        running ??= turn();
        await running;
      },
      stop: () => {
        clearInterval(timer);
        return running;
      },
    };
  }

  /** At the same time, so that what hangs keeps nothing else from being written. */
  const finish = () => Promise.all([...chores.map((one) => one.stop()), refused.now(), used.now()]);

  return {
    flush: async () => {
      for (const one of chores) await one.now();
    },
    stop: async () => {
      stopped = true;
      const waited = Promise.withResolvers<void>();
      const timer = setTimeout(() => {
        log.warn('stopped without what is still under way');
        waited.resolve();
      }, patience);
      await Promise.race([finish(), waited.promise]);
      clearTimeout(timer);
    },
  };
}
