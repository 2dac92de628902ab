/** Large responses that clients do not read are limited. */
import { describe, expect, test } from 'bun:test';
import type { Failure } from '../../../src/domain/error.ts';
import { LargeReplies } from '../../../src/http/pipeline/large-replies.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';
import { until } from '../../support/until.ts';

const text = 'ä'.repeat(100_000);
const bytes = 200_000;
const budget = { perApplication: 2 * bytes, total: 3 * bytes };

function denial(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return (error as Failure).code;
  }
}

describe('a large response', () => {
  test('arrives completely, and counts until it is read', async () => {
    const replies = new LargeReplies(budget);
    const stream = replies.stream('a', text);
    expect(replies.unsentBytes).toBe(bytes);
    expect(await new Response(stream).text()).toBe(text);
    expect(replies.unsentBytes).toBe(0);
  });

  test.each([0, 1, 2])('with %i characters before pairs of surrogates arrives unchanged', async (before) => {
    const pairs = 'x'.repeat(before) + '🔑'.repeat(100_000);
    const stream = new LargeReplies().stream('a', pairs);
    expect((await new Response(stream).text()) === pairs).toBe(true);
  });

  test('counts until the client disconnects', async () => {
    const replies = new LargeReplies(budget);
    const reader = replies.stream('a', text).getReader();
    await reader.read();
    expect(replies.unsentBytes).toBe(bytes);
    await reader.cancel();
    expect(replies.unsentBytes).toBe(0);
  });

  test('is rejected if too many bytes are unsent for its application or in total', async () => {
    const replies = new LargeReplies(budget);
    const first = replies.stream('a', text);
    replies.stream('a', text);
    expect(denial(() => replies.stream('a', text))).toBe('too_many_requests');
    replies.stream('b', text);
    expect(denial(() => replies.stream('c', text))).toBe('unavailable');
    await first.cancel();
    expect(denial(() => replies.stream('c', text))).toBeUndefined();
  });
});

test('an application may have 64 MiB of unsent responses by default', () => {
  const replies = new LargeReplies();
  const page = 'x'.repeat(8 * 1024 * 1024);
  for (let n = 0; n < 8; n++) replies.stream('a', page);
  expect(denial(() => replies.stream('a', 'x'))).toBe('too_many_requests');
  expect(denial(() => replies.stream('b', page))).toBeUndefined();
});

test('a response counts while the client does not read it, until the client disconnects', async () => {
  const size = 64 * 1024 * 1024; // More than the system buffers for a socket.
  const replies = new LargeReplies({ perApplication: 2 * size, total: 2 * size });
  const page = 'x'.repeat(size);
  using server = Bun.serve({ port: 0, idleTimeout: 0, fetch: () => new Response(replies.stream('a', page)) });

  /** Sends a request, and stops reading when the response begins. */
  async function stall() {
    const begins = Promise.withResolvers<void>();
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: server.port as number,
      socket: {
        data: (socket) => {
          socket.pause();
          begins.resolve();
        },
      },
    });
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await begins.promise;
    return socket;
  }

  const stalled = [await stall(), await stall()];
  expect(replies.unsentBytes).toBe(2 * size);
  for (const socket of stalled) socket.terminate();
  await until('no unsent bytes', () => replies.unsentBytes === 0);
});

test('a read over the limit is rejected; a change and other applications are not affected', async () => {
  const budget = { perApplication: 1_000_000, total: 4_000_000 };
  const server: TestServer = await openTestServer(sqlite, {}, undefined, {
    largeReplies: new LargeReplies(budget),
  });
  const management = await server.tenant();
  const transform = { priority: 1, transform: 'reveal', permissions: ['token:read', 'token:create'] };
  const grants = (container: string) => ({ permissions: [], rules: [{ ...transform, container }] });
  const { key } = await server.application(management.key, grants('/'));
  const { key: other } = await server.application(management.key, grants('/small/'));
  const create = (container: string, length: number) =>
    server.call('POST', '/tokens', { key, body: { container, data: 'x'.repeat(length) } });

  expect((await create('/large/', 1_048_000)).status).toBe(201);
  expect((await create('/small/', 500_000)).status).toBe(201);
  expect(await server.call('GET', '/tokens', { key })).toMatchObject({
    status: 429,
    body: { code: 'too_many_requests' },
  });
  expect((await server.call('GET', '/tokens', { key: other })).status).toBe(200);
  expect((await server.call('GET', '/tokens?container=/small/', { key })).status).toBe(200);
  await server.close();
});
