import { describe, expect, test } from 'bun:test';
import { Memo, type Shelf } from '../../src/domain/memo.ts';

function keepAll(memo: Memo<number>, shelf: Shelf<number>, keys: string): void {
  for (const key of keys) memo.keep(shelf, key, key.charCodeAt(0));
}

describe('answers that are remembered', () => {
  test('are found by what was asked', () => {
    const shelf: Shelf<number> = new Map();
    keepAll(new Memo(3), shelf, 'abc');
    expect([...shelf]).toEqual([
      ['a', 97],
      ['b', 98],
      ['c', 99],
    ]);
  });

  test('stay when there is no room for more', () => {
    const shelf: Shelf<number> = new Map();
    keepAll(new Memo(3), shelf, 'abcde');
    expect([...shelf.keys()].join('')).toBe('abc');
  });

  test('make way for new ones once as many were turned away as there is room for, time and again', () => {
    const shelf: Shelf<number> = new Map();
    const memo = new Memo<number>(3);
    keepAll(memo, shelf, 'abcdef');
    expect([...shelf.keys()].join('')).toBe('f');
    keepAll(memo, shelf, 'ghijk');
    expect([...shelf.keys()].join('')).toBe('k');
  });

  test('are never more than the limit on all shelves together, and are forgotten on all of them', () => {
    const memo = new Memo<number>(3);
    const shelves: Shelf<number>[] = [new Map(), new Map(), new Map()];
    const sizes = Array.from('abcdefghijklmnopqrstuvwxyz', (key, at) => {
      keepAll(memo, shelves[at % 3] as Shelf<number>, key);
      return shelves.reduce((sum, { size }) => sum + size, 0);
    });
    expect(sizes.slice(0, 12)).toEqual([1, 2, 3, 3, 3, 1, 2, 3, 3, 3, 1, 2]);
    expect(Math.max(...sizes)).toBe(3);
  });
});
