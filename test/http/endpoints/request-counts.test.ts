/** GET /requests/counts. */

import { describe, expect, test } from 'bun:test';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import type { Db } from '../../../src/db/db.ts';
import { boundOf, type Statement } from '../../../src/db/statement.ts';
import { durationLimits } from '../../../src/domain/request-counts.ts';
import { openBound } from '../../support/bound-client.ts';
import { databases, openTestServer, startTime, testMasterKey } from '../../support/test-server.ts';

const time = (minutes: number) => new Date(startTime + 60_000 * minutes).toISOString();

describe.each(databases)('GET /requests/counts on %s', async (_, database) => {
  let isBroken = false;
  /** Writes of request counts fail while `isBroken`. */
  const through = (db: Db): Db => {
    const check = (statement: Statement) => {
      if (isBroken && boundOf(statement)[0].includes('insert into request_counts'))
        throw new Error('the disk is full');
    };
    return {
      ...db,
      run: (statement) => {
        check(statement);
        return db.run(statement);
      },
      transaction: (work) =>
        db.transaction((tx) =>
          work({
            ...tx,
            run: (statement) => {
              check(statement);
              return tx.run(statement);
            },
          }),
        ),
    };
  };
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey }, through);

  const get = (key: string, query = '') => server.call('GET', `/requests/counts?${query}`, { key });
  const totals = async (key: string) => {
    const { requests, denied } = (await get(key)).body.totals;
    return [requests, denied];
  };
  /** Sends requests with a valid key. Returns the key and the numbers. */
  async function someRequests(node = server) {
    const { key } = await server.tenant();
    const desk = await node.application(key, { permissions: ['token:create'] });
    expect((await node.call('GET', '/applications/key', { key })).status).toBe(200);
    expect((await node.call('GET', '/tokens/none', { key: desk.key })).status).toBe(403);
    expect((await node.call('GET', '/tokens/none', { key })).status).toBe(404);
    expect((await node.call('GET', '/applications?size=x', { key })).status).toBe(400);
    return { key, desk, expected: [5, 1] };
  }

  test('counts authenticated requests and denials by time, with response times', async () => {
    const { key, desk, expected } = await someRequests();
    expect((await server.call('GET', '/applications/key', { key: `${key.slice(0, -1)}?` })).status).toBe(401);
    await server.call('GET', '/permissions', { key });
    expect(await totals(key)).toEqual([0, 0]);
    await server.flush();
    const service = new Sallyport({ url: server.url, key });
    const counts = await service.requests.counts({ from: time(-60) });
    expect([counts.totals.requests, counts.totals.denied]).toEqual([expected[0]! + 1, 1]);
    expect([counts.from, counts.interval_seconds]).toEqual([time(-60), 300]);
    expect(counts.data).toHaveLength(13);
    const { p50_ms = 0, p99_ms = 0, ...last } = counts.data.at(-1)!;
    expect(last).toEqual({ from: time(0), requests: expected[0]! + 1, denied: 1 });
    expect(durationLimits).toEqual(expect.arrayContaining([p50_ms, p99_ms]));
    expect(p50_ms).toBeLessThanOrEqual(p99_ms);
    expect(counts.data[0]).toEqual({ from: time(-60), requests: 0, denied: 0 });
    expect((await get(desk.key)).status).toBe(403);
    const other = await server.tenant();
    expect(await totals(other.key)).toEqual([0, 0]);
  });

  test('the counts of two nodes add up, and a node that stops writes its last ones', async () => {
    const node = await openTestServer(server.config.databaseUrl);
    const { key, expected } = await someRequests(node);
    expect((await server.call('GET', '/applications/key', { key })).status).toBe(200);
    await server.flush();
    await node.close();
    expect(await totals(key)).toEqual([expected[0]! + 1, 1]);
  });

  test('counts that could not be written are written later, once', async () => {
    const { key, expected } = await someRequests();
    isBroken = true;
    await server.flush();
    expect(server.logged.join()).toContain('could not write request counts');
    isBroken = false;
    expect((await server.call('GET', '/applications/key', { key })).status).toBe(200);
    await server.flush();
    await server.flush();
    expect(await totals(key)).toEqual([expected[0]! + 1, 1]);
  });

  test('a session key without its DPoP proof is not counted', async () => {
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public' });
    const browser = await openBound(server, web.key);
    expect((await browser.call('GET', '/tokens', { proof: null })).status).toBe(401);
    expect((await browser.call('GET', '/tokens')).status).toBe(403);
    await server.flush();
    expect(await totals(key)).toEqual([3, 1]);
  });

  test('a long period has few intervals', async () => {
    const { key, expected } = await someRequests();
    await server.flush();
    const { body } = await get(key, 'from=2000-01-01T00:00:00Z');
    expect(body.totals.requests).toBe(expected[0]);
    expect(body.data.length).toBeLessThanOrEqual(60);
  });

  test.each([
    [`from=${time(2)}&to=${time(2)}`, 'to'],
    [`from=${time(1000)}`, 'from'],
    ['from=yesterday', 'from'],
    ['interval=60', 'interval'],
  ])('%s is rejected', async (query, field) => {
    const { key } = await server.tenant();
    const { status, body } = await get(key, query);
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });
});
