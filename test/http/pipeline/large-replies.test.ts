/** Large responses that clients do not read are limited. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Failure } from '../../../src/domain/error.ts';
import { LargeReplies } from '../../../src/http/pipeline/large-replies.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

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

describe('clients that do not read large pages', () => {
  let server: TestServer;
  let key: string;
  let other: string;
  beforeAll(async () => {
    server = await openTestServer(sqlite);
    const management = await server.tenant();
    const rules = [
      { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:create'] },
    ];
    key = (await server.application(management.key, { permissions: [], rules })).key;
    other = (await server.application(management.key, { permissions: [], rules })).key;
    for (let n = 0; n < 8; n++)
      await server.call('POST', '/tokens', { key, body: { data: 'x'.repeat(1_048_000) } });
  });
  afterAll(() => server.close());

  /** Sends a request, and stops reading when the response begins. */
  async function stall() {
    const begins = Promise.withResolvers<number>();
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: Number(new URL(server.url).port),
      socket: {
        data: (socket, data) => {
          socket.pause();
          begins.resolve(Number(/^HTTP\/1.1 (\d+)/.exec(data.toString())?.[1]));
        },
      },
    });
    socket.write(`GET /tokens?size=100 HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${key}\r\n\r\n`);
    return { socket, status: await begins.promise };
  }

  test('are rejected after 64 MiB without affecting others, until they disconnect', async () => {
    const stalled = [await stall()];
    while (stalled.at(-1)?.status === 200 && stalled.length < 100) stalled.push(await stall());
    expect(stalled.at(-1)?.status).toBe(429);
    // Eight or nine pages of about 7 MiB, and the rejected one.
    expect([9, 10]).toContain(stalled.length);
    expect((await server.call('GET', '/tokens', { key: other })).status).toBe(200);
    for (const { socket } of stalled) socket.terminate();
    let status = 429;
    for (let tries = 0; status === 429 && tries < 1000; tries++)
      status = (await server.call('GET', '/tokens', { key })).status;
    expect(status).toBe(200);
  }, 30_000);
});
