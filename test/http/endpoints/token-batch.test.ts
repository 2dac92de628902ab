/** Tokens in bulk: created in batches, and replaced. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const mask = '{{ data | reveal_last: 4 }}';
const search = { pan: '{{ data }}' };

const rule = (transform: string, permissions: string[], container = '/', more = {}) => ({
  priority: 1,
  container,
  transform,
  permissions,
  ...more,
});

describe.each(databases)('tokens in bulk on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'all' });

  const limited = await openTestServer(database, { SALLYPORT_TOKEN_BYTES_PER_APPLICATION: '100000' });

  const batch = (key: string, tokens: readonly unknown[], headers = {}) =>
    server.call('POST', '/tokens/batch', { key, body: { tokens }, headers });
  const idsOf = async (key: string, query = '') => {
    const { body } = await server.call('GET', `/tokens?size=100${query}`, { key });
    return body.data.map(({ id }: { id: string }) => id) as string[];
  };
  const holder = async (...rules: object[]) => {
    const tenant = await server.tenant();
    const { key, id } = await server.application(tenant.key, { permissions: [], rules });
    return { key: key as string, id: id as string, tenant };
  };
  const all = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search'];

  test('a batch creates its tokens in the order of the request, like single requests', async () => {
    const { key } = await holder(rule('mask', all));
    const items = Array.from({ length: 100 }, (_, at) => ({
      ...(at % 2 ? { id: `t-${at}` } : {}),
      container: at % 3 ? '/a/b/' : '/c/',
      data: `42424242${at}`,
      mask,
      metadata: { n: String(at) },
      ...(at % 5 ? {} : { search }),
      ...(at % 7 === 1 ? { max_uses: 2, search: undefined } : {}),
    }));
    const { status, body } = await batch(key, items);
    expect(status).toBe(201);
    const ids = body.data.map(({ id }: { id: string }) => id);
    expect(await idsOf(key)).toEqual(ids.toReversed());
    for (const at of [0, 1, 50, 99]) {
      const read = await server.call('GET', `/tokens/${ids[at]}`, { key });
      expect(read.body).toEqual(body.data[at]);
      const single = await server.call('POST', '/tokens', {
        key,
        body: { ...items[at], id: `single-${at}` },
      });
      const fields = ['type', 'container', 'data', 'mask', 'search', 'metadata', 'max_uses', 'uses'];
      for (const field of fields) expect(read.body[field]).toEqual(single.body[field]);
    }
    expect(await idsOf(key, '&metadata[n]=41')).toEqual(['t-41']);
    const found = await server.call('POST', '/tokens/search', {
      key,
      body: { equals: { pan: '4242424255' } },
    });
    expect(found.body.data).toHaveLength(1);
  });

  test('all or none: one problem names the items', async () => {
    const { key } = await holder(rule('reveal', all, '/a/'));
    await batch(key, [{ id: 'taken', container: '/a/', data: 1 }]);
    const ok = { id: 'fresh', container: '/a/', data: 1 };
    const table: [unknown[], number, string, string[]][] = [
      [
        [ok, { ...ok, id: 'x y', mask: '{{ data.no }}' }, 7],
        400,
        'validation_failed',
        ['tokens.1.id', 'tokens.2'],
      ],
      [
        [ok, { container: '/a/', data: { a: 1 }, mask: '{{ data.b }}' }],
        400,
        'validation_failed',
        ['tokens.1.mask'],
      ],
      [
        [ok, { ...ok, expires_at: '2001-01-01T00:00:00Z' }],
        400,
        'validation_failed',
        ['tokens.1.expires_at'],
      ],
      [[ok, { ...ok, unless_exists: 'pan' }], 400, 'validation_failed', ['tokens.1.unless_exists']],
      [[ok, { data: 1 }, { data: 2, container: '/b/' }], 403, 'permission_missing', ['tokens.1', 'tokens.2']],
      [[ok, { ...ok, id: 'taken' }], 409, 'token_exists', ['tokens.1.id']],
      [[ok, { container: '/a/', data: 2 }, ok], 409, 'token_exists', ['tokens.0.id', 'tokens.2.id']],
      [[], 400, 'validation_failed', ['tokens']],
      [Array(101).fill(ok), 400, 'validation_failed', ['tokens']],
    ];
    for (const [items, status, code, fields] of table) {
      const refused = await batch(key, items);
      expect([refused.status, refused.body.code, Object.keys(refused.body.errors)]).toEqual([
        status,
        code,
        fields,
      ]);
    }
    expect(await idsOf(key)).toEqual(['taken']);
  });

  test('two equal items with unless_exists create one token, and existing ones are returned', async () => {
    const { key } = await holder(rule('reveal', all));
    const item = (data: string, more = {}) => ({
      container: '/a/',
      data,
      search,
      unless_exists: 'pan',
      ...more,
    });
    await batch(key, [item('1111')]);
    const { status, body } = await batch(key, [
      item('2222'),
      item(' 2222 '),
      item('1111'),
      item('1111', { container: '/b/' }),
      { container: '/a/', data: '3333', search },
      item('3333'),
    ]);
    const ids = body.data.map(({ id }: { id: string }) => id);
    expect([status, ids[1], ids[5], new Set(ids).size]).toEqual([201, ids[0], ids[4], 4]);
    expect(await idsOf(key)).toHaveLength(4);
    expect(
      (await batch(key, [item('1111'), item('2222')])).body.data.map(({ id }: { id: string }) => id),
    ).toEqual([ids[2], ids[0]]);
    const concurrent = await Promise.all(
      Array.from({ length: 8 }, (_, at) => {
        const items = [item('5555'), item('4444')];
        return at % 2 ? batch(key, items) : batch(key, items.toReversed());
      }),
    );
    expect(concurrent.map((reply) => reply.status)).toEqual(Array(8).fill(201));
    expect(await idsOf(key)).toHaveLength(6);
  });

  test('unless_exists needs permission to search and read, and a batch counts as its searches', async () => {
    const { key, tenant } = await holder(rule('reveal', ['token:create', 'token:read']));
    const guess = (data: string) => ({ data, search, unless_exists: 'pan' });
    const denied = await batch(key, [{ data: 1 }, guess('1')]);
    expect([denied.status, Object.keys(denied.body.errors)]).toEqual([403, ['tokens.1']]);
    const rules = [rule('reveal', all)];
    const other = await server.application(tenant.key, { permissions: [], rules });
    const many = Array.from({ length: 61 }, (_, at) => guess(`${at}`));
    expect((await batch(other.key, many)).status).toBe(400);
    expect((await batch(other.key, many.slice(0, 60))).status).toBe(201);
    expect((await batch(other.key, [guess('more')])).status).toBe(429);
    server.clock.advance(60_000);
    // Hits are given back.
    for (let again = 0; again < 3; again++)
      expect((await batch(other.key, many.slice(0, 60))).status).toBe(201);
  });

  test('a retry with an Idempotency-Key repeats the reply and creates nothing', async () => {
    const { key } = await holder(rule('reveal', all));
    const headers = { 'Idempotency-Key': 'once' };
    const items = [
      { data: 'a' },
      { data: 'b', expires_at: new Date(server.clock.now() + 60_000).toISOString() },
    ];
    const first = await batch(key, items, headers);
    const again = await batch(key, items, headers);
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect(again.body).toEqual(first.body);
    expect((await batch(key, [{ data: 'a' }], headers)).body.code).toBe('idempotency_mismatch');
    await server.call('PUT', `/tokens/${first.body.data[0].id}`, { key, body: { data: 'c' } });
    const outdated = await batch(key, items, headers);
    expect([outdated.status, outdated.body.code]).toEqual([409, 'idempotency_outdated']);
    expect(await idsOf(key)).toHaveLength(2);
  });

  test('a batch beyond the storage quota in its middle stores nothing, and the credit is given back', async () => {
    const { id: tenant, key: owner } = await limited.tenant();
    const { key, id } = await limited.application(owner, { permissions: all });
    const wide = {
      data: 1,
      metadata: Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, 'v'])),
    };
    const refused = await limited.call('POST', '/tokens/batch', {
      key,
      body: { tokens: Array(10).fill(wide) },
    });
    expect([refused.status, refused.body.code]).toEqual([507, 'storage_full']);
    expect(await limited.app.store.tokens.storageUsed(tenant, id)).toEqual({ tokens: 0, bytes: 0 });
    const accepted = await limited.call('POST', '/tokens/batch', { key, body: { tokens: [wide, wide] } });
    expect(accepted.status).toBe(201);
    expect((await limited.app.store.tokens.storageUsed(tenant, id)).tokens).toBe(2);
  });

  test('what a session writes in a batch, its authorizer cannot read beyond its own access', async () => {
    const { tenant, key } = await holder(rule('redact', ['token:create', 'token:read', 'token:update']));
    const web = await server.application(tenant.key, { type: 'public', permissions: ['token:create'] });
    const { body: opened } = await server.call('POST', '/sessions', { key: web.key });
    const rules = [
      {
        priority: 1,
        conditions: [{ attribute: 'container', operator: 'starts_with', value: '/' }],
        transform: 'reveal',
        permissions: ['token:create', 'token:read', 'token:update'],
        defaults: { mask },
      },
    ];
    const body = { nonce: opened.nonce, rules };
    expect((await server.call('POST', '/sessions/authorize', { key, body })).status).toBe(204);
    const refused = await batch(opened.session_key, [
      { data: 'x', mask: '{{ data | first: 0 }}' },
      { data: '4242424242' },
    ]);
    expect([refused.status, refused.body.code]).toEqual([403, 'reveal_required']);
    expect(Object.keys(refused.body.errors)).toEqual(['tokens.1']);
    const written = await batch(opened.session_key, [{ data: 'secret-1', mask: '{{ data | first: 1 }}' }]);
    expect(written.status).toBe(201);
    expect(JSON.stringify(written.body)).not.toContain('secret');
    const { body: read } = await server.call('GET', `/tokens/${written.body.data[0].id}`, { key });
    expect(read).not.toHaveProperty('data');
  });

  test('the audit log names all tokens of a batch', async () => {
    const { key, tenant } = await holder(rule('reveal', all));
    const item = { container: '/a/b/', data: '1111', search, unless_exists: 'pan' };
    await batch(key, [item]);
    const { body } = await batch(key, [
      item,
      { id: 'new-1', container: '/a/', data: '2' },
      { id: 'new-2', data: 3 },
    ]);
    const { body: logs } = await server.call('GET', '/logs?size=2', { key: tenant.key });
    expect(logs.data).toMatchObject([
      {
        operation: 'token.search',
        search: { names: ['pan'], hits: 1 },
        resource: { ids: [body.data[0].id] },
      },
      { operation: 'token.create', resource: { ids: ['new-1', 'new-2'], container: '/' }, result: 'success' },
    ]);
    const { body: byToken } = await server.call('GET', '/logs?token=new-2&changes=true', { key: tenant.key });
    expect(byToken.data).toHaveLength(1);
  });

  test('replacing sets everything but type, container and max_uses, and needs no reveal', async () => {
    const { key, tenant } = await holder(rule('mask', ['token:read', 'token:update']));
    const owner = tenant.key;
    const first = {
      id: 'card',
      type: 'card',
      container: '/a/',
      data: '4242424242',
      mask,
      search,
      metadata: { a: 'b' },
    };
    await server.call('POST', '/tokens', { key: owner, body: first });
    const put = (as: string, body: object, headers = {}) =>
      server.call('PUT', '/tokens/card', { key: as, body, headers });
    const { body: read, headers } = await server.call('GET', '/tokens/card', { key });
    // Somebody edits what a masked response shows.
    const edited = await put(key, { ...read, metadata: {} });
    expect([edited.status, Object.keys(edited.body.errors)]).toEqual([400, ['data']]);
    const ifMatch = { 'If-Match': headers.get('etag') as string };
    const replaced = await put(key, { ...read, data: '5555555555', search: null, metadata: null }, ifMatch);
    expect(replaced.status).toBe(200);
    expect(replaced.body).toMatchObject({ type: 'card', container: '/a/', data: 'XXXXXX5555', mask });
    for (const gone of ['search', 'metadata']) expect(replaced.body).not.toHaveProperty(gone);
    expect((await put(key, { data: 1 }, ifMatch)).status).toBe(412);
    for (const [field, value] of Object.entries({
      type: 'other',
      container: '/b/',
      max_uses: 3,
      created_by: 'x',
    }))
      expect(Object.keys((await put(key, { data: 1, [field]: value })).body.errors)).toEqual([field]);
    expect((await put(key, { mask })).status).toBe(400);
    expect((await server.call('PUT', '/tokens/none', { key, body: { data: 1 } })).status).toBe(404);
    const { body: bare } = await put(key, { data: { a: 1 } });
    expect(bare).not.toHaveProperty('mask');
    const none = await server.application(owner, { permissions: ['token:read'] });
    expect((await put(none.key, { data: 1 })).status).toBe(403);
    const { body: log } = await server.call('GET', '/logs?operation=token.update&size=1', { key: owner });
    expect(log.data[0].difference).toEqual({ data: {}, mask: {} });
  });

  test('replacing with an earlier expiry needs token:delete, and a token with max_uses never lives longer', async () => {
    const { key, tenant } = await holder(rule('mask', ['token:update']));
    const inSeconds = (count: number) => new Date(server.clock.now() + count * 1000).toISOString();
    const create = (body: object) => server.call('POST', '/tokens', { key: tenant.key, body });
    await create({ id: 'plain', data: 1, expires_at: inSeconds(60) });
    await create({ id: 'limited', data: '123', max_uses: 1, expires_at: inSeconds(60) });
    const put = (id: string, expires_at?: string) =>
      server.call('PUT', `/tokens/${id}`, { key, body: { data: 2, expires_at } });
    expect((await put('plain', inSeconds(30))).status).toBe(403);
    expect((await put('plain')).body).not.toHaveProperty('expires_at');
    expect((await put('plain', inSeconds(30))).status).toBe(403);
    expect((await put('limited')).status).toBe(400);
    expect((await put('limited', inSeconds(90))).status).toBe(400);
    expect((await put('limited', inSeconds(60))).status).toBe(200);
  });

  test('an expired token does not keep its id from a batch', async () => {
    const { key } = await holder(rule('reveal', all));
    const expires_at = new Date(server.clock.now() + 1000).toISOString();
    expect((await batch(key, [{ id: 'short', data: 1, expires_at }])).status).toBe(201);
    expect((await batch(key, [{ id: 'short', data: 2 }])).status).toBe(409);
    server.clock.advance(1000);
    expect((await batch(key, [{ id: 'short', data: 2 }])).status).toBe(201);
  });
});
