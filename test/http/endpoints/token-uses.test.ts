/** Tokens with `max_uses`: a number of requests to destinations, on all nodes together, and no read of the data. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { noOpenssl } from '../../support/certificates.ts';
import { openReceiver, type Receiver, tokenUseRule } from '../../support/destination-receiver.ts';
import {
  databases,
  manyConnections,
  openTestServer,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';

const settings = {
  SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1',
  SALLYPORT_MASTER_KEY: testMasterKey,
  SALLYPORT_USES_PER_TOKEN: '1000',
  ...manyConnections,
};
const mask = '{{ data | reveal_last: 1 }}';
const code = { container: '/cards/', data: '123', mask, max_uses: 2 };
const requests = [
  { method: 'POST', path: '/v1/charges', placeholders: [{ at: '/code' }, { at: '/other' }], reply: ['/id'] },
];

describe.skipIf(noOpenssl).each(databases)('tokens with max_uses on %s', (_, database) => {
  let nodes: TestServer[];
  let receiver: Receiver;
  let key: string;
  let user: string;
  let reader: string;
  let resolved: string[];
  beforeAll(async () => {
    receiver = await openReceiver();
    const open = (at: typeof database | string) =>
      openTestServer(at, settings, undefined, { resolve: async () => resolved });
    const first = await open(database);
    nodes = [first, await open(first.config.databaseUrl)];
    ({ key } = await first.tenant());
    const { body } = await call('POST', '/destinations', {
      name: 'payments',
      origin: receiver.origin,
      ca: receiver.ca,
      requests,
    });
    const use = tokenUseRule('/cards/', [body.id]);
    const read = {
      priority: 1,
      container: '/cards/',
      transform: 'reveal',
      permissions: ['token:create', 'token:read', 'token:update'],
    };
    ({ key: user } = await first.application(key, { permissions: [], rules: [use] }));
    ({ key: reader } = await first.application(key, { permissions: [], rules: [read] }));
  });
  beforeEach(() => {
    receiver.received.length = 0;
    resolved = ['127.0.0.1'];
  });

  const call = (method: string, path: string, body?: unknown, as = key, node = 0) =>
    (nodes[node] as TestServer).call(method, path, { key: as, body });
  const create = (id: string, fields: object = {}) =>
    call('POST', '/tokens', { id, ...code, ...fields }, reader);
  const charge = (id: string, node = 0, other?: string) =>
    call(
      'POST',
      '/proxy/payments/v1/charges',
      { code: `{{ token: ${id} }}`, ...(other && { other: `{{ token: ${other} }}` }) },
      user,
      node,
    );

  test('the data is never revealed, and a mask that exists is shown', async () => {
    const created = await create('c-read');
    expect(created.body).toMatchObject({ max_uses: 2, uses: 0, data: 'XX3' });
    const patched = await call('PATCH', '/tokens/c-read', { metadata: { a: 'b' } }, reader);
    expect(patched.body).toMatchObject({ max_uses: 2, uses: 0, data: 'XX3' });
    expect((await call('GET', '/tokens/c-read', undefined, reader)).body.data).toBe('XX3');
    await create('c-other', { max_uses: undefined });
    const { data } = (await call('GET', '/tokens?id=c-read,c-other', undefined, reader)).body;
    expect(data.map((token: { data: string }) => token.data)).toEqual(['123', 'XX3']);
    await call('PATCH', '/tokens/c-read', { mask: null }, reader);
    expect((await call('GET', '/tokens/c-read', undefined, reader)).body).not.toHaveProperty('data');
  });

  test.each<[string, object, string]>([
    ['0 uses', { max_uses: 0 }, 'max_uses'],
    ['101 uses', { max_uses: 101 }, 'max_uses'],
    ['half a use', { max_uses: 1.5 }, 'max_uses'],
    ['search', { search: { code: '{{ data }}' } }, 'search'],
  ])('a token with %s is rejected', async (_, fields, field) => {
    const { status, body } = await create('c-invalid', fields);
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });

  test.each<[string, object, string]>([
    ['more uses', { max_uses: 100 }, 'validation_failed'],
    ['no limit', { max_uses: null }, 'validation_failed'],
    ['search', { search: { code: '{{ data }}' } }, 'validation_failed'],
    ['a mask that shows the data', { mask: '{{ data.code }}' }, 'reveal_required'],
    ['a part of the data', { data: { a: 1 } }, 'reveal_required'],
  ])('a key with reveal cannot set %s', async (_, patch, expected) => {
    await create('c-patch', { data: { code: '123' }, mask: undefined });
    expect((await call('PATCH', '/tokens/c-patch', patch, reader)).body.code).toBe(expected);
  });

  test('each request that is sent is a use, and the last one deletes the token, with an entry', async () => {
    await create('c-used');
    resolved = ['10.0.0.1'];
    expect((await charge('c-used')).status).toBe(502);
    resolved = ['127.0.0.1'];
    expect((await call('POST', '/proxy/payments/v1/other', {}, user)).status).toBe(400);
    expect((await charge('c-used', 0, 'c-used')).status).toBe(200);
    const { body, headers } = await call('GET', '/tokens/c-used', undefined, reader);
    expect([body.uses, body.modified_at, headers.get('etag')]).toEqual([1, undefined, expect.any(String)]);
    expect((await charge('c-used', 1)).status).toBe(200);
    expect((await charge('c-used')).status).toBe(404);
    expect((await call('GET', '/tokens/c-used')).status).toBe(404);
    expect(receiver.received).toHaveLength(2);
    const { data } = (await call('GET', '/logs?token=c-used&size=3')).body;
    expect(data.map(({ operation }: { operation: string }) => operation)).toEqual([
      'token.use.outcome',
      'token.delete',
      'token.use',
    ]);
    expect(data[1]).toMatchObject({
      entity: { kind: 'token', id: 'c-used' },
      request_id: data[2].request_id,
    });
  });

  test('concurrent requests to two nodes use it as often as allowed', async () => {
    await create('c-race', { max_uses: 3 });
    const replies = await Promise.all(Array.from({ length: 12 }, (_, at) => charge('c-race', at % 2)));
    const statuses = replies.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(new Set(statuses)).toEqual(new Set([200, 404]));
    expect(receiver.received).toHaveLength(3);
  });

  test('a request with two tokens uses both or none, in any order', async () => {
    await create('c-first', { max_uses: 100 });
    await create('c-second', { max_uses: 3 });
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, at) =>
        at % 4 < 2 ? charge('c-first', at % 2, 'c-second') : charge('c-second', at % 2, 'c-first'),
      ),
    );
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 200, 200, ...Array(9).fill(404)]);
    expect((await call('GET', '/tokens/c-first', undefined, reader)).body.uses).toBe(3);
    expect(receiver.received).toHaveLength(3);
  });
});
