import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sqlInSource } from '../../support/sql-in-source.ts';

const page = readFileSync(join(import.meta.dirname, '../../../docs/scaling.md'), 'utf8');
const section = page.slice(page.indexOf('## PostgreSQL-compatible'), page.indexOf('## Sizing'));

/** The names in backticks in the first column of the table with this heading. */
function listed(heading: string): string[] {
  const start = section.indexOf(`| ${heading} |`);
  const rows = section.slice(start, section.indexOf('\n\n', start)).split('\n').slice(2);
  return rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
  );
}

const sql = sqlInSource().join('\n').replace(/\s+/g, ' ');

/** The names that the pattern captures, except those that only SQLite has. */
const found = (pattern: RegExp) =>
  [...new Set([...sql.matchAll(pattern)].map(([, name = '']) => name))].filter(
    (name) => !/^(pragma_|sqlite_|quick_check$)/.test(name),
  );

/** Clauses that some databases lack. Unused ones are listed, too: the test fails if one is used and not documented. */
const clauses: Record<string, RegExp> = {
  'collate "C"': /collate "C"/,
  'create unique index': /create unique index/,
  'create index … where': /create (unique )?index [^;]* where /,
  references: / references /,
  'on delete cascade': /on delete cascade/,
  check: / check \(/,
  'on conflict do nothing': /on conflict (\([^)]*\) )?do nothing/,
  'on conflict do update': /on conflict (\([^)]*\) )?do update/,
  returning: / returning /,
  'for update': /for update/,
  'for no key update': /for no key update/,
  'for share': /for share/,
  'skip locked': /skip locked/,
  lateral: / lateral /,
  'set local': /set local /,
  analyze: /analyze /,
  'create table if not exists': /create table if not exists/,
  nowait: / nowait/,
  'distinct on': /distinct on/,
  'with recursive': /with recursive/,
  'filter (where': /filter \(where/,
  over: / over \(/,
  trigger: /create (constraint )?trigger/,
  function: /create (or replace )?function/,
  sequence: /create sequence|bigserial|generated always as/,
  materialized: /materialized/,
  merge: /merge into/,
  deferrable: /deferrable/,
};

test('every clause and type of the SQL is documented, and nothing else', () => {
  const used = Object.keys(clauses).filter((name) => clauses[name]?.test(sql));
  const types = found(
    /\b(uuid|bytea|bigint|integer|text|boolean|jsonb?|numeric|timestamptz?|interval)(?= not null| primary|,)/g,
  );
  expect(listed('clause').sort()).toEqual([...used, ...types].sort());
});

test('every function, system view and cast of the SQL is documented, and nothing else', () => {
  const functions = found(/\b([a-z_]+)\(/g);
  const views = found(/\b(?:from|join) ((?:pg_|information_schema\.)\w+)/g);
  expect(listed('function or view').sort()).toEqual([...new Set([...functions, ...views])].sort());
  expect(found(/::(\w+)/g).sort()).toEqual(['bigint', 'int', 'regclass']);
});
