/** The cost of one poll of `logs tail --follow`. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { NewEntries } from '../../../src/cli/commands/logs.ts';
import { maxExamined } from '../../../src/store/audit/log.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

describe('following a log of many entries', () => {
  let server: TestServer;
  let tenant: { id: string; key: string };
  let service: Sallyport;
  let pages = 0;
  beforeAll(async () => {
    server = await openTestServer(sqlite, {}, (db) => ({
      ...db,
      all: (sql, values) => {
        if (/ from audit /.test(sql)) pages++;
        return db.all(sql, values);
      },
    }));
    server.clock.advance(Date.now() - server.clock.now());
    tenant = await server.tenant();
    service = new Sallyport({ url: server.url, key: tenant.key });
    const noise = Array.from({ length: 3 * maxExamined }, (_, at) => entry('noise', at - 86_400_000));
    await server.app.store.audit.write(noise);
    await write('first');
  }, 60_000);
  afterAll(() => server.close());

  const entry = (operation: string, after = 0): NewEntry => ({
    tenantId: tenant.id,
    at: server.clock.now() + after,
    actor: { kind: 'operator' },
    operation,
    result: 'success',
    from: {},
  });
  const write = (...operations: string[]) =>
    server.app.store.audit.write(operations.map((operation) => entry(operation)));

  test.each([{ operation: 'wanted' }, {}])(
    'with the filter %j, a poll reads two pages and returns the new entries',
    async (filter) => {
      const newEntries = new NewEntries(service, filter);
      const poll = async () => {
        const before = pages;
        const found = (await newEntries.poll()).map(({ operation }) => operation);
        return [pages - before, found.filter((operation) => operation === 'wanted').length];
      };
      expect((await poll())[0]).toBe(2);
      expect(await poll()).toEqual([2, 0]);
      await write('other', 'wanted');
      expect(await poll()).toEqual([2, 1]);
      expect(await poll()).toEqual([2, 0]);
      server.clock.advance(60_000);
      await write('other');
      expect(await poll()).toEqual([2, 0]);
      await write('wanted', 'wanted');
      expect(await poll()).toEqual([2, 2]);
    },
  );
});
