/** Reports a slow startup, for example because another node migrates the database. */
import type { Config } from '../config/settings.ts';
import { isTimeout } from '../db/postgres/postgres-errors.ts';
import type { Log } from '../telemetry/log.ts';

/** Milliseconds before the first report, and between later reports. */
const patience = 2000;
const interval = 60_000;

interface Listener {
  stop(): Promise<void>;
}

/**
 * If startup takes more than two seconds, logs what it waits for, and calls `listen`, which answers requests until the
 * service is ready. Workers that share a port do not listen before they are ready.
 */
export async function reportSlowStart<T>(
  { host, port }: Config,
  log: Log,
  shared: boolean,
  listen: (host: string, port: number, log: Log) => Listener | undefined,
  open: (onStep: (waitingFor: string) => void) => Promise<T>,
): Promise<T> {
  let server: Listener | undefined;
  try {
    return await reportWaiting(open, (step) => {
      if (port !== 0 && !shared) server ??= listen(host, port, log);
      log.warn('startup is waiting', { for: step });
    });
  } finally {
    await server?.stop();
  }
}

/** Calls `report` with the current step after two seconds, and then every minute. */
export async function reportWaiting<T>(
  open: (onStep: (waitingFor: string) => void) => Promise<T>,
  report: (waitingFor: string) => void,
): Promise<T> {
  let step = '';
  const repeat = () => {
    report(step);
    timer = setTimeout(repeat, interval);
  };
  let timer = setTimeout(repeat, patience);
  try {
    return await open((waitingFor) => {
      step = waitingFor;
    });
  } finally {
    clearTimeout(timer);
  }
}

/** Milliseconds for which timeouts are retried, and between two attempts. */
const retryFor = 30_000;
const pause = 200;

/**
 * Repeats startup work after a database timeout. Startup uses the timeouts of requests, and may exceed them if many
 * processes start together on one machine. Other errors, such as a refused connection, are not retried.
 */
export async function retryTimeouts<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + retryFor;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isTimeout(error) || performance.now() > deadline) throw error;
      await Bun.sleep(pause);
    }
  }
}
