/** Valid and invalid values of token fields. */

import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { databases, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const mebibyte = 1_048_576;
const rules = [
  {
    priority: 1,
    container: '/',
    transform: 'reveal',
    permissions: ['token:create', 'token:read', 'token:update', 'token:delete'],
  },
];
const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
const repeated = (text: string, count: number) => Array.from({ length: count }, () => text).join('');

describe.each(databases)('token fields on %s', async (_, database) => {
  const server = await openTestServer(database);
  /** A key that can reveal and change all data. */
  const { key: management } = await server.tenant();
  const key = (await server.application(management, { permissions: [], rules })).key;

  const create = (body: unknown) => server.call('POST', '/tokens', { key, body });
  const patch = (id: string, body: unknown, headers = {}) =>
    server.call('PATCH', `/tokens/${id}`, { key, body, headers });
  const get = (id: string) => server.call('GET', `/tokens/${id}`, { key });

  async function expectRefused(body: unknown, part: string): Promise<void> {
    const answer = await create(body);
    expect({ status: answer.status, parts: Object.keys(answer.body.errors ?? {}) }).toEqual({
      status: 400,
      parts: [part],
    });
  }

  test('all errors are reported together: of other fields and of templates', async () => {
    const broken = { mask: '{{ data | unknown }}', search: { a: '{{ data | other }}', b: '{{ data }}' } };
    const parts = async (body: object, send = create) => Object.keys((await send(body)).body.errors).sort();
    const metadata = { a: 1 };
    expect(await parts({ data: 1, ...broken, metadata })).toEqual(['mask', 'metadata.a', 'search.a']);
    expect(await parts({ data: 1, ...broken })).toEqual(['mask', 'search.a']);
    expect(await parts({ data: 1, mask: 1, metadata })).toEqual(['mask', 'metadata.a']);
    const { id } = (await create({ data: 1 })).body;
    expect(await parts({ ...broken, metadata }, (body) => patch(id, body))).toEqual([
      'mask',
      'metadata.a',
      'search.a',
    ]);
  });

  test.each([
    ['abc'],
    ['a'.repeat(200)],
    ['AZaz09._:-'],
    ['...'],
    ['key'],
    ['card:4242.visa_1-2'],
    ['0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d'],
  ])('the id %p is accepted, and found percent-encoded, too', async (id) => {
    expect((await create({ id, data: 1 })).body.id).toBe(id);
    expect((await get(id)).body.id).toBe(id);
    const encoded = [...id].map((one) => `%${one.charCodeAt(0).toString(16)}`).join('');
    if (id !== '...') expect((await get(encoded)).body.id).toBe(id);
  });

  test('ids that differ in case are different', async () => {
    await create({ id: 'Case-1', data: 'upper' });
    expect((await get('case-1')).status).toBe(404);
    expect((await create({ id: 'case-1', data: 'lower' })).status).toBe(201);
    expect((await get('Case-1')).body.data).toBe('upper');
  });

  test('a missing id is generated', async () => {
    const { body } = await create({ id: null, data: 1 });
    expect(body.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}$/);
  });

  test.each([
    '0',
    '-0.5',
    '1e21',
    '9007199254740991',
    '0.1',
    '4.20',
    'true',
    'false',
    '""',
    '" "',
    '"null"',
    '[]',
    '{}',
    '[null,[null],{"a":null}]',
    '"\\u0000 inside \\u0000"',
    '"Grüße 🦀 \\ud83d\\ude00 \\u2028 ‮"',
    '"\\\\ud800"',
    '{"":1," ":2,"a.b":3,"constructor":4,"toString":5,"length":6}',
    '{"__proto__":{"admin":true},"b":1}',
    '{"10":"a","9":"b","x":"c"}',
    nested(31),
  ])('the data %s is returned unchanged', async (json) => {
    const { status, body } = await create(`{"data":${json}}`);
    expect(status).toBe(201);
    const expected = JSON.stringify(JSON.parse(json));
    expect(JSON.stringify(body.data)).toBe(expected);
    expect(JSON.stringify((await get(body.id)).body.data)).toBe(expected);
  });

  test('a body may have 1 MiB', async () => {
    const withLength = (length: number) => {
      const [head, tail] = ['{"data":"', '"}'];
      return head + 'x'.repeat(length - head.length - tail.length) + tail;
    };
    const largest = await create(withLength(mebibyte));
    expect(largest.status).toBe(201);
    expect((await get(largest.body.id)).body.data).toHaveLength(mebibyte - 11);
    expect((await create(withLength(mebibyte + 1))).status).toBe(413);
    expect((await patch(largest.body.id, withLength(mebibyte + 1))).status).toBe(413);
    expect((await patch(largest.body.id, withLength(mebibyte))).status).toBe(200);
  });

  test('a patch cannot make data larger than 1 MiB', async () => {
    const { body } = await create({ data: { a: 'x'.repeat(600_000) } });
    const grown = await patch(body.id, { data: { b: 'x'.repeat(600_000) } });
    expect(grown.status).toBe(400);
    expect(grown.body.errors).toEqual({ data: ['must have at most 1048576 bytes as JSON'] });
    expect(Object.keys((await get(body.id)).body.data)).toEqual(['a']);
  });

  test.each([
    ['null', '{"data":null}', 'data'],
    ['nothing', '{}', 'data'],
    ['33 levels', `{"data":${nested(33)}}`, 'body'],
    ['a number too long', '{"data":{"account":[12345678901234567890]}}', 'data.account.0'],
    ['a number too large', '{"data":1e400}', 'data'],
    ['a number too small', '{"data":1e-400}', 'data'],
    ['a number too fine', '{"data":0.1234567890123456789}', 'data'],
    ['a number without end', `{"data":${repeated('9', 5000)}}`, 'data'],
  ])('data that is %s is rejected, and not repeated', async (_what, body, part) => {
    await expectRefused(body, part);
    expect(JSON.stringify((await create(body)).body)).not.toContain('1234567890');
  });

  const wide = (count: number) =>
    Array.from({ length: count }, (_, at) => String.fromCodePoint(0x1f300 + ((at * 7919) % 0x300))).join('');
  test.each([
    ['50 entries', Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`n${at}`, 'v']))],
    ['the longest name and value, in characters of four bytes each', { [wide(100)]: wide(500) }],
    ['an empty value, and names with points and spaces', { a: '', metadata: 'y', 'b.c d': 'x' }],
    ['names with brackets', { 'a][b': 'x', ']': 'y', 'a[0]': 'z' }],
    ['line feeds and tabs in a value', { a: 'one\ntwo\tthree' }],
    ['names that objects have', { constructor: 'a', toString: 'b', hasOwnProperty: 'c' }],
  ])('metadata with %s is stored and found', async (_what, metadata: Record<string, string>) => {
    const { status, body } = await create({ data: 1, metadata });
    expect([status, body.metadata]).toEqual([201, metadata]);
    const [name, value] = Object.entries(metadata).at(-1) as [string, string];
    const query = `${encodeURIComponent(`metadata[${name}]`)}=${encodeURIComponent(value)}`;
    const found = await server.call('GET', `/tokens?${query}`, { key });
    expect(found.body.data.map(({ id }: { id: string }) => id)).toContain(body.id);
  });

  test.each([
    [
      'metadata.customer=42&metadata.region=eu',
      {
        'metadata.customer': ['is not a known parameter'],
        'metadata.region': ['is not a known parameter'],
      },
    ],
    ['metadata=42&metadata[customer]=42', { metadata: ['must be an object'] }],
    ['metadata[customer', { 'metadata[customer': ['is not a known parameter'] }],
    ['metadata[customer]=1&metadata[customer]=2', { 'metadata.customer': ['must not be repeated'] }],
    ['metadata[]=42', { 'metadata[]': ['is not a known parameter'] }],
    ['metadata[a][b]=42', { 'metadata[a][b]': ['is not a known parameter'] }],
    ['metadata[a][]=42', { 'metadata[a][]': ['is not a known parameter'] }],
  ])('the metadata filter %s is rejected', async (query, errors) => {
    const { status, body } = await server.call('GET', `/tokens?${query}`, { key });
    expect([status, body.errors]).toEqual([400, errors]);
  });

  test.each([
    ['an empty name', 'metadata.', { '': 'v' }],
    ['a bidirectional override in a name', 'metadata.a\u202e', { 'a\u202e': 'v' }],
    ['a value that is no string', 'metadata.a', { a: 1 }],
  ])('metadata with %s is rejected', async (_what, part, metadata) => {
    await expectRefused({ data: 1, metadata }, part);
  });

  test('errors about metadata are sentences', async () => {
    const said = async (metadata: unknown, part: string) =>
      (await create({ data: 1, metadata })).body.errors[part];
    expect(await said([], 'metadata')).toEqual(['must be an object']);
    expect(await said({ '': 'v' }, 'metadata.')).toEqual([
      'has an invalid name: it must have 1 to 100 characters',
    ]);
    const long = 'a'.repeat(101);
    expect(await said({ [long]: 'v' }, `metadata.${long}`)).toEqual([
      'has an invalid name: it must have 1 to 100 characters',
    ]);
  });

  test('a container is stored unchanged', async () => {
    for (const container of ['/PCI/High/', 'pci', '/', '/a-b_c/1'])
      expect((await create({ data: 1, container })).body.container).toBe(container);
  });

  test('null means absent in a create, and the default in a patch', async () => {
    const nulls = { type: null, container: null, mask: null, metadata: null, expires_at: null };
    const plain = await create({ data: 'secret', ...nulls });
    expect(plain.body).toMatchObject({ type: 'token', container: '/general/' });
    for (const field of ['mask', 'metadata', 'expires_at']) expect(plain.body).not.toHaveProperty(field);
    const full = {
      type: 'card',
      container: '/pci/',
      mask: '{{ data | last: 2 }}',
      metadata: { a: 'b' },
      expires_at: '2030-01-31T12:00:00Z',
    };
    const changed = await patch(plain.body.id, full);
    expect(changed.body).toMatchObject({ ...full, expires_at: '2030-01-31T12:00:00.000Z' });
    const { modified_at, modified_by, ...back } = (await patch(plain.body.id, nulls)).body;
    expect(back).toEqual(plain.body);
    expect(modified_by).toBe(plain.body.created_by);
    // The second change in the same millisecond.
    expect(Date.parse(modified_at)).toBe(Date.parse(plain.body.created_at) + 1);
  });

  test('a patch must be sent as merge-patch+json or json', async () => {
    const { body } = await create({ data: { a: 1, b: { c: 2, d: [1, { e: null }] } } });
    const as = (type: string, data: unknown) => patch(body.id, { data }, { 'Content-Type': type });
    const merged = await as('application/merge-patch+json', { a: null, b: { c: { f: null, g: 3 } } });
    expect(merged.body.data).toEqual({ b: { c: { g: 3 }, d: [1, { e: null }] } });
    expect((await as('application/merge-patch+json; charset=utf-8', { b: [2] })).body.data).toEqual({
      b: [2],
    });
    expect((await as('application/json', 'text')).body.data).toBe('text');
    expect((await as('application/json', { a: { b: null } })).body.data).toEqual({ a: {} });
    for (const type of ['application/json-patch+json', 'text/plain', 'application/x-www-form-urlencoded', ''])
      expect((await as(type, 1)).status).toBe(415);
    const post = { key, body: { data: 1 }, headers: { 'Content-Type': 'application/merge-patch+json' } };
    expect((await server.call('POST', '/tokens', post)).status).toBe(415);
    for (const empty of [{}, [], 'text', null]) expect((await patch(body.id, empty)).status).toBe(400);
  });

  test('a stored request fingerprint cannot be used to guess the request', async () => {
    const body = JSON.stringify({ data: '4000056655665556' });
    const call = { key, body, headers: { 'Idempotency-Key': crypto.randomUUID() } };
    const first = await server.call('POST', '/tokens', call);
    expect((await server.call('POST', '/tokens', call)).body).toEqual(first.body);
    const rows = await runSql<{ request_digest: Uint8Array }>(
      server.config.databaseUrl,
      'select request_digest from idempotency',
    );
    const digests = rows.map(({ request_digest }) => Buffer.from(request_digest).toString('hex'));
    expect(digests).toHaveLength(1);
    for (const guess of [body, `POST /tokens\n${body}`])
      expect(digests).not.toContain(createHash('sha256').update(guess).digest('hex'));
  });

  describe('defaults of the rule that grants token:create', async () => {
    const defaults = {
      mask: { number: '{{ data.number | reveal_last: 4 }}' },
      search: { pan: '{{ data.number }}' },
    };
    const [all] = rules as [(typeof rules)[number]];
    const data = { number: '4242424242424242' };
    const { key: management } = await server.tenant();
    const ofCards = { ...all, container: '/cards/', defaults };
    const fields = { permissions: ['token:search'], rules: [ofCards, { ...all, priority: 2 }] };
    const creator = (await server.application(management, fields)).key;
    const createWith = (body: object) => server.call('POST', '/tokens', { key: creator, body });

    test('apply to tokens that are created without templates', async () => {
      const { status, body } = await createWith({ container: '/cards/de/', data });
      expect(status).toBe(201);
      expect(body).toMatchObject(defaults);
      const equals = { pan: data.number };
      const found = await server.call('POST', '/tokens/search', { key: creator, body: { equals } });
      expect(found.body.data).toMatchObject([{ id: body.id }]);
      const masked = await server.call('GET', `/tokens/${body.id}?transform=mask`, { key: creator });
      expect(masked.body.data).toEqual({ number: 'XXXXXXXXXXXX4242' });
      const again = await createWith({ container: '/cards/de/', data, unless_exists: 'pan' });
      expect([again.status, again.body.id]).toEqual([200, body.id]);
    });

    test('do not apply elsewhere, to tokens with max_uses, or to tokens with their own templates', async () => {
      const code = await createWith({ container: '/cards/', data: '123', max_uses: 1 });
      expect([code.status, code.body.mask]).toEqual([201, undefined]);
      const elsewhere = await createWith({ container: '/notes/', data });
      expect([elsewhere.body.mask, elsewhere.body.search]).toEqual([undefined, undefined]);
      const own = await createWith({ container: '/cards/', data, mask: 'card', search: {} });
      expect([own.body.mask, own.body.search]).toEqual(['card', undefined]);
    });
  });
});
