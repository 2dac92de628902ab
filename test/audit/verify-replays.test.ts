import { expect, test } from 'bun:test';
import { ReplayCheck } from '../../src/audit/proof/replays.ts';

interface Numbered {
  readonly seq: number;
  readonly id: string;
  readonly time: number;
}

const row = (seq: number, number = seq, time = number): Numbered => ({ seq, id: `id-${number}`, time });

async function copiesIn(rows: readonly Numbered[]): Promise<{ copies: number[][]; reads: number }> {
  const copies: number[][] = [];
  let reads = 0;
  async function* segments() {
    reads += 1;
    for (const { seq, id } of rows)
      yield {
        kind: 'segment' as const,
        segment: { first: seq, entries: [{ id, at: 0, text: '', mac: new Uint8Array() }] },
      };
  }
  const check = new ReplayCheck((...copy) => copies.push(copy));
  for (const { seq, id, time } of rows) check.add(seq, id, time);
  await check.end([segments()]);
  return { copies, reads };
}

const count = 40_000;
const rows = Array.from({ length: count }, (_, index) => row(index + 1));

test('copies of recent entries are found without reading the log again', async () => {
  const some = [...rows, row(count + 1, count), row(count + 2, count - 100)];
  expect(await copiesIn(some)).toEqual({
    copies: [
      [count + 1, count],
      [count + 2, count - 100],
    ],
    reads: 0,
  });
});

test('copies of old entries are found by reading the log again', async () => {
  expect(await copiesIn([...rows, row(count + 1, 5)])).toEqual({ copies: [[count + 1, 5]], reads: 1 });
});

test('entries that are late, or in two files, are no copies', async () => {
  const late = row(count + 1, count + 1, 5);
  expect(await copiesIn([...rows, late, ...rows.slice(-10), late])).toEqual({ copies: [], reads: 1 });
});
