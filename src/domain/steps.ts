/** A computation that can pause between its steps. Each step takes at most about a millisecond. */
export type Steps<T> = Generator<void, T, void>;

/** Lets the process handle other requests. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Runs a computation without pauses, where nothing else waits for the process. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
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
