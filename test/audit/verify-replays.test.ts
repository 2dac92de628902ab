import { expect, test } from 'bun:test';
import { ReplayCheck } from '../../src/audit/proof/check.ts';

interface Numbered {
  readonly seq: number;
  readonly id: string;
  readonly time: number;
}

const row = (seq: number, number = seq, time = number): Numbered => ({ seq, id: `id-${number}`, time });

function copiesIn(rows: readonly Numbered[]): { copies: number[][]; isReadAgain: boolean } {
  const copies: number[][] = [];
  const check = new ReplayCheck((...copy) => copies.push(copy));
  for (const { seq, id, time } of rows) check.add(seq, id, time);
  const isReadAgain = check.isUndecided;
  for (const { seq, id } of isReadAgain ? rows : []) check.compare(seq, id);
  return { copies, isReadAgain };
}

const count = 40_000;
const rows = Array.from({ length: count }, (_, index) => row(index + 1));

test('copies of recent entries are found without reading the log again', () => {
  const some = [...rows, row(count + 1, count), row(count + 2, count - 100)];
  expect(copiesIn(some)).toEqual({
    copies: [
      [count + 1, count],
      [count + 2, count - 100],
    ],
    isReadAgain: false,
  });
});

test('copies of old entries are found by reading the log again', () => {
  expect(copiesIn([...rows, row(count + 1, 5)])).toEqual({ copies: [[count + 1, 5]], isReadAgain: true });
});

test('entries that are late, or in two files, are no copies', () => {
  const late = row(count + 1, count + 1, 5);
  expect(copiesIn([...rows, late, ...rows.slice(-10), late])).toEqual({ copies: [], isReadAgain: true });
});
