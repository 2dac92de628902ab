/** Reports a slow startup, for example because another node migrates the database. */
import type { Config } from './config.ts';
import { fail } from './domain/error.ts';
import { problemResponse } from './http/pipeline/problem.ts';
import { RequestInfo } from './http/pipeline/request-info.ts';
import type { Log } from './log.ts';
import { isTimeout } from './store/engine/postgres-errors.ts';

/** Milliseconds before the first report, and between later reports. */
const patience = 2000;
const interval = 60_000;

/**
 * If startup takes more than two seconds, logs what it waits for, and answers `/livez` so that an orchestrator does not
 * kill the process. Other requests get 503. Workers that share a port do not listen before they are ready.
 */
export async function reportSlowStart<T>(
  { host, port }: Config,
  log: Log,
  shared: boolean,
  open: (onStep: (waitingFor: string) => void) => Promise<T>,
): Promise<T> {
  let server: { stop(): Promise<void> } | undefined;
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

/** Returns undefined if the port is taken. Startup reports that error later, when it listens itself. */
function listen(host: string, port: number, log: Log): { stop(): Promise<void> } | undefined {
  try {
    return Bun.serve({
      hostname: host,
      port,
      development: false,
      routes: { '/livez': Response.json({ status: 'ok' }) },
      fetch: (request) => {
        const starting = fail('unavailable', { detail: 'The service is starting.', expected: true });
        return problemResponse(starting, new RequestInfo(request, () => undefined), log);
      },
    });
  } catch {
    return undefined;
  }
}
