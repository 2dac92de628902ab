/**
 * Rows and exports that an earlier version wrote must verify for ever. The files of each format were written by the
 * first version with that format. They never change: a new format gets new files.
 */

import { beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openStore } from '../../src/store/open.ts';
import { exportOf, mastersOf, named, verify, verifyAll } from '../support/audit-export.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { databases, generousTimeout } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

const masters = mastersOf('AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=');
const fixture = (name: string) => readFileSync(join(import.meta.dirname, 'fixtures', name), 'utf8');
const linesOf = (name: string) => fixture(name).trimEnd().split('\n');
const exported = linesOf('format-1.jsonl');
const archive = linesOf('format-1.archive.jsonl');
/** The rows by table. Byte columns are in hex, as `{ "hex": "00ff" }`. */
const tables: Record<string, Record<string, Value>[]> = JSON.parse(fixture('format-1.rows.json'));
type Value = string | number | null | { hex: string };

test('an export and an archive of format 1 verify', async () => {
  const together = await verifyAll({ exported, archive }, { masters });
  expect(together).toMatchObject({ ok: true, findings: [], chains: [{ entries: 1 }, { entries: 5 }] });
  expect(named(await verify(exported, { masters }))).toEqual(['missing_archive 1']);
});

test.each<[string, (line: string) => string]>([
  ['a segment of an unknown format', (line) => line.replace('"segment","format":1', '"segment","format":9')],
  [
    'a header of an unknown format',
    (line) => line.replace('sallyport audit export 1', 'sallyport audit export 2'),
  ],
])('%s is reported as that', async (_, change) => {
  const verdict = await verify(archive.map(change), { masters });
  expect(verdict.findings[0]?.code).toBe('unknown_format');
  expect(verdict.findings[0]?.message).toMatch(
    /^(segment \d|the export) has the format .*, which this version cannot verify: use a newer/,
  );
});

const tenantId = '0199c9a5-5a00-7000-8000-000000000001';

describe.each(databases)('segments of format 1 on %s', (name, database) => {
  let folder: string;
  let url: string;
  beforeEach(async () => {
    folder = temporaryFolder();
    url = await database.createEmpty(folder);
  });

  function literal(value: Value): string {
    if (value === null || typeof value === 'number') return String(value);
    if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`;
    return name === 'SQLite' ? `x'${value.hex}'` : `'\\x${value.hex}'`;
  }

  test('are exported unchanged, verify, and new segments continue the chain', async () => {
    await (await openStore(url, { timeout: generousTimeout })).close();
    for (const [table, rows] of Object.entries(tables))
      for (const row of rows) {
        const values = Object.values(row).map(literal);
        await runSql(
          url,
          `insert into ${table} (${Object.keys(row).join(', ')}) values (${values.join(', ')})`,
        );
      }
    const { store, maintenance, close } = await openStore(url, { masters, timeout: generousTimeout });
    const lines = await exportOf({ maintenance });
    const isProof = (line: string) => /^\{"kind":"(segment|entry)"/.test(line);
    expect(lines.filter(isProof)).toEqual(exported.filter(isProof));
    expect(await verifyAll({ lines, archive }, { masters })).toMatchObject({ ok: true, entries: 6 });
    const { entries } = await store.audit.list(tenantId, { token: 'card-1' }, { limit: 9 });
    expect(entries.map(({ operation }) => operation)).toEqual(['token.update']);
    const entry = { actor: { kind: 'operator' }, operation: 'x', result: 'success', from: {} } as const;
    await store.audit.write([{ ...entry, tenantId, at: Date.now() }]);
    const later = await exportOf({ maintenance });
    expect(await verifyAll({ later, archive }, { masters })).toMatchObject({ ok: true, entries: 7 });
    await close();
  });
});
