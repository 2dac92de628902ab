/** The short torture run: every row, at its smallest size. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { citusBinaries } from '../torture/crash/citus.ts';
import { rows } from '../torture/rows.ts';
import { type Result, Run } from '../torture/runner.ts';
import { isMissing } from './support/skip.ts';

const seed = 7;
/** Milliseconds. With Citus, the run can take more than ten minutes. */
const maxTime = 2_400_000;
const noCitus = isMissing(citusBinaries() !== undefined, 'torture rows on Citus: it is not installed');

describe(`short torture run, seed ${seed}:`, () => {
  const run = new Run({ seed, size: 'short' });
  let results: Result[] = [];
  beforeAll(async () => {
    results = await run.all(rows);
  }, maxTime);
  afterAll(() => run.close());

  const cases = rows.flatMap((row) =>
    row.databases
      .filter((database) => database !== 'Citus' || !noCitus)
      .map((database) => [row.requirement, database, row] as const),
  );
  test.each(cases)('%s (%s)', (_must, database, row) => {
    const found = results.find((result) => result.row === row && result.database === database);
    expect([found?.failures, found?.unfinished]).toEqual([[], undefined]);
  });
});
