/** Management of destinations: fields, secrets, names, limits and audit entries. */

import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createCertificates, noOpenssl } from '../../support/certificates.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { dumpDatabase } from '../../support/database.ts';
import { tokenUseRule } from '../../support/destination-receiver.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const requests = [
  {
    method: 'POST',
    path: '/v1/charges/:id',
    placeholders: [
      { at: '/card/number', from: '/number' },
      { at: 'form:card[number]' },
      { at: 'header:X-Card', prefix: 'Card ' },
    ],
    query: ['expand'],
    headers: ['Accept-Language'],
    reply: ['/id', 'header:Request-Id', ''],
  },
];
const origin = 'https://api.payments.example:8443';
const secret = 'Bearer sk_live_51HhTbqF';

describe.each(databases)('destinations on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key } = await server.tenant();

  const call = (method: string, path: string, body?: unknown, as = key) =>
    server.call(method, path, { key: as, body });
  const create = (fields: object = {}, as = key) =>
    call('POST', '/destinations', { name: crypto.randomUUID().slice(0, 8), origin, requests, ...fields }, as);

  test('a destination is returned with its defaults and without the values of its headers', async () => {
    const { status, body } = await create({ name: 'payments', headers: { Authorization: secret } });
    expect(status).toBe(201);
    const [request] = requests;
    const stored = {
      ...request,
      placeholders: [
        { at: '/card/number', from: '/number' },
        { at: 'form:card[number]' },
        { at: 'header:x-card', prefix: 'Card ' },
      ],
      headers: ['accept-language'],
      reply: ['/id', 'header:request-id', ''],
    };
    expect(body).toMatchObject({ name: 'payments', origin, requests: [stored], timeout: 25 });
    expect(body.header_names).toEqual(['authorization']);
    expect((await call('GET', `/destinations/${body.id}`)).body).toEqual(body);
    const listed = await call('GET', '/destinations?name=PAYM');
    expect(listed.body).toMatchObject({ pagination: { total_items: 1 }, data: [body] });
    const database = await dumpDatabase(server.config.databaseUrl);
    const log = (await call('GET', '/logs?operation=destination.create')).body.data;
    expect(log[0]).toMatchObject({ entity: { kind: 'destination', id: body.id }, result: 'success' });
    for (const text of [database, JSON.stringify([body, log])])
      expect(text).not.toContain('sk_live_51HhTbqF');
  });

  test('a request has name, description, schema, any content and a stream, and an update keeps them', async () => {
    const schema = {
      type: 'object',
      properties: { model: { enum: ['small'] } },
      additionalProperties: false,
    };
    const given = [
      {
        method: 'POST',
        path: '/v1/chat',
        name: 'chat',
        description: 'Ask.\nTwice.',
        schema,
        reply: 'stream',
      },
      { method: 'PUT', path: '/v1/files/*', body: 'any', reply: [''] },
      { method: 'GET', path: '/*' },
    ];
    const { status, body } = await create({
      requests: given,
      timeout: 600,
      max_in_flight: 1000,
      ignored_headers: ['X-Stainless-*', 'x-app'],
    });
    const empty = { placeholders: [], query: [], headers: [], reply: [] };
    const stored = {
      requests: given.map((request) => ({ ...empty, ...request })),
      ...{ timeout: 600, max_in_flight: 1000, ignored_headers: ['x-stainless-*', 'x-app'] },
    };
    expect([status, body]).toEqual([201, expect.objectContaining(stored)]);
    const again = await call('PUT', `/destinations/${body.id}`, body);
    expect(again.body).toMatchObject(stored);
    const least = await call('PUT', `/destinations/${body.id}`, { name: body.name, requests });
    expect(least.body).toMatchObject({ timeout: 25, max_in_flight: 50, ignored_headers: [] });
  });

  const charge = { method: 'POST', path: '/v1/charges', placeholders: [{ at: '/card' }] };
  test.each<[string, object, string]>([
    ['a timeout for streams without one', { timeout: 61 }, 'timeout'],
    [
      'a timeout that is too long',
      { timeout: 601, requests: [{ ...charge, placeholders: [], reply: 'stream' }] },
      'timeout',
    ],
    ['too many in flight', { max_in_flight: 1001 }, 'max_in_flight'],
    ['any ignored header', { ignored_headers: ['*'] }, 'ignored_headers.0'],
    ['a star inside of an ignored header', { ignored_headers: ['x-*-y'] }, 'ignored_headers.0'],
    ['a key in an ignored header', { ignored_headers: [`slp_non_${'a'.repeat(49)}`] }, 'ignored_headers.0'],
    ['a wide path with placeholders', { requests: [{ ...charge, path: '/v1/*' }] }, 'requests.0.path'],
    ['a star inside of a path', { requests: [{ method: 'GET', path: '/*/x' }] }, 'requests.0.path'],
    ['any content with placeholders', { requests: [{ ...charge, body: 'any' }] }, 'requests.0.body'],
    [
      'any content without a body',
      { requests: [{ method: 'GET', path: '/', body: 'any' }] },
      'requests.0.body',
    ],
    ['a stream with placeholders', { requests: [{ ...charge, reply: 'stream' }] }, 'requests.0.reply'],
    ['another reply', { requests: [{ ...charge, reply: 'all' }] }, 'requests.0.reply'],
    ['a bad part of a reply', { requests: [{ ...charge, reply: ['id'] }] }, 'requests.0.reply.0'],
    [
      'the same name twice',
      {
        requests: [
          { ...charge, name: 'a' },
          { ...charge, name: 'a' },
        ],
      },
      'requests',
    ],
    ['a name with a space', { requests: [{ ...charge, name: 'a b' }] }, 'requests.0.name'],
    [
      'a schema with another keyword',
      { requests: [{ ...charge, schema: { items: { pattern: 'a' } } }] },
      'requests.0.schema',
    ],
    [
      'a schema that is too long',
      { requests: [{ ...charge, schema: { description: 'a'.repeat(8192) } }] },
      'requests.0.schema',
    ],
    [
      'a schema with a key',
      { requests: [{ ...charge, schema: { const: `slp_non_${'a'.repeat(49)}` } }] },
      'requests.0.schema',
    ],
    [
      'a schema without a body',
      { requests: [{ method: 'GET', path: '/', schema: {} }] },
      'requests.0.schema',
    ],
  ])('%s is an error of its field', async (_, fields, path) => {
    const { status, body } = await create(fields);
    expect([status, Object.keys(body.errors ?? {})]).toEqual([400, [path]]);
  });

  test('a caller finds out which destinations it can use, without secrets, and spends no use', async () => {
    const named = await create({ headers: { authorization: secret }, ignored_headers: ['x-app'] });
    await create();
    const rule = tokenUseRule('/cards/', [named.body.id]);
    const { key: backend } = await server.application(key, { permissions: [], rules: [rule] });
    const { key: other } = await server.application(key, { permissions: ['token:read'] });
    const list = (as: string) => call('GET', '/proxy', undefined, as);
    const { name, requests: listed } = named.body;
    const usable = [{ name, origin, requests: listed, ignored_headers: ['x-app'] }];
    expect((await list(backend)).body.data).toEqual(usable);
    expect(await list(other)).toMatchObject({ status: 403, body: { code: 'permission_missing' } });
    const narrow = {
      rules: [
        {
          ...rule,
          container: undefined,
          conditions: [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }],
        },
      ],
    };
    const delegation = await call('POST', '/delegations', { ...narrow, max_uses: 1 }, backend);
    for (let times = 0; times < 2; times++)
      expect((await list(delegation.body.key)).body.data).toEqual(usable);
  });

  test('an update without headers does not change them, accepts a fetched destination, and never changes the origin', async () => {
    const { body } = await create({ headers: { authorization: secret } });
    const path = `/destinations/${body.id}`;
    const renamed = await call('PUT', path, { ...body, name: `${body.name}-2`, timeout: 5 });
    expect(renamed).toMatchObject({ status: 200, body: { header_names: ['authorization'], timeout: 5 } });
    const { name } = renamed.body;
    const replaced = await call('PUT', path, { name, requests, headers: { 'x-api-key': 'k' } });
    expect(replaced.body).toMatchObject({ header_names: ['x-api-key'], timeout: 25 });
    expect((await call('PUT', path, { name, requests, headers: {} })).body.header_names).toEqual([]);
    for (const field of [
      { origin: 'https://evil.example' },
      { id: crypto.randomUUID() },
      { header_names: ['x'] },
    ])
      expect((await call('PUT', path, { name, requests, ...field })).body.errors).toHaveProperty(
        Object.keys(field)[0] as string,
      );
    const { difference } = (await call('GET', '/logs?operation=destination.update')).body.data[0];
    expect(difference).toMatchObject({ headers: {}, header_names: { from: ['x-api-key'], to: [] } });
  });

  test('names are unique in the tenant, and a deleted name can be used again with another id', async () => {
    const name = crypto.randomUUID().slice(0, 8);
    const first = (await create({ name })).body;
    expect((await create({ name })).body.code).toBe('destination_exists');
    const other = (await create()).body;
    const rename = await call('PUT', `/destinations/${other.id}`, { name, requests });
    expect([rename.status, rename.body.code]).toEqual([409, 'destination_exists']);
    expect((await create({ name }, (await server.tenant()).key)).status).toBe(201);
    expect((await call('DELETE', `/destinations/${first.id}`)).status).toBe(204);
    expect((await call('GET', `/destinations/${first.id}`)).status).toBe(404);
    expect((await create({ name })).body.id).not.toBe(first.id);
  });

  test('concurrent requests create one destination of a name, and no more than a tenant may have', async () => {
    const { key: own } = await server.tenant();
    const together = await Promise.all(Array.from({ length: 8 }, () => create({ name: 'same' }, own)));
    expect(together.filter(({ status }) => status === 201)).toHaveLength(1);
    for (let count = 1; count < 96; count++) expect((await create({}, own)).status).toBe(201);
    const last = await Promise.all(Array.from({ length: 8 }, () => create({}, own)));
    expect(last.filter(({ status }) => status === 201)).toHaveLength(4);
    expect(last.find(({ status }) => status !== 201)?.body.code).toBe('too_many_destinations');
  });

  test.skipIf(noOpenssl)(
    'the private key of a client certificate is never returned or stored in plain text',
    async () => {
      const folder = temporaryFolder();
      const { authority, client, server: another } = createCertificates(folder, 'client');
      const [certificate, privateKey, ca, wrong] = [
        client.certificate,
        client.key,
        authority,
        another.key,
      ].map((file) => readFileSync(file, 'utf8')) as [string, string, string, string];
      const { body, status } = await create({ client_certificate: certificate + privateKey, ca });
      expect([status, body.client_certificate, body.ca]).toEqual([201, certificate, ca]);
      const bytes = privateKey.split('\n')[1] as string;
      expect(await dumpDatabase(server.config.databaseUrl)).not.toContain(bytes);
      const path = `/destinations/${body.id}`;
      expect((await call('PUT', path, body)).body.client_certificate).toBe(certificate);
      expect(
        (await call('PUT', path, { ...body, client_certificate: undefined })).body.client_certificate,
      ).toBe(undefined);
      for (const invalid of [certificate, certificate + wrong, privateKey, `${certificate}x`])
        expect((await create({ client_certificate: invalid })).body.errors).toHaveProperty(
          'client_certificate',
        );
      for (const invalid of [privateKey, 'x', ca.replace(/MII./, 'MIIA')])
        expect((await create({ ca: invalid })).body.errors).toHaveProperty('ca');
    },
  );

  test('an origin without TLS is refused, because HTTPS is required', async () => {
    const { errors } = (await create({ origin: 'http://api.example' })).body;
    expect(errors).toEqual({ origin: ['must begin with https://: destinations are reached by HTTPS only'] });
  });

  const request = (fields: object) => ({ requests: [{ method: 'POST', path: '/', ...fields }] });
  const placeholder = (fields: object) => request({ placeholders: [fields] });
  test.each<[string, object]>([
    ['name', { name: 'Upper' }],
    ['name', { name: 'a'.repeat(51) }],
    ['name', { name: crypto.randomUUID() }],
    ['origin', { origin: 'http://api.example' }],
    ['origin', { origin: 'https://api.example/path' }],
    ['origin', { origin: 'https://user@api.example' }],
    ['timeout', { timeout: 61 }],
    ['requests', { requests: [] }],
    ['requests.0.path', request({ path: 'v1' })],
    ['requests.0.path', request({ path: '/v1/../admin' })],
    ['requests.0.path', request({ path: '/v1//x' })],
    ['requests.0.path', request({ path: '/v1/%2e' })],
    ['requests.0.path', request({ path: '/v1/a;b' })],
    ['requests.0.path', request({ path: '/v1/a*' })],
    ['requests.0.headers.0', request({ headers: ['SVC-API-KEY'] })],
    ['requests.0.headers.0', request({ headers: ['cookie'] })],
    ['requests.0.headers.0', request({ headers: ['Transfer-Encoding'] })],
    ['requests.0.reply.0', request({ reply: ['header:set-cookie'] })],
    ['requests.0.reply.0', request({ reply: ['id'] })],
    ['requests.0.placeholders.0.at', placeholder({ at: 'number' })],
    ['requests.0.placeholders.0.at', placeholder({ at: 'header:host' })],
    ['requests.0.placeholders.0.at', placeholder({ at: 'header:proxy-authorization' })],
    ['requests.0.placeholders.0.from', placeholder({ at: '/a', from: 'number' })],
    ['requests.0.placeholders.0.prefix', placeholder({ at: '/a', prefix: 'a\r\nb' })],
    ['requests.0.placeholders', request({ method: 'GET', placeholders: [{ at: '/a' }] })],
    ['requests.0.placeholders', request({ placeholders: [{ at: '/a' }, { at: '/a' }] })],
    ['requests.0', { ...placeholder({ at: 'header:x-key' }), headers: { 'X-Key': 'k' } }],
    ['headers.x-key', { headers: { 'x-key': 'a\nb' } }],
    ['headers.Content-Length', { headers: { 'Content-Length': '1' } }],
  ])('an invalid %s is rejected: %j', async (field, fields) => {
    const { status, body } = await create(fields);
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });
});
