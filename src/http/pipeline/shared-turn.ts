/**
 * On SQLite, reads that arrive at almost the same time are first received and then handled together, in the next turn
 * of the event loop. Under load, that takes a fifth to two fifths less CPU time than handling each as soon as it
 * arrives. Changes share a commit instead, and requests on PostgreSQL share queries.
 */

let next: Promise<void> | undefined;

/** Resolves in the next turn of the event loop. Calls in the same turn return the same promise. */
export function sharedTurn(): Promise<void> {
  next ??= new Promise((resolve) => {
    setImmediate(() => {
      next = undefined;
      resolve();
    });
  });
  return next;
}

/** Milliseconds between the end of a request and the next request. If the gap is shorter, more are probably waiting. */
const maxGap = 0.05;
/** Of requests that arrive alone, one of so many waits, too: a connection may have sent them together. See `inOwnTurn`. */
const maxAlone = 16;

let lastActivity = Number.NEGATIVE_INFINITY;
let alone = 0;

/** Whether a request arrived or ended right before this one arrived. Call this when a request arrives. */
export function arrivesWithOthers(arrival: number): boolean {
  const gap = arrival - lastActivity;
  lastActivity = arrival;
  return gap < maxGap || ++alone % maxAlone === 0;
}

/** Call this when a request ends. */
export function requestEnded(time: number): void {
  lastActivity = time;
}
