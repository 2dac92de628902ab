/** Large requests, pages and responses take memory from a limit, before it is used and until the response was sent. */
import { describe, expect, test } from 'bun:test';
import type { Failure } from '../../../src/domain/error.ts';
import { JsonText } from '../../../src/domain/json-text.ts';
import { memoryLimits, RequestMemory, Reservation } from '../../../src/http/pipeline/request-memory.ts';
import { databases, openTestServer } from '../../support/test-server.ts';
import { until } from '../../support/until.ts';

const mebibyte = 1_048_576;

function denial(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return (error as Failure).code;
  }
}

describe('a reservation', () => {
  const limits = { perApplication: 2 * mebibyte, total: 3 * mebibyte };
  const by = (memory: RequestMemory, application: string) => {
    const reservation = new Reservation(memory, application);
    return { ...reservation, add: (bytes: number) => denial(() => reservation.add(bytes)), reservation };
  };

  test('is refused if its application or all together would hold too much, and adds nothing then', () => {
    const memory = new RequestMemory(limits);
    const [first, second] = [by(memory, 'a'), by(memory, 'a')];
    expect([first.add(mebibyte), second.add(mebibyte), second.add(1)]).toEqual([
      undefined,
      undefined,
      'too_many_requests',
    ]);
    expect([by(memory, 'b').add(mebibyte), by(memory, 'c').add(mebibyte)]).toEqual([
      undefined,
      'unavailable',
    ]);
    expect(memory.reservedBytes).toBe(3 * mebibyte);
    first.reservation.release();
    first.reservation.release();
    expect(memory.reservedBytes).toBe(2 * mebibyte);
    expect(by(memory, 'c').add(mebibyte)).toBeUndefined();
  });

  test('may exceed the limits alone, because the request could never succeed otherwise', () => {
    const memory = new RequestMemory(limits);
    const large = by(memory, 'a');
    expect([large.add(4 * mebibyte), large.add(mebibyte)]).toEqual([undefined, undefined]);
    expect([by(memory, 'a').add(mebibyte), by(memory, 'b').add(mebibyte)]).toEqual([
      'too_many_requests',
      'unavailable',
    ]);
  });

  test('of a small request is neither counted nor refused, until it grows', () => {
    const memory = new RequestMemory({ perApplication: 0, total: 0 });
    expect(by(memory, 'a').add(mebibyte)).toBeUndefined();
    const small = by(memory, 'a');
    expect([small.add(65_535), small.add(1), small.add(1)]).toEqual([
      undefined,
      undefined,
      'too_many_requests',
    ]);
    expect(memory.reservedBytes).toBe(mebibyte);
  });

  test('cannot grow after the request has ended', () => {
    const memory = new RequestMemory(limits);
    const { reservation, add } = by(memory, 'a');
    reservation.release();
    expect([add(mebibyte), memory.reservedBytes]).toEqual(['unavailable', 0]);
  });

  test.each([0, 1, 2, 65_535])(
    'sends a response with %i characters before pairs of surrogates unchanged',
    async (before) => {
      const memory = new RequestMemory(limits);
      const text = 'x'.repeat(before) + '\u{1f511}'.repeat(100_000);
      const bytes = new TextEncoder().encode('"ä"'.repeat(50_000));
      const json = JsonText.list([new JsonText(text), new JsonText(bytes), JsonText.of(1)]);
      const reservation = new Reservation(memory, 'a');
      reservation.add(2 * mebibyte);
      const stream = reservation.send(json, false);
      expect(memory.reservedBytes).toBe(json.bytes);
      expect((await new Response(stream).text()) === json.text).toBe(true);
      expect(memory.reservedBytes).toBe(0);
    },
  );

  test('of a response that is larger than reserved is refused, unless it must be sent', async () => {
    const memory = new RequestMemory({ perApplication: mebibyte, total: mebibyte });
    by(memory, 'a').add(mebibyte);
    const json = JsonText.of('x'.repeat(mebibyte));
    expect(denial(() => new Reservation(memory, 'a').send(json, false))).toBe('too_many_requests');
    const stream = new Reservation(memory, 'a').send(json, true);
    expect(memory.reservedBytes).toBe(mebibyte + json.bytes);
    await stream.cancel();
    expect(memory.reservedBytes).toBe(mebibyte);
  });
});

