/** A PATCH without `data` and `mask` does not write them again, and reads only the data that it returns. */

import { describe, expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import type { Db, Transaction } from '../../../src/db/db.ts';
import { boundOf } from '../../../src/db/statement.ts';
import { databases, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const megabyte = 1_000_000;

describe.each(databases)('a PATCH of a token with 1 MB of data on %s', async (name, database) => {
  /** The SQL of all changes so far. */
  let sent: string[] = [];
  const recorded = (tx: Transaction): Transaction => ({
    ...tx,
    get: (statement) => {
      sent.push(boundOf(statement)[0].trim());
      return tx.get(statement);
    },
    all: (statement) => {
      sent.push(boundOf(statement)[0].trim());
      return tx.all(statement);
    },
    run: (statement) => {
      sent.push(boundOf(statement)[0].trim());
      return tx.run(statement);
    },
    lookup: (lookup, ...wanted) => {
      sent.push(lookup.one);
      return tx.lookup(lookup, ...wanted);
    },
  });
  const through = (db: Db): Db => ({
    ...db,
    change: (work, ...rest) => db.change((tx) => work(recorded(tx)), ...rest),
  });
  const server = await openTestServer(database, {}, through);

  const call = (method: string, path: string, key: string, body?: object) =>
    server.call(method, path, { key, body });

  const tenant: { id: string; key: string } = await server.tenant();
  const body = {
    id: 'large',
    data: { name: 'Ada', secret: 'x'.repeat(megabyte) },
    mask: { name: '{{ data.name }}' },
  };
  expect((await call('POST', '/tokens', tenant.key, body)).status).toBe(201);

  /**
   * The bytes written so far. On SQLite, the size of the write-ahead log. PostgreSQL shares its log between databases,
   * so each new version of the row counts as 5 MB there.
   */
  async function written(): Promise<number> {
    const { databaseUrl: url } = server.config;
    if (name === 'SQLite') return statSync(`${url.slice('sqlite:'.length)}-wal`).size;
    const [row] = await runSql<{ version: string }>(url, 'select xmin::text as version from token_contents');
    versions.add(String(row?.version));
    return versions.size * 5 * megabyte;
  }
  const versions = new Set<string>();

  async function withTransform(transform: string): Promise<string> {
    const permissions = ['token:read', 'token:update', 'token:delete'];
    const rule = { priority: 1, container: '/', transform, permissions };
    return (await server.application(tenant.key, { rules: [rule] })).key;
  }

  const changes: object[] = [
    { metadata: { colour: 'blue' } },
    { type: 'card' },
    { container: '/moved/' },
    { expires_at: '2090-01-01T00:00:00.000Z' },
    { metadata: null },
  ];

  test.each(['redact', 'mask', 'reveal'])(
    'writes little for a caller with the transform %s',
    async (transform) => {
      const key = await withTransform(transform);
      await call('PATCH', '/tokens/large', key, { type: 'first' });
      const before = await written();
      for (const body of changes) expect((await call('PATCH', '/tokens/large', key, body)).status).toBe(200);
      // Rewriting the data would take 5 MB.
      expect((await written()) - before).toBeLessThan(2 * megabyte);
    },
  );

  test('returns the data to a caller with the transform reveal, and reads none of it for redact', async () => {
    const [redact, reveal] = [await withTransform('redact'), await withTransform('reveal')];
    const contents = () => sent.filter((sql) => sql.includes('token_contents'));
    sent = [];
    expect((await call('PATCH', '/tokens/large', redact, { type: 'second' })).body.data).toBeUndefined();
    expect(sent.filter((sql) => sql.includes('tokens')).length).toBeGreaterThan(0);
    expect(contents()).toEqual([]);
    const { body } = await call('PATCH', '/tokens/large', reveal, { type: 'third' });
    expect(body.data.secret).toHaveLength(megabyte);
    expect(contents()).toEqual([expect.stringMatching(/^select/)]);
  });
});
