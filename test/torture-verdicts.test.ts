import { describe, expect, test } from 'bun:test';
import { NotFinished } from '../torture/not-finished.ts';
import { table, toStored, verdictOf } from '../torture/results-table.ts';
import type { Row } from '../torture/row.ts';
import { Run } from '../torture/runner.ts';

async function resultOf(run: Row['run'], rowTimeout?: number) {
  const runner = new Run({ seed: 1, size: 'short', ...(rowTimeout !== undefined && { rowTimeout }) });
  const row: Row = { name: 'one', requirement: 'none', databases: ['SQLite'], run };
  try {
    return await runner.one(row, 'SQLite');
  } finally {
    await runner.close();
  }
}

const outcome = (...failures: string[]) => Promise.resolve({ figures: {}, failures });

describe('a row of the torture run', () => {
  test.each([
    ['holds', 'without failures', () => outcome(), undefined],
    ['FAILS', 'with failures', () => outcome('broken'), undefined],
    ['FAILS', 'if it throws', () => Promise.reject(new Error('odd')), undefined],
    ['not finished', 'if it gives up', () => Promise.reject(new NotFinished('slow')), undefined],
    ['not finished', 'if it takes too long', () => new Promise<never>(() => {}), 0],
  ] as const)('%s %s', async (verdict, _when, run, rowTimeout) => {
    const result = await resultOf(run, rowTimeout);
    const stored = toStored([result], 1, 'commit');
    expect(stored.map(verdictOf)).toEqual([verdict]);
    expect(table(stored)).toContain(verdict);
    expect(result.unfinished !== undefined).toBe(verdict === 'not finished');
  });
});
