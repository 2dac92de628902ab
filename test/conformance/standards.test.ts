/** The tests that pages about standards name exist. */
import { expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

/** Each `path` with the words after it, up to the next path or the end of the cell. */
function namedTests(page: string): [path: string, name: string][] {
  const rows = read(page)
    .split('\n')
    .filter((line) => line.startsWith('|'));
  const pattern = /`((?:test|torture)\/[\w./-]+\.ts)`(?:: ([^|]+?))?(?=(?:, |; )`(?:test|torture)\/| \|)/g;
  return rows.flatMap((row) =>
    Array.from(row.matchAll(pattern), ([, path = '', name = '']): [string, string] => [path, name]),
  );
}

test.each([
  ['docs/reference/standards.md', 30],
  ['docs/reference/asvs.md', 200],
])('every test that %s names exists', (page, atLeast) => {
  const named = namedTests(page);
  expect(named.length).toBeGreaterThan(atLeast);
  const missing = named.filter(([path, name]) => !existsSync(join(root, path)) || !read(path).includes(name));
  expect(missing).toEqual([]);
});

test('a row of docs/reference/standards.md has a test, or says why not', () => {
  const rows = read('docs/reference/standards.md')
    .split('\n')
    .filter((line) => /^\| [^-]/.test(line));
  const open = rows.filter((row) => !/`test\/|Does not apply: |Not met|Differs: |\| test \|$/.test(row));
  expect(open).toEqual([]);
});
