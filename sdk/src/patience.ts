/** How long something is waited for. Nothing of it stays behind: neither a timer nor a listener. */
import { TimeoutError } from './errors.ts';

/** What the work comes to, unless the caller gives up before. */
export async function unlessAborted<T>(
  signal: AbortSignal | undefined,
  work: () => T | Promise<T>,
): Promise<T> {
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

/** What the work comes to within so many milliseconds; `what` is named when it comes to nothing. */
export async function within<T>(
  milliseconds: number,
  what: string,
  work: () => T | Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const give = () => reject(new TimeoutError(`no ${what} within ${milliseconds} ms`));
    timer = setTimeout(give, milliseconds);
  });
  try {
    return await unlessAborted(signal, () => Promise.race([work(), late]));
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
    await unlessAborted(signal, pause);
  } finally {
    clearTimeout(timer);
  }
}
