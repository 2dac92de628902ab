/**
 * Runs long computations of requests in slices, so that none of them holds up other requests. In each turn of the event
 * loop, all computations together get a few milliseconds; then the process handles what has arrived. Applications take
 * turns, independent of their number of requests. The time counts against the processing limit of the application.
 */
import { fail } from '../../domain/error.ts';
import type { RunSteps, Steps } from '../../domain/steps.ts';
import type { Limits } from './limits.ts';

/** Milliseconds for all computations in one turn of the event loop. */
const turnTime = 4;
/** Maximum computations that wait, per application and in total. Their bodies are in memory: up to 1 MiB each. */
const maxWaiting = { perApplication: 32, total: 512 };

export interface Turns {
  /** Milliseconds. */
  now(): number;
  /** Calls the function in the next turn of the event loop. */
  next(work: () => void): void;
}

const eventLoop: Turns = { now: () => performance.now(), next: (work) => void setImmediate(work) };

/** Runs until the computation is complete or the time is over. Returns whether it is complete. */
type Slice = (end: number) => boolean;

export class LongWork {
  readonly #limits: Pick<Limits, 'check' | 'spend'>;
  readonly #turns: Turns;
  /** The computations of each application. The first of the first application runs next. */
  readonly #waiting = new Map<string, Slice[]>();
  #count = 0;
  /** When the time of this turn is over. Undefined before the first computation of a turn. */
  #turnEnd: number | undefined;

  constructor(limits: Pick<Limits, 'check' | 'spend'>, turns = eventLoop) {
    this.#limits = limits;
    this.#turns = turns;
  }

  /**
   * Returns the result of the computation. Throws `too_many_requests` if the application has used up its processing
   * time or has too many waiting computations, and `unavailable` if all applications together have too many.
   */
  async run<T>({ applicationId }: { applicationId: string }, steps: Steps<T>): Promise<T> {
    this.#limits.check('processing', applicationId);
    if ((this.#waiting.get(applicationId)?.length ?? 0) >= maxWaiting.perApplication) throw tooMany();
    if (this.#count >= maxWaiting.total) throw fail('unavailable', { expected: true });
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#add(applicationId, (end) => {
      try {
        for (;;) {
          const step = steps.next();
          if (step.done) resolve(step.value);
          if (step.done || this.#turns.now() >= end) return step.done === true;
        }
      } catch (error) {
        reject(error);
        return true;
      }
    });
    this.#runTurn();
    return promise;
  }

  for(principal: { applicationId: string }): RunSteps {
    return (steps) => this.run(principal, steps);
  }

  #add(application: string, slice: Slice): void {
    this.#count++;
    const others = this.#waiting.get(application);
    if (others) others.push(slice);
    else this.#waiting.set(application, [slice]);
  }

  #runTurn(): void {
    while (this.#waiting.size > 0) {
      const began = this.#turns.now();
      if (this.#turnEnd === undefined) this.#startTurn(began);
      if (began >= (this.#turnEnd as number)) return;
      this.#runNext(began);
    }
  }

  #startTurn(now: number): void {
    this.#turnEnd = now + turnTime;
    this.#turns.next(() => {
      this.#turnEnd = undefined;
      this.#runTurn();
    });
  }

  /** Runs a slice of the first computation of the first application. Both then go to the end. */
  #runNext(began: number): void {
    const [[application, slices]] = this.#waiting as unknown as [[string, Slice[]]];
    const slice = slices.shift() as Slice;
    const isComplete = slice(this.#turnEnd as number);
    this.#limits.spend('processing', application, this.#turns.now() - began);
    if (isComplete) this.#count--;
    else slices.push(slice);
    this.#waiting.delete(application);
    if (slices.length > 0) this.#waiting.set(application, slices);
  }
}

function tooMany() {
  const detail = `At most ${maxWaiting.perApplication} long requests of one application wait at a time. Send fewer at the same time.`;
  return fail('too_many_requests', { detail, retryAfter: 1 });
}
