/** Waits for what another connection, process or turn does, by asking for it again and again. */
const maxAttempts = 100_000;
/** Attempts without a pause. Then each waits for a millisecond, because another process may need the CPU. */
const atOnce = 1000;

/** Resolves when `isReached` returns true. Throws if it never does; `what` is the state that was awaited. */
export async function until(what: string, isReached: () => boolean | Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    if (await isReached()) return;
    await new Promise((resolve) => (attempt < atOnce ? setImmediate(resolve) : setTimeout(resolve, 1)));
  }
  throw new Error(`still not reached after ${maxAttempts} attempts: ${what}`);
}
