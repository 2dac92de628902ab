/** GET /logs/counts. */
import { describe, expect, test } from 'bun:test';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { databases, openTestServer, startTime } from '../../support/test-server.ts';

const time = (minutes: number) => new Date(startTime + 60_000 * minutes).toISOString();

describe.each(databases)('GET /logs/counts on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key } = await server.tenant();
  const desk: { id: string; key: string } = await server.application(key, { permissions: ['token:create'] });
  for (let number = 0; number < 5; number++) {
    server.clock.advance(10 * 60_000);
    const body = { id: `token-${number}`, container: number < 2 ? '/pci/' : '/notes/', data: 'secret' };
    expect((await server.call('POST', '/tokens', { key: desk.key, body })).status).toBe(201);
    expect((await server.call('GET', '/tokens/token-0', { key: desk.key })).status).toBe(403);
    await server.flush();
  }

  const get = (query: string, by = key) => server.call('GET', `/logs/counts?${query}`, { key: by });

  test('counts entries by result, in intervals without gaps that span the period', async () => {
    const { status, body } = await get(`from=${time(-60)}&actor=${desk.id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ totals: { success: 5, denied: 5, failed: 0 }, interval_seconds: 300 });
    expect([body.from, body.to]).toEqual([time(-60), time(50)]);
    expect(body.data).toHaveLength(23);
    expect(body.data[14]).toEqual({ from: time(10), success: 1, denied: 1, failed: 0 });
    expect(body.data[15]).toEqual({ from: time(15), success: 0, denied: 0, failed: 0 });
  });

  test('without a period starts at the first entry and agrees with the list', async () => {
    const service = new Sallyport({ url: server.url, key });
    const { totals, from } = await service.logs.counts();
    const all = await Array.fromAsync(service.logs.all());
    expect(totals.success + totals.denied).toBe(all.length);
    expect(Date.parse(from)).toBeLessThanOrEqual(Date.parse(all.at(-1)?.at ?? ''));
  });

  test('denials count the events of aggregated entries, by interval and application', async () => {
    const { key } = await server.tenant();
    const worker = await server.application(key, { permissions: ['token:create'] });
    const reader = await server.application(key, { permissions: ['token:read'] });
    for (let number = 0; number < 7; number++) await server.call('GET', '/tokens', { key: worker.key });
    await server.call('GET', '/logs', { key: reader.key });
    await server.flush();
    const { totals, denials, data } = (await get('denials=true', key)).body;
    expect(totals.denied).toBe(2);
    expect(denials.applications).toEqual([
      { id: worker.id, denials: 7 },
      { id: reader.id, denials: 1 },
    ]);
    expect([denials.total, denials.data.at(-1), denials.data.length]).toEqual([8, 8, data.length]);
    const { denials: filtered } = (await get(`denials=true&actor=${reader.id}`, key)).body;
    expect(filtered.total).toBe(1);
    expect((await get('', key)).body.denials).toBeUndefined();
  });

  test.each([
    ['operation=token.create', { success: 5, denied: 0, failed: 0 }],
    ['container=/pci/&operation=token.create', { success: 2, denied: 0, failed: 0 }],
    ['result=denied', { success: 0, denied: 5, failed: 0 }],
    ['result=success&token=token-3', { success: 1, denied: 0, failed: 0 }],
    [`operation=token.create&from=${time(15)}&to=${time(30)}`, { success: 1, denied: 0, failed: 0 }],
  ])('filters by %s', async (query, totals) => {
    expect((await get(query)).body.totals).toEqual(totals);
  });

  test.each([
    ['container=/', 'container'],
    ['transform=mask', 'transform'],
    [`from=${time(2)}&to=${time(2)}`, 'to'],
    [`from=${time(1000)}`, 'from'],
    ['result=none', 'result'],
  ])('%s is rejected', async (query, field) => {
    const { status, body } = await get(query);
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });

  test('needs a key with log:read, and counts only the entries of its tenant', async () => {
    expect((await get('', desk.key)).status).toBe(403);
    expect((await get('', 'slp_mgt_x')).status).toBe(401);
    const other = await server.tenant();
    const { body } = await get(`actor=${desk.id}`, other.key);
    expect(body.totals).toEqual({ success: 0, denied: 0, failed: 0 });
  });
});
