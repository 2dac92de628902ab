import { readFileSync } from 'node:fs';
import { Refused } from '../errors.ts';

/** Milliseconds within which a second signal is the first one again: a launcher passes on what the terminal sent. */
const echo = 500;

/** Resolves at the first request to stop, or when the supervisor is gone; at the second request, it ends at once. */
export function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    let told = Number.POSITIVE_INFINITY;
    const tell = () => {
      if (performance.now() > told + echo) process.exit(130);
      told = Math.min(told, performance.now());
      resolve();
    };
    for (const signal of stopSignals()) process.on(signal, tell);
    process.on('disconnect', resolve);
  });
}

/**
 * For work that leaves nothing behind when it is broken off. `heed` throws if it was told to stop since, which
 * is noticed nowhere else: whatever the work has begun, it can take back.
 */
export async function heeding<T>(work: (heed: () => Promise<void>) => Promise<T>): Promise<T> {
  let told = false;
  const tell = () => {
    told = true;
  };
  const signals = stopSignals();
  for (const signal of signals) process.on(signal, tell);
  try {
    return await work(async () => {
      await new Promise(setImmediate);
      if (told) throw new Refused('it was told to stop, and has written nothing', 'run it again');
    });
  } finally {
    for (const signal of signals) process.off(signal, tell);
  }
}

/** What asks it to stop; a terminal that is closed does so with SIGHUP. */
function stopSignals(): NodeJS.Signals[] {
  return ignoresHangUp() ? ['SIGTERM', 'SIGINT'] : ['SIGTERM', 'SIGINT', 'SIGHUP'];
}

/** Whoever starts it with nohup wants it to outlive the terminal. Only Linux tells. */
function ignoresHangUp(): boolean {
  try {
    const ignored = /^SigIgn:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return ignored !== null && Number.parseInt(ignored[1]?.at(-1) as string, 16) % 2 === 1;
  } catch {
    return false;
  }
}
