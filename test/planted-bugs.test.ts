/** The bugs that `npm run torture:planted` inserts still fit the source. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bugs } from '../torture/bugs.ts';
import { rows } from '../torture/rows.ts';

test.each(bugs.map((bug) => [bug.name, bug] as const))('%s', (_, { row, database, changes }) => {
  expect(rows.find(({ name }) => name === row)?.databases).toContain(database);
  for (const { file, from } of changes) {
    const text = readFileSync(join(import.meta.dirname, '..', file), 'utf8');
    expect([file, from, text.split(from).length - 1]).toEqual([file, from, 1]);
  }
});

test('names of rows are unique', () => {
  expect(new Set(rows.map(({ name }) => name)).size).toBe(rows.length);
});
