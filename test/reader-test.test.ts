/** The questions of reader-test.md: the section exists, has the answer, and the search of /docs finds it. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildDocs } from '../docs/site/build.ts';
import { type Section, search } from '../docs/site/search.js';

const firstResults = 5;
const page = readFileSync(join(import.meta.dirname, 'reader-test.md'), 'utf8');
const rows = Array.from(
  page.matchAll(/^\| (.+?) \| \[.+?\]\(\.\.\/docs\/(.+?)\.md#(.+?)\) \| (.+?) \|$/gm),
  ([, question, file, anchor, words]) =>
    [question, `/docs/${file}#${anchor}`, words] as [string, string, string],
);

const files = await buildDocs();
const { plain } = files.find(({ path }) => /\/sections-.*\.json$/.test(path)) as { plain: Uint8Array };
const sections = JSON.parse(new TextDecoder().decode(plain)) as Section[];

test('five readers have ten questions each', () => {
  const parts = page.split(/^## /m).slice(1);
  expect(parts.map((part) => rows.filter(([question]) => part.includes(`| ${question} |`)).length)).toEqual(
    Array.from({ length: 5 }, () => 10),
  );
});

test.each(rows)('%s', (question, path, words) => {
  const section = sections.find((one) => one.path === path);
  expect(section?.text ?? `${path} does not exist`).toContain(words.replaceAll('`', ''));
  const found = search(sections, question).slice(0, firstResults);
  expect(found.map((one) => one.path)).toContain(path);
});
