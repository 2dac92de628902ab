/** Compares the policy with a second evaluator. `npm run prove` does the same with many more cases. */
import { expect, test } from 'bun:test';
import { caseFromSeed, disagreement, shrink } from '../support/compare-policy.ts';

test('a naive evaluator agrees on 5,000 generated cases, in any order of the rules', () => {
  for (let seed = 0; seed < 5_000; seed++) {
    const found = disagreement(caseFromSeed(seed));
    if (found) expect(shrink(found)).toBeUndefined();
  }
});
