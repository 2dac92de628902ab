import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('a token with an expiry on %s', async (_, database) => {
  const server = await openTestServer(database);
  let key: string;
  beforeEach(async () => {
    key = (await server.tenant()).key;
  });

  const at = (milliseconds: number) => new Date(server.clock.now() + milliseconds).toISOString();
  const create = (id: string, milliseconds: number) => {
    const body = { id, data: id, metadata: { for: 'expiry' }, expires_at: at(milliseconds) };
    return server.call('POST', '/tokens', { key, body });
  };
  const get = (id: string) => server.call('GET', `/tokens/${id}`, { key });
  const patch = (id: string, body: object) => server.call('PATCH', `/tokens/${id}`, { key, body });
  const list = async (query = '') => {
    const { body } = await server.call('GET', `/tokens${query}`, { key });
    return { total: body.pagination.total_items, ids: body.data.map(({ id }: { id: string }) => id) };
  };

  test('exists until expires_at, to the millisecond, and then is absent from every read and count', async () => {
    await create('brief', 1000);
    await create('lasting', 5000);
    server.clock.advance(999);
    expect((await get('brief')).status).toBe(200);
    expect(await list()).toEqual({ total: 2, ids: ['lasting', 'brief'] });
    server.clock.advance(1);
    expect((await get('brief')).status).toBe(404);
    for (const query of ['', '?id=brief,lasting', '?metadata[for]=expiry', '?container=/general/&type=token'])
      expect(await list(query)).toEqual({ total: 1, ids: ['lasting'] });
    const { body } = await server.call('GET', '/tokens?size=1', { key });
    expect(body.pagination).not.toHaveProperty('next');
    expect((await patch('brief', { expires_at: at(1000) })).status).toBe(404);
    expect((await server.call('DELETE', '/tokens/brief', { key })).status).toBe(404);
  });

  test('is listed by expires_before, unless it has expired', async () => {
    await create('brief', 1000);
    await create('lasting', 5000);
    await create('longest', 9000);
    await server.call('POST', '/tokens', { key, body: { id: 'forever', data: 1 } });
    const before = (milliseconds: number, more = '') =>
      list(`?expires_before=${at(milliseconds)}&container=/general/${more}`);
    expect(await before(1000)).toEqual({ total: 0, ids: [] });
    expect(await before(1001)).toEqual({ total: 1, ids: ['brief'] });
    expect(await before(9001)).toEqual({ total: 3, ids: ['longest', 'lasting', 'brief'] });
    expect(await before(9001, '&id=brief,forever')).toEqual({ total: 1, ids: ['brief'] });
    expect(await before(9000, '&metadata[for]=expiry&type=token&size=1')).toEqual({
      total: 2,
      ids: ['lasting'],
    });
    expect(await before(9000, '&metadata[for]=other')).toEqual({ total: 0, ids: [] });
    const { body } = await server.call('GET', `/tokens?expires_before=${at(9000)}&size=1`, { key });
    expect(await list(`?expires_before=${at(9000)}&start=${body.pagination.next}`)).toEqual({
      total: undefined,
      ids: ['brief'],
    });
    await patch('lasting', { expires_at: null });
    server.clock.advance(1000);
    expect(await before(8001)).toEqual({ total: 1, ids: ['longest'] });
    const wrong = await server.call('GET', '/tokens?expires_before=soon', { key });
    expect([wrong.status, Object.keys(wrong.body.errors)]).toEqual([400, ['expires_before']]);
  });

  test('cannot expire in the past or now', async () => {
    for (const offset of [0, -1, -86_400_000]) {
      const { status, body } = await create('never', offset);
      expect([status, body.errors]).toEqual([400, { expires_at: ['must be in the future'] }]);
    }
    await create('brief', 1000);
    for (const expires_at of [at(0), at(-1)]) expect((await patch('brief', { expires_at })).status).toBe(400);
    for (const expires_at of ['soon', 5, '2026-02-30T00:00:00Z']) {
      const { body } = await patch('brief', { expires_at });
      expect(Object.keys(body.errors)).toEqual(['expires_at']);
    }
    expect((await get('brief')).body.expires_at).toBe(at(1000));
  });

  test('expires later, or never, if a patch says so', async () => {
    await create('brief', 1000);
    expect((await patch('brief', { expires_at: at(3000) })).body.expires_at).toBe(at(3000));
    server.clock.advance(2999);
    expect((await patch('brief', { expires_at: null })).body).not.toHaveProperty('expires_at');
    server.clock.advance(10_000);
    expect((await get('brief')).status).toBe(200);
  });

  test('does not change its expiry with a patch of other fields, even in its last millisecond', async () => {
    await create('brief', 1000);
    server.clock.advance(999);
    const { status, body } = await patch('brief', { type: 'card' });
    expect([status, body.expires_at]).toEqual([200, at(1)]);
    server.clock.advance(1);
    expect((await get('brief')).status).toBe(404);
  });

  test('expires sooner only if the caller may delete it', async () => {
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:update'] }];
    const updater = await server.application(key, { permissions: [], rules });
    await create('brief', 5000);
    await server.call('POST', '/tokens', { key, body: { id: 'lasting', data: 'x' } });
    const change = (id: string, expires_at: string | null) =>
      server.call('PATCH', `/tokens/${id}`, { key: updater.key, body: { expires_at } });
    for (const id of ['brief', 'lasting']) {
      const { status, body } = await change(id, at(4999));
      expect([status, body.detail]).toEqual([403, 'You cannot use `token:delete` on this token.']);
    }
    expect((await change('brief', at(5000))).status).toBe(200);
    expect((await change('brief', at(6000))).status).toBe(200);
    expect((await change('brief', null)).status).toBe(200);
  });

  test('and limited uses is never stored for longer', async () => {
    const body = { id: 'code', data: '123', max_uses: 1, expires_at: at(5000) };
    await server.call('POST', '/tokens', { key, body });
    for (const expires_at of [at(5001), null]) {
      const refused = await patch('code', { expires_at });
      const message = 'cannot be made later or removed, because the token has `max_uses`';
      expect([refused.status, refused.body.errors]).toEqual([400, { expires_at: [message] }]);
    }
    expect((await patch('code', { expires_at: at(5000), metadata: { seen: 'yes' } })).status).toBe(200);
    expect((await patch('code', { expires_at: at(4000) })).status).toBe(200);
  });

  test('expires sooner if a patch says so', async () => {
    await create('brief', 5000);
    await patch('brief', { expires_at: at(1) });
    server.clock.advance(1);
    expect((await get('brief')).status).toBe(404);
  });

  test('frees its id, and is removed completely by the sweep', async () => {
    await create('brief', 1000);
    server.clock.advance(1000);
    expect((await create('brief', 1000)).status).toBe(201);
    expect(await list()).toEqual({ total: 1, ids: ['brief'] });
    server.clock.advance(1000);
    expect(await server.app.maintenance.sweep(100)).toBeGreaterThan(0);
    expect((await create('brief', 1000)).status).toBe(201);
    expect(await list('?metadata[for]=expiry')).toEqual({ total: 1, ids: ['brief'] });
  });
});
