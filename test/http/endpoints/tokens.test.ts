import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const card = { number: '4242424242424242', expiry: '12/30', cvc: '123' };
const mask = { number: '{{ data.number | reveal_last: 4 }}', expiry: '{{ data.expiry }}' };
const masked = { number: 'XXXXXXXXXXXX4242', expiry: '12/30' };

const rule = (container: string, transform: string, permissions = ['token:read'], priority = 1) => ({
  priority,
  container,
  transform,
  permissions,
});

describe.each(databases)('tokens on %s', async (_, database) => {
  const server = await openTestServer(database);

  const create = (key: string, body: object) => server.call('POST', '/tokens', { key, body });
  const withRules = async (key: string, ...rules: object[]) =>
    (await server.application(key, { permissions: [], rules })).key as string;

  test('creating fills in defaults, and plain permissions mask the data', async () => {
    const { key, id } = await server.tenant();
    const { status, body } = await create(key, { data: card, mask });
    expect(status).toBe(201);
    expect(body).toMatchObject({ tenant_id: id, type: 'token', container: '/general/', data: masked, mask });
    expect(await server.call('GET', `/tokens/${body.id}`, { key })).toMatchObject({ status: 200, body });
  });

  test('a token is redacted, masked or revealed by the rule of the caller', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'card-1', container: '/pci/high/', data: card, mask });
    for (const [transform, data] of [
      ['redact', undefined],
      ['mask', masked],
      ['reveal', card],
    ] as const) {
      const reader = await withRules(key, rule('/PCI/', transform));
      const { body } = await server.call('GET', '/tokens/card-1', { key: reader });
      expect(body.data).toEqual(data);
    }
  });

  test('without a mask, a masked read has no data', async () => {
    const { key } = await server.tenant();
    const { body } = await create(key, { data: 'secret' });
    expect(body).not.toHaveProperty('data');
  });

  test('a container matches whole segments, and other tokens are denied with a reason', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'other', container: '/pci-other/', data: 'x1' });
    const reader = await withRules(key, rule('/pci/', 'reveal'));
    const { status, body } = await server.call('GET', '/tokens/other', { key: reader });
    expect(status).toBe(403);
    expect(body.detail).toBe('You cannot use `token:read` on this token.');
  });

  test('a list has only visible tokens in full pages, newest first', async () => {
    const { key } = await server.tenant();
    for (let i = 0; i < 30; i++) {
      const container = ['/a/', '/a/b/', '/c/', '/hidden/'][i % 4];
      await create(key, { id: `t-${i}`, container, data: i, type: i % 3 ? 'odd' : 'third' });
    }
    const reader = await withRules(
      key,
      rule('/a/', 'reveal'),
      rule('/c/', 'redact'),
      rule('/a/b/', 'redact', undefined, 2),
    );
    const expected = Array.from({ length: 30 }, (_, i) => i)
      .filter((i) => i % 4 !== 3)
      .reverse()
      .map((i) => `t-${i}`);
    const first = await server.call('GET', '/tokens?size=10', { key: reader });
    expect(first.body.pagination).toMatchObject({
      total_items: expected.length,
      total_pages: 3,
      page_size: 10,
    });
    const seen: string[] = [];
    let path = '/tokens?size=10';
    for (;;) {
      const { body } = await server.call('GET', path, { key: reader });
      seen.push(...body.data.map((token: { id: string }) => token.id));
      if (!body.pagination.next) break;
      expect(body.data).toHaveLength(10);
      path = `/tokens?size=10&start=${body.pagination.next}`;
    }
    expect(seen).toEqual(expected);
    const second = await server.call('GET', '/tokens?size=10&page=2', { key: reader });
    expect(second.body.data.map((token: { id: string }) => token.id)).toEqual(expected.slice(10, 20));
    const below = await server.call('GET', '/tokens?container=a/b&size=100', { key: reader });
    expect(below.body.data.every((token: { container: string }) => token.container === '/a/b/')).toBe(true);
    expect(below.body.pagination.total_items).toBe(8);
    const none = await server.call('GET', '/tokens?container=/hidden/', { key: reader });
    expect(none.body.data).toEqual([]);
    const byId = await server.call('GET', '/tokens?id=t-0,t-3&id=t-1', { key: reader });
    expect(byId.body.data.map((token: { id: string }) => token.id)).toEqual(['t-1', 't-0']);
    const typed = await server.call('GET', '/tokens?type=third&size=100', { key: reader });
    expect(typed.body.data.map((token: { id: string }) => token.id)).toEqual(
      expected.filter((id) => Number(id.slice(2)) % 3 === 0),
    );
  });

  test('lists filter by metadata', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'one', data: 1, metadata: { customer: '42', region: 'eu' } });
    await create(key, { id: 'two', data: 2, metadata: { customer: '42' } });
    const query = 'metadata[customer]=42&metadata%5Bregion%5D=eu';
    const found = await server.call('GET', `/tokens?${query}`, { key });
    expect(found.body.data.map((token: { id: string }) => token.id)).toEqual(['one']);
  });

  test('created_by lists the tokens of an application and of its sessions, unless they are hidden', async () => {
    const { key, id } = await server.tenant();
    const permissions = ['token:create'];
    const one = await server.application(key, { permissions });
    const other = await server.application(key, { permissions });
    const web = await server.application(key, { type: 'public', permissions });
    const session = (await server.call('POST', '/sessions', { key: web.key })).body;
    const body = { nonce: session.nonce, permissions };
    expect((await server.call('POST', '/sessions/authorize', { key, body })).status).toBe(204);
    await create(one.key, { id: 'one-a', container: '/a/', data: 1, type: 'card' });
    await create(one.key, { id: 'one-b', container: '/b/', data: 1, type: 'card' });
    await create(other.key, { id: 'other-a', container: '/a/', data: 1, type: 'card' });
    await create(session.session_key, { id: 'web-a', container: '/a/', data: 1 });
    const listed = async (reader: string, query: string) => {
      const { body } = await server.call('GET', `/tokens?created_by=${query}`, { key: reader });
      return [body.pagination.total_items, ...body.data.map((token: { id: string }) => token.id)];
    };
    expect(await listed(key, one.id)).toEqual([2, 'one-b', 'one-a']);
    expect(await listed(key, `${one.id.toUpperCase()}&type=card&size=1`)).toEqual([2, 'one-b']);
    expect(await listed(key, `${other.id}&id=one-a,other-a`)).toEqual([1, 'other-a']);
    expect(await listed(key, web.id)).toEqual([1, 'web-a']);
    expect(await listed(key, id)).toEqual([0]);
    const reader = await withRules(key, rule('/a/', 'redact'));
    expect(await listed(reader, one.id)).toEqual([1, 'one-a']);
    expect(await listed((await server.tenant()).key, one.id)).toEqual([0]);
    await server.call('PATCH', '/tokens/one-a', { key, body: { metadata: { by: 'another' } } });
    await server.call('DELETE', `/applications/${one.id}`, { key });
    expect(await listed(key, one.id)).toEqual([2, 'one-b', 'one-a']);
  });

  test.each([
    ['created_by=me', 'created_by'],
    ['metadata[region]=eu&metadata[region]=us', 'metadata.region'],
    ['metadata.region=us', 'metadata.region'],
    ['metadata[]=eu', 'metadata[]'],
    ['metadata=eu&metadata[region]=eu', 'metadata'],
    ['metadata[region=eu', 'metadata[region'],
  ])('a list rejects %s', async (query, field) => {
    const { key } = await server.tenant();
    const { status, body } = await server.call('GET', `/tokens?${query}`, { key });
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });

  test('a session sees tokens that match all its conditions', async () => {
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
    await create(key, { id: 'card-42-a', container: '/customers/42/', data: card, mask });
    await create(key, { id: 'card-42-b', container: '/customers/42/sub/', data: card, mask });
    await create(key, { id: 'iban-42', container: '/customers/42/', data: card, mask });
    await create(key, { id: 'card-43', container: '/customers/43/', data: card, mask });
    const session = (await server.call('POST', '/sessions', { key: web.key })).body;
    const conditions = [
      { attribute: 'container', operator: 'starts_with', value: '/customers/42' },
      { attribute: 'id', operator: 'starts_with', value: 'card-' },
    ];
    const rules = [{ priority: 1, transform: 'reveal', permissions: ['token:read'], conditions }];
    const body = { nonce: session.nonce, rules };
    expect((await server.call('POST', '/sessions/authorize', { key, body })).status).toBe(204);
    const list = await server.call('GET', '/tokens', { key: session.session_key });
    expect(list.body.data.map((token: { id: string }) => token.id)).toEqual(['card-42-b', 'card-42-a']);
    expect(list.body.pagination.total_items).toBe(2);
    expect((await server.call('GET', '/tokens/card-43', { key: session.session_key })).status).toBe(403);
    expect((await server.call('GET', '/tokens/card-42-a', { key: session.session_key })).body.data).toEqual(
      card,
    );
  });

  test('a patch merges, moves and removes, and updates the masked value', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'card', container: '/a/', data: card, mask, metadata: { a: '1', b: '2' } });
    const writer = await withRules(key, rule('/', 'reveal', ['token:update']));
    const patch = (body: object, who = writer) => server.call('PATCH', '/tokens/card', { key: who, body });
    const changed = await patch({
      data: { number: '5555555555554444' },
      metadata: { a: null, c: '3' },
      container: '/b/',
    });
    expect(changed.status).toBe(200);
    expect(changed.body).toMatchObject({
      container: '/b/',
      data: { ...card, number: '5555555555554444' },
      metadata: { b: '2', c: '3' },
    });
    expect(changed.body.modified_by).toBeString();
    expect((await server.call('GET', '/tokens/card', { key })).body.data).toEqual({
      ...masked,
      number: 'XXXXXXXXXXXX4444',
    });
    const moved = await server.call('GET', '/tokens?container=/a/', { key });
    expect(moved.body.data).toEqual([]);
    expect((await patch({ data: null })).status).toBe(400);
    expect((await patch({})).status).toBe(400);
    expect((await patch({ id: 'x' })).body.errors).toHaveProperty('id');
  });

  test('moving a token requires token:update on both containers', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'card', container: '/a/', data: 'x1' });
    const mover = await withRules(key, rule('/a/', 'mask', ['token:update']));
    const move = (container: string) =>
      server.call('PATCH', '/tokens/card', { key: mover, body: { container } });
    expect((await move('/b/')).status).toBe(403);
    expect((await move('/a/below/')).status).toBe(200);
  });

  test('moving a token does not reveal more of its data to the caller', async () => {
    const { key } = await server.tenant();
    const both = ['token:read', 'token:update'];
    const mover = await withRules(
      key,
      rule('/hidden/', 'redact', both),
      rule('/masked/', 'mask', both),
      rule('/open/', 'reveal', both),
      rule('/updated/', 'reveal', ['token:update'], 1),
      rule('/updated/', 'redact', ['token:read'], 2),
    );
    const patch = (id: string, body: object) => server.call('PATCH', `/tokens/${id}`, { key: mover, body });
    const make = (id: string, container: string) => create(key, { id, container, data: card, mask });

    await make('masked', '/masked/');
    for (const container of ['/open/', '/updated/']) {
      const rejected = await patch('masked', { container });
      expect([rejected.status, rejected.body.code]).toEqual([403, 'reveal_required']);
      expect((await patch('masked', { container, data: { cvc: '999' } })).status).toBe(403);
    }
    expect((await server.call('GET', '/tokens/masked', { key: mover })).body.data).toEqual(masked);
    expect((await patch('masked', { container: '/open/', data: 'new', mask: null })).status).toBe(200);

    await make('hidden', '/hidden/');
    expect((await patch('hidden', { container: '/masked/' })).status).toBe(403);
    await make('open', '/open/');
    expect((await patch('open', { container: '/masked/' })).body.data).toEqual(masked);
    expect((await patch('open', { container: '/hidden/' })).body).not.toHaveProperty('data');
  });

  test('changing the mask requires reveal', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'card', container: '/a/', data: card, mask });
    const writer = await withRules(key, rule('/a/', 'mask', ['token:update', 'token:read']));
    const patch = (body: object) => server.call('PATCH', '/tokens/card', { key: writer, body });
    expect((await patch({ mask: '{{ data.number | reveal_first: 15 }}' })).body.code).toBe('reveal_required');
    expect((await patch({ mask: '{{ data.number }}', data: { cvc: '1' } })).status).toBe(403);
    expect((await patch({ mask: '{{ data | last: 2 }}', data: 'new secret' })).body.data).toBe('et');
    expect((await patch({ mask: null })).body).not.toHaveProperty('data');
  });

  test('an existing id is rejected, except in another tenant or after expiry', async () => {
    const { key } = await server.tenant();
    const expires_at = new Date(server.clock.now() + 1000).toISOString();
    expect((await create(key, { id: 'mine', data: 1, expires_at })).status).toBe(201);
    expect((await create(key, { id: 'mine', data: 2, container: '/x/' })).status).toBe(409);
    const { key: other } = await server.tenant();
    expect((await create(other, { id: 'mine', data: 3 })).status).toBe(201);
    server.clock.advance(1000);
    expect((await server.call('GET', '/tokens/mine', { key })).status).toBe(404);
    expect((await create(key, { id: 'mine', data: 4 })).status).toBe(201);
  });

  test('invalid masks are rejected with a message that does not contain the data', async () => {
    const { key } = await server.tenant();
    const rejected = async (mask: unknown, data: unknown = card) => {
      const { status, body } = await create(key, { data, mask });
      expect(status).toBe(400);
      expect(JSON.stringify(body)).not.toContain('4242424242');
      return body.errors.mask[0];
    };
    expect(await rejected('{{ data.nope }}')).toContain('`data.nope` does not exist');
    expect(await rejected('{{ data[data.number] }}')).toContain('not a valid');
    expect(await rejected('{% if true %}x{% endif %}')).toContain('tags are not supported');
    expect(await rejected('{{ data.number | upcase }}')).toContain('unknown filter');
    expect(await rejected('{{ data.number')).toContain('not a valid');
    expect(await rejected('{{ data }}', '4242424242424242')).toContain('all of the data');
    expect(await rejected('{{ data | reveal_last: 9 }}', '123456789')).toContain('all of the data');
    expect(await rejected('{{ (1..9999999) }}')).toContain('not a valid');
    expect(await rejected(5)).toContain('must be a string');
  });

  test('deleting removes a token and requires token:delete on it', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'gone', container: '/a/', data: 1 });
    const other = await withRules(key, rule('/b/', 'mask', ['token:delete']));
    expect((await server.call('DELETE', '/tokens/gone', { key: other })).status).toBe(403);
    expect((await server.call('DELETE', '/tokens/gone', { key })).status).toBe(204);
    expect((await server.call('DELETE', '/tokens/gone', { key })).status).toBe(404);
  });
});
