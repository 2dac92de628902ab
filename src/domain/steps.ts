/** A computation that can pause between its steps. Each step takes at most about a millisecond. */
export type Steps<T> = Generator<void, T, void>;

export type RunSteps = <T>(steps: Steps<T>) => Promise<T>;

/** Called before memory is used for this many bytes. If it throws, they must not be read. */
export type Reserve = (bytes: number) => void;

/** Runs a computation without pauses. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

const waiting: (() => void)[] = [];

/**
 * Lets the process handle other requests. One caller continues in each turn of the event loop, so that the work of many
 * concurrent requests does not add up in one turn.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(continueNext);
  });
}

function continueNext(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(continueNext);
}

/** Returns a function that lets the process handle other requests if it did not for 4 ms. */
export function pauses(): () => Promise<void> | undefined {
  let end = performance.now() + 4;
  return () => {
    if (performance.now() < end) return undefined;
    return nextTurn().then(() => {
      end = performance.now() + 4;
    });
  };
}

/** Runs the steps. Lets the process handle other requests after every 2 ms. */
export async function inTurns<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const end = performance.now() + 2;
    let step = steps.next();
    while (!step.done && performance.now() < end) step = steps.next();
    if (step.done) return step.value;
    await nextTurn();
  }
}

/** Limits the steps of one request. */
export class StepBudget {
  #left: number;

  constructor(steps: number) {
    this.#left = steps;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  /** The same computation. Its steps count against the budget, also beyond its end. */
  *count<T>(steps: Steps<T>): Steps<T> {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      this.#left--;
      yield;
    }
  }
}
