/** Milliseconds that an item waits at most for a batch in flight to return. */
const maxDelay = 2;

export interface BatchLimits {
  readonly maxBatch: number;
  readonly maxInFlight: number;
}

/**
 * Collects items into batches: everything added in one tick, or while earlier batches are in flight, is sent
 * together. The higher the load, the larger the batches. `send` must not reject.
 */
export function batcher<T>(
  send: (batch: T[]) => Promise<void>,
  { maxBatch, maxInFlight }: BatchLimits = { maxBatch: Infinity, maxInFlight: Infinity },
): (item: T) => void {
  let waiting: T[] = [];
  let inFlight = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function sendOrWait(): void {
    if (inFlight === 0 || waiting.length >= maxBatch) sendNext();
    else timer ??= setTimeout(sendNext, maxDelay);
  }

  async function sendNext(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length === 0 || inFlight >= maxInFlight) return;
    const batch = waiting.slice(0, maxBatch);
    waiting = waiting.slice(batch.length);
    inFlight++;
    if (waiting.length > 0) sendOrWait();
    await send(batch);
    inFlight--;
    // Lets requests that arrived meanwhile join the next batch.
    if (waiting.length > 0) setImmediate(sendNext);
  }

  return (item) => {
    const count = waiting.push(item);
    if (count === 1 || count === maxBatch) setImmediate(sendOrWait);
  };
}