test('by default, an application may hold seven pages of 8 MiB', () => {
  const memory = new RequestMemory(memoryLimits(2 ** 30));
  for (let n = 0; n < 7; n++) new Reservation(memory, 'a').add(9 * mebibyte);
  expect(denial(() => new Reservation(memory, 'a').add(9 * mebibyte))).toBe('too_many_requests');
});

test('a response counts while the client does not read it, until the client disconnects', async () => {
  const size = 64 * mebibyte; // More than the system buffers for a socket.
  const memory = new RequestMemory({ perApplication: 2 * size, total: 2 * size });
  const page = new JsonText('x'.repeat(size));
  const respond = () => new Response(new Reservation(memory, 'a').send(page, false));
  using server = Bun.serve({ port: 0, idleTimeout: 0, fetch: respond });

  /** Sends a request, and stops reading when the response begins. */
  async function stall() {
    const begins = Promise.withResolvers<void>();
    const data = (socket: { pause(): void }) => {
      socket.pause();
      begins.resolve();
    };
    const port = server.port as number;
    const socket = await Bun.connect({ hostname: '127.0.0.1', port, socket: { data } });
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await begins.promise;
    return socket;
  }

  const stalled = [await stall(), await stall()];
  expect(memory.reservedBytes).toBe(2 * size);
  for (const socket of stalled) socket.terminate();
  await until('no reserved bytes', () => memory.reservedBytes === 0);
});

