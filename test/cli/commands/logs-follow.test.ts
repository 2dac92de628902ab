/** The cost of one poll of `logs tail --follow`. */

import { describe, expect, test } from 'bun:test';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { maxExamined } from '../../../src/audit/log/search.ts';
import { newEntries } from '../../../src/cli/commands/logs.ts';
import { boundOf, type Statement } from '../../../src/db/statement.ts';
import { then } from '../../../src/domain/awaitable.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

describe('following a log of many entries', async () => {
  let rows = 0;

  const entry = (operation: string, after = 0): NewEntry => ({
    tenantId: tenant.id,
    at: server.clock.now() + after,
    actor: { kind: 'operator' },
    operation,
    result: 'success',
    from: {},
  });
  const write = async (...operations: string[]) => {
    await server.app.store.audit.write(operations.map((operation) => entry(operation)));
    await server.app.maintenance.audit.seal();
  };

  const server = await openTestServer(sqlite, {}, (db) => ({
    ...db,
    all: <R>(statement: Statement) =>
      then(db.all<R>(statement), (found) => {
        if (/ from audit_segments /.test(boundOf(statement)[0])) rows += found.length;
        return found;
      }),
  }));
  server.clock.advance(Date.now() - server.clock.now());
  const tenant: { id: string; key: string } = await server.tenant();
  const service = new Sallyport({ url: server.url, key: tenant.key });
  const noise = Array.from({ length: 3 * maxExamined }, (_, at) => entry('noise', at - 86_400_000));
  await server.app.store.audit.write(noise);
  await write('first');

  test.each([{ operation: 'wanted' }, {}])(
    'with the filter %j, a poll examines only new entries, and returns each once',
    async (filter) => {
      const added = await newEntries(service, filter);
      const poll = async () => {
        const before = rows;
        const found = (await Array.fromAsync(added.poll())).flat().map(({ operation }) => operation);
        expect(rows - before).toBeLessThan(250);
        return found.filter((operation) => operation === 'wanted').length;
      };
      expect(await poll()).toBe(0);
      await write('other', 'wanted');
      expect(await poll()).toBe(1);
      expect(await poll()).toBe(0);
      await server.app.store.audit.write(Array.from({ length: 120 }, () => entry('wanted', -60_000)));
      await write('other');
      expect(await poll()).toBe(120);
      expect(await poll()).toBe(0);
    },
  );

  test('starts after a given entry, and does not return what the caller skips', async () => {
    const { data } = await service.logs.list({ size: 1 });
    await write('one', 'two', 'three');
    const added = await newEntries(service, {}, data[0]?.id);
    added.skip((await service.logs.list({ size: 1 })).data);
    const found = (await Array.fromAsync(added.poll())).flat().map(({ operation }) => operation);
    expect(found).toEqual(['one', 'two']);
  });

  test('returns the first entries of a log that was empty', async () => {
    const { id, key } = await server.tenant();
    const empty = new Sallyport({ url: server.url, key });
    const added = await newEntries(empty, {});
    await server.app.store.audit.write(
      ['one', 'two'].map((operation) => ({ ...entry(operation), tenantId: id })),
    );
    const found = (await Array.fromAsync(added.poll())).flat().map(({ operation }) => operation);
    expect(found).toEqual(['one', 'two']);
    expect((await Array.fromAsync(added.poll())).flat()).toEqual([]);
  });
});
