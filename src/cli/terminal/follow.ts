/** Going on, until told to stop. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionError, RateLimitError, UnavailableError } from '../../../sdk/src/sallyport.ts';
import { Failure } from '../../domain/error.ts';
import { type ErrorContext, toCliError } from './cli-error.ts';
import { untilSignal } from './signals.ts';
import type { Terminal } from './terminal.ts';

/** Milliseconds between two looks, and the most between two tries while nothing answers. */
const pause = 1000;
const longest = 30_000;

/** Looks again and again. What is out of reach is told of once, and asked again after pauses that grow. */
export async function follow(
  look: (signal: AbortSignal) => Promise<void>,
  { note }: Pick<Terminal, 'note'>,
  where: ErrorContext,
): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const told = untilSignal().then(() => stop.abort());
  for (let wait = pause; !signal.aborted; await sleep(wait, undefined, { signal }).catch(() => {})) {
    try {
      await Promise.race([look(signal), told]);
      wait = pause;
    } catch (error) {
      if (signal.aborted) return;
      if (!mayPass(error)) throw error;
      const [what] = toCliError(error, where).errors;
      if (wait === pause) note(`sallyport: warning: ${what}; it is asked again until it answers\n`);
      wait = Math.min(2 * wait, longest);
    }
  }
}

function mayPass(error: unknown): boolean {
  if (error instanceof Failure) return error.code === 'unavailable';
  return [ConnectionError, RateLimitError, UnavailableError].some((kind) => error instanceof kind);
}
