import type { Steps } from '../../src/domain/steps.ts';

/** Runs a computation without pauses. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
