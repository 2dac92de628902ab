import { expect, test } from 'bun:test';
import type { Condition } from '../../src/domain/rule.ts';
import { narrowest } from '../../src/domain/scope.ts';

const id = (operator: Condition['operator'], value: string): Condition => ({
  attribute: 'id',
  operator,
  value,
});
const inContainer = (value: string): Condition => ({
  attribute: 'container',
  operator: 'starts_with',
  value,
});

test.each<[string, Condition[], Condition[] | undefined]>([
  ['none without scopes', [], []],
  [
    'the longest prefix',
    [id('starts_with', 'card-1'), id('starts_with', 'c')],
    [id('starts_with', 'card-1')],
  ],
  [
    'the value that has the prefix',
    [id('starts_with', 'c'), id('equals', 'card-1')],
    [id('equals', 'card-1')],
  ],
  [
    'the narrowest of each attribute, the id first',
    [inContainer('/pci/'), id('equals', 'card-1'), inContainer('/pci/high/')],
    [id('equals', 'card-1'), inContainer('/pci/high/')],
  ],
  ['undefined if they contradict each other', [inContainer('/pci/'), inContainer('/a/')], undefined],
])('the narrowest conditions are %s', (_, conditions, expected) => {
  expect(narrowest(conditions)).toEqual(expected);
});
