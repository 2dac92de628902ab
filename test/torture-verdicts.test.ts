import { describe, expect, test } from 'bun:test';
import { NotFinished } from '../torture/not-finished.ts';
import { table, toStored, verdictOf } from '../torture/results-table.ts';
import type { Row } from '../torture/row.ts';
import { Run, type RunOptions } from '../torture/runner.ts';

async function resultOf(run: Row['run'], options: Partial<RunOptions> = {}) {
  const runner = new Run({ seed: 1, size: 'short', ...options });
  const row: Row = { name: 'one', requirement: 'none', databases: ['SQLite'], run };
  try {
    return await runner.one(row, 'SQLite');
  } finally {
    await runner.close();
  }
}

const idle = { delayOfTimers: async () => 1 };
const busy = { delayOfTimers: async () => 500 };
const outcome = (...failures: string[]) => Promise.resolve({ figures: {}, failures });
const late = (...failures: string[]) => Promise.resolve({ figures: {}, failures, late: ['2 s'] });

describe('a row of the torture run', () => {
  test.each([
    ['holds', 'without failures', () => outcome(), {}],
    ['FAILS', 'with failures', () => outcome('broken'), {}],
    ['FAILS', 'if it throws', () => Promise.reject(new Error('odd')), {}],
    ['not finished', 'if it gives up', () => Promise.reject(new NotFinished('slow')), {}],
    ['not finished', 'if it takes too long', () => new Promise<never>(() => {}), { rowTimeout: 0 }],
    ['FAILS', 'if a time is too long on an idle machine', () => late(), idle],
    ['not finished', 'if a time is too long on a busy machine', () => late(), busy],
    ['FAILS', 'with failures on a busy machine, too', () => late('broken'), busy],
  ] as const)('%s %s', async (verdict, _when, run, options) => {
    const result = await resultOf(run, options);
    const stored = toStored([result], 1, 'commit');
    expect(stored.map(verdictOf)).toEqual([verdict]);
    expect(table(stored)).toContain(verdict);
    expect(result.unfinished !== undefined).toBe(verdict === 'not finished');
  });
});
