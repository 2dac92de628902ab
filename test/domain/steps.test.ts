import { expect, test } from 'bun:test';
import { nextTurn, runSteps, StepBudget, type Steps } from '../../src/domain/steps.ts';

function* counting(steps: number, log: number[] = []): Steps<string> {
  for (let step = 0; step < steps; step++) {
    log.push(step);
    yield;
  }
  return `${steps} steps`;
}

test('a computation runs all of its steps, and returns its result', () => {
  const log: number[] = [];
  expect(runSteps(counting(3, log))).toBe('3 steps');
  expect(log).toEqual([0, 1, 2]);
});

test('a budget counts the steps of all computations, and pauses where they do', () => {
  const budget = new StepBudget(3);
  const steps = budget.count(counting(2));
  expect([steps.next(), steps.next(), steps.next()]).toEqual([
    { done: false, value: undefined },
    { done: false, value: undefined },
    { done: true, value: '2 steps' },
  ]);
  expect(budget.isSpent).toBe(false);
  expect(runSteps(budget.count(counting(1)))).toBe('1 steps');
  expect(budget.isSpent).toBe(true);
  expect(runSteps(budget.count(counting(5)))).toBe('5 steps');
  expect(budget.isSpent).toBe(true);
});

test('a budget of no steps is spent immediately', () => {
  expect(new StepBudget(0).isSpent).toBe(true);
});

test('the next turn comes after the work that waits already', async () => {
  const order: string[] = [];
  setImmediate(() => order.push('waiting'));
  await nextTurn();
  expect(order).toEqual(['waiting']);
});
