import { expect, test } from 'bun:test';
import type { ExportedRow } from '../../../src/store/audit/export-format.ts';
import { ReplayCheck } from '../../../src/store/audit/verify-replays.ts';

const row = (seq: number, number = seq, at = number): ExportedRow => {
  const mac = number.toString(16).padStart(32, '0');
  return { kind: 'row', format: 2, seq, at, entry: '{}', mac };
};

async function copiesIn(rows: readonly ExportedRow[]): Promise<{ copies: number[][]; reads: number }> {
  const copies: number[][] = [];
  let reads = 0;
  async function* lines() {
    reads += 1;
    for (const one of rows) yield JSON.stringify(one);
  }
  const check = new ReplayCheck((...copy) => copies.push(copy));
  for (const one of rows) check.add(one);
  await check.end([{ lines }]);
  return { copies, reads };
}

const count = 20_000;
const rows = Array.from({ length: count }, (_, index) => row(index + 1));

test('copies of recent rows are found without reading the log again', async () => {
  const some = [...rows, row(count + 1, count), row(count + 2, count - 100)];
  expect(await copiesIn(some)).toEqual({
    copies: [
      [count + 1, count],
      [count + 2, count - 100],
    ],
    reads: 0,
  });
});

test('copies of old rows are found by reading the log again', async () => {
  expect(await copiesIn([...rows, row(count + 1, 5)])).toEqual({ copies: [[count + 1, 5]], reads: 1 });
});

test('rows that are late, or in two files, are no copies', async () => {
  const late = row(count + 1, count + 1, 5);
  expect(await copiesIn([...rows, late, ...rows.slice(-10), late])).toEqual({ copies: [], reads: 1 });
});

test('rows of format 1 have no unique MAC', async () => {
  const old = (seq: number) => ({ ...row(seq, 1), format: 1 });
  expect((await copiesIn([old(1), old(2)])).copies).toEqual([]);
});
