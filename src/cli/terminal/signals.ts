import { readFileSync, writeSync } from 'node:fs';
import { Interrupted } from '../errors.ts';

/**
 * A second signal within this many milliseconds is ignored as a copy of the first. Launchers forward a signal that the
 * terminal has already sent to the whole process group.
 */
const forwardedWithin = 500;

/**
 * Resolves with the first stop signal, or with undefined when the supervisor has exited. After a second signal, the
 * process exits immediately with 130, without draining.
 */
export function untilSignal(): Promise<NodeJS.Signals | undefined> {
  return new Promise((resolve) => {
    onStopSignal(resolve, 'exited without draining');
    process.on('disconnect', () => resolve(undefined));
  });
}

/**
 * Runs work that stops early when its signal is aborted. Returns the interruption, or undefined if the work was
 * not interrupted.
 * After a second stop signal, the process exits immediately with 130.
 */
export async function stoppable(
  work: (stop: AbortSignal) => Promise<void>,
  onStop: () => void,
): Promise<Interrupted | undefined> {
  let interrupted: Interrupted | undefined;
  const controller = new AbortController();
  const off = onStopSignal((signal) => {
    if (interrupted) return;
    interrupted = new Interrupted(signal);
    controller.abort(interrupted);
    onStop();
  }, 'exited without a result');
  try {
    await work(controller.signal);
  } catch (error) {
    if (error !== interrupted) throw error;
  } finally {
    off();
  }
  return interrupted;
}

/** After a second signal, the process exits immediately with 130. Returns a function that removes the handlers. */
function onStopSignal(handle: (signal: NodeJS.Signals) => void, ifRepeated: string): () => void {
  let firstAt = Number.POSITIVE_INFINITY;
  const onSignal = (signal: NodeJS.Signals) => {
    if (performance.now() > firstAt + forwardedWithin) exitNow(ifRepeated);
    firstAt = Math.min(firstAt, performance.now());
    handle(signal);
  };
  const signals = stopSignals();
  for (const signal of signals) process.on(signal, onSignal);
  return () => {
    for (const signal of signals) process.off(signal, onSignal);
  };
}

function exitNow(consequence: string): never {
  try {
    writeSync(2, `sallyport: warning: interrupted twice; ${consequence}\n`);
  } catch {
    // Standard error is closed.
  }
  process.exit(130);
}

/**
 * Runs work that cleans up after itself if it is interrupted. Signals take effect only where the work calls
 * `checkInterrupted`, which throws `Interrupted`. `consequence` says how far the work is.
 */
export async function interruptible<T>(
  work: (checkInterrupted: () => Promise<void>) => Promise<T>,
  consequence = () => 'no file was written',
): Promise<T> {
  let stopped: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    stopped ??= signal;
  };
  const signals = stopSignals();
  for (const signal of signals) process.on(signal, onSignal);
  try {
    return await work(async () => {
      await new Promise(setImmediate);
      if (stopped) throw new Interrupted(stopped, consequence());
    });
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
}

function stopSignals(): NodeJS.Signals[] {
  return ignoresHangUp() ? ['SIGTERM', 'SIGINT'] : ['SIGTERM', 'SIGINT', 'SIGHUP'];
}

/** Whether the process was started with nohup. Only Linux reports this. */
function ignoresHangUp(): boolean {
  try {
    const ignored = /^SigIgn:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return ignored !== null && Number.parseInt(ignored[1]?.at(-1) as string, 16) % 2 === 1;
  } catch {
    return false;
  }
}