describe.each(databases)('large requests on %s', async (_, database) => {
  const memory = new RequestMemory({ perApplication: 8 * mebibyte, total: 16 * mebibyte });
  const server = await openTestServer(database, {}, undefined, { memory });

  const large = {
    data: { text: 'x'.repeat(900_000), name: 'Ada Lovelace' },
    search: { name: '{{ data.name }}' },
  };
  const create = (fields: object, headers = {}) =>
    server.call('POST', '/tokens', { key, body: { ...large, ...fields }, headers });

  const management = await server.tenant();
  const permissions = ['token:read', 'token:create', 'token:update', 'token:search'];
  const rules = [{ priority: 1, transform: 'reveal', container: '/', permissions }];
  const { id: application, key } = await server.application(management.key, {
    permissions: ['log:read', 'decision:create', 'access:review'],
    rules,
  });
  const { key: other } = await server.application(management.key, { permissions: [], rules });
  const many = Array.from({ length: 50 }, (_, n) => ({
    ...rules[0],
    container: `/${'a'.repeat(200)}/${n}/`,
  }));
  const { key: asked } = await server.application(management.key, { permissions: [], rules: many });
  await server.application(management.key, { permissions: [], rules: many });
  for (const id of ['one', 'two', 'three']) expect((await create({ id: `large-${id}` })).status).toBe(201);
  expect((await create({ id: 'small', data: { name: 'x' } })).status).toBe(201);

  const decide = () => {
    const resources = Array.from({ length: 100 }, (_, n) => ({ id: `token-${n}` }));
    const body = { credential: asked, permission: 'token:delete', resources, explain: true };
    return server.call('POST', '/decisions', { key, body });
  };

  test('are refused while their application holds too much; small ones and others are not affected', async () => {
    const held = new Reservation(memory, application);
    held.add(8 * mebibyte);
    const refused = { status: 429, body: { code: 'too_many_requests' } };
    const get = (path: string, as = key) => server.call('GET', path, { key: as });
    const patch = { data: { more: 1 } };
    expect(await get('/tokens')).toMatchObject(refused);
    expect(await get('/tokens/large-one')).toMatchObject(refused);
    expect(await create({ id: 'refused' })).toMatchObject(refused);
    expect(await create({ data: { name: 'Ada Lovelace' }, unless_exists: 'name' })).toMatchObject(refused);
    expect(await server.call('PATCH', '/tokens/large-one', { key, body: patch })).toMatchObject(refused);
    expect(await decide()).toMatchObject(refused);
    expect(await get('/access/advice')).toMatchObject(refused);
    expect(await get(`/access/diff?from=${new Date(0).toISOString()}`)).toMatchObject(refused);
    expect(await get('/tokens/refused')).toMatchObject({ status: 404 });
    expect(await get('/tokens/small')).toMatchObject({ status: 200 });
    expect(await get('/tokens', other)).toMatchObject({ status: 200 });
    const rest = new Reservation(memory, 'others');
    rest.add(8 * mebibyte);
    expect(await get('/tokens', other)).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    for (const each of [held, rest]) each.release();
    expect(await get('/tokens')).toMatchObject({ status: 200 });
  });

  test('release their memory on every path', async () => {
    const send = (method: string, path: string, body?: unknown, headers = {}) =>
      server.call(method, path, { key, body, headers });
    const repeated = { 'Idempotency-Key': 'repeated' };
    /** Disconnects after some bytes of the response; with 0, without waiting for it. */
    const disconnect = async (after: number, path = '/tokens') => {
      let [bytes, isRefused] = [0, false];
      const data = (_: unknown, chunk: Buffer) => {
        bytes += chunk.length;
        isRefused ||= chunk.includes('HTTP/1.1 429');
      };
      const { hostname, port } = new URL(server.url);
      const socket = await Bun.connect({ hostname, port: Number(port), socket: { data } });
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${key}\r\n\r\n`);
      await until('the response', () => bytes >= after || isRefused);
      socket.terminate();
    };
    const big = 'x'.repeat(900_000);
    const requests: (() => Promise<unknown>)[] = [
      () => send('GET', '/tokens'),
      () => send('HEAD', '/tokens'),
      () => send('GET', '/tokens/large-one'),
      () => send('GET', '/tokens/large-one?transform=redact'),
      () => send('HEAD', '/tokens/large-two'),
      () => send('GET', '/logs?size=100'),
      () => send('HEAD', '/logs'),
      () => send('GET', '/logs/counts?denials=true'),
      decide,
      () => send('GET', '/access/advice'),
      () => send('GET', `/access/diff?from=${new Date(0).toISOString()}`),
      () => send('POST', '/tokens/search', { equals: { name: 'Ada Lovelace' } }),
      () => create({ id: 'large-one' }),
      () => create({ id: 'again' }, repeated),
      () => create({ unless_exists: 'name' }),
      () => create({ container: '//' }),
      () => send('POST', '/tokens', `{"data":"${big}`),
      () => send('POST', '/tokens', `{"data":"${big}${big}"}`),
      () => send('PATCH', '/tokens/large-three', { data: { more: 1 } }),
      () => send('PATCH', '/tokens/large-three', { data: { more: 1 } }, { 'If-Match': '"old"' }),
      () => send('PATCH', '/tokens/none', { data: { text: big } }),
      () => server.call('POST', '/tokens', { key: `${key.slice(0, -1)}x`, body: large }),
      () =>
        fetch(`${server.url}/tokens`, {
          method: 'POST',
          headers: { 'SVC-API-KEY': key },
          body: streamOf(big),
        }),
      ...[0, 1, 100_000].map((after) => () => disconnect(after)),
      ...[0, 1, 100_000].map((after) => () => disconnect(after, '/tokens/large-one')),
      ...[0, 1].map((after) => () => disconnect(after, '/logs?size=100')),
    ];
    for (const request of requests) {
      await request();
      await until('no reserved bytes', () => memory.reservedBytes === 0);
    }
    // Concurrently, most are refused.
    await Promise.all([...requests, ...requests.toReversed()].map((request) => request()));
    await until('no reserved bytes', () => memory.reservedBytes === 0);
    expect((await send('GET', '/tokens')).status).toBe(200);
  });
});

/** A body without Content-Length. */
function streamOf(text: string): ReadableStream<Uint8Array> {
  return new Response(text).body as ReadableStream<Uint8Array>;
}
