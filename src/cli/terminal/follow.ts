import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionError, RateLimitError, UnavailableError } from '../../../sdk/src/sallyport.ts';
import { Failure } from '../../domain/error.ts';
import { type ErrorContext, toCliError } from './cli-error.ts';
import { untilSignal } from './signals.ts';
import type { Terminal } from './terminal.ts';

/** Milliseconds between two polls, and the longest delay between two retries. */
const interval = 1000;
const maxDelay = 30_000;

/**
 * Polls until interrupted. If the service or the database is unavailable, warns once and retries with exponential
 * backoff.
 */
export async function follow(
  poll: (signal: AbortSignal) => Promise<void>,
  { writeError }: Pick<Terminal, 'writeError'>,
  errorContext: ErrorContext,
): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const interrupted = untilSignal().then(() => stop.abort());
  for (let delay = interval; !signal.aborted; await sleep(delay, undefined, { signal }).catch(() => {})) {
    try {
      await Promise.race([poll(signal), interrupted]);
      delay = interval;
    } catch (error) {
      if (signal.aborted) return;
      if (!isTemporary(error)) throw error;
      const [message] = toCliError(error, errorContext).errors;
      if (delay === interval) writeError(`sallyport: warning: ${message}; retrying\n`);
      delay = Math.min(2 * delay, maxDelay);
    }
  }
}

function isTemporary(error: unknown): boolean {
  if (error instanceof Failure) return error.code === 'unavailable';
  return [ConnectionError, RateLimitError, UnavailableError].some((kind) => error instanceof kind);
}
