/** Reads the log for a request: in turns with other requests, and with reserved memory. */

import type { Db } from '../../db/db.ts';
import { inTurns, nextTurn, type Reserve, type RunSteps, type Steps } from '../../domain/steps.ts';
import type { Pace } from '../records.ts';

type Statements = Pick<Db, 'get' | 'all'>;

/** `steps` runs the computations, in turns by default. */
export type Reader = Statements & { readonly steps?: RunSteps; readonly reserve?: Reserve | undefined };

/** SQLite blocks this thread, so statements are computations of `run`, too, or wait for their turn. */
export function pacedReader({ get, all }: Statements, { run, reserve }: Pace): Reader {
  const paced: RunSteps = run ?? ((steps) => nextTurn().then(() => inTurns(steps)));
  return {
    get: async (statement) => await paced(one(() => get(statement))),
    all: async (statement) => await paced(one(() => all(statement))),
    steps: paced,
    reserve,
  };
}

function* one<T>(work: () => T): Steps<T> {
  yield;
  return work();
}

export function compute<T>({ steps: run = inTurns }: Reader, steps: Steps<T>): Promise<T> {
  return run(steps);
}

/** Returns a function to call with the bytes that are in memory now. It reserves what was not reserved yet. */
export function peakReserver({ reserve }: Reader): (bytes: number) => void {
  let reserved = 0;
  return (bytes) => {
    if (bytes <= reserved) return;
    reserve?.(bytes - reserved);
    reserved = bytes;
  };
}
