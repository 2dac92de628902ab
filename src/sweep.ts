import type { Log } from './log.ts';
import type { Store } from './store/store.ts';

const every = 30_000;
const batch = 500;

/** Frees the space of expired rows now and then, in small batches. Nothing depends on it: expired is absent. */
export function startSweep(store: Store, log: Log): { stop(): Promise<void> } {
  let running: Promise<void> = Promise.resolve();
  let stopped = false;

  async function sweep(): Promise<void> {
    try {
      let removed = 0;
      for (let last = batch; last >= batch && !stopped; removed += last) last = await store.sweep(batch);
      if (removed > 0) log.debug('swept', { removed });
    } catch (error) {
      log.warn('sweep failed', { error });
    }
  }

  const timer = setInterval(() => {
    running = running.then(sweep);
  }, every);
  timer.unref();
  return {
    stop: () => {
      stopped = true;
      clearInterval(timer);
      return running;
    },
  };
}
