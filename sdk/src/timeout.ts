/** Timeouts and cancellation. Timers and listeners are always removed. */
import { TimeoutError } from './errors.ts';

/** Rejects with the signal's reason if it aborts before the work is done. */
export async function withAbort<T>(signal: AbortSignal | undefined, work: () => T | Promise<T>): Promise<T> {
  if (!signal) return work();
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
  });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Throws `TimeoutError` ("no `what` within …") if the work takes longer. */
export async function withTimeout<T>(
  milliseconds: number,
  what: string,
  work: () => T | Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timedOut = new Promise<never>((_, reject) => {
    const expire = () => reject(new TimeoutError(`no ${what} within ${milliseconds} ms`));
    timer = setTimeout(expire, milliseconds);
  });
  try {
    return await withAbort(signal, () => Promise.race([work(), timedOut]));
  } finally {
    clearTimeout(timer);
  }
}

export async function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const pause = () =>
    new Promise<void>((resolve) => {
      timer = setTimeout(resolve, milliseconds);
    });
  try {
    await withAbort(signal, pause);
  } finally {
    clearTimeout(timer);
  }
}
