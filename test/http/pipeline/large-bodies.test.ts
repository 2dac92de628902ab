/** A process handles large bodies at a limited rate, so that they do not delay other requests. */
import { describe, expect, test } from 'bun:test';
import type { Failure } from '../../../src/domain/error.ts';
import { LargeBodies } from '../../../src/http/pipeline/large-bodies.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

const mebibyte = 1_048_576;

/** The milliseconds that each body waits. */
function waitsOf(now: () => number) {
  const waits: number[] = [];
  const bodies = new LargeBodies(now, async (milliseconds) => {
    waits.push(milliseconds);
  });
  return { bodies, waits };
}

describe('a large body', () => {
  test('does not wait if none was handled just before', async () => {
    let now = 1000;
    const { bodies, waits } = waitsOf(() => now);
    await bodies.takeTurn(mebibyte);
    now += 64;
    await bodies.takeTurn(mebibyte);
    expect(waits).toEqual([]);
  });

  test('waits for those before it: 64 ms per MiB', async () => {
    let now = 1000;
    const { bodies, waits } = waitsOf(() => now);
    await bodies.takeTurn(mebibyte);
    await bodies.takeTurn(mebibyte / 2);
    now += 10;
    await bodies.takeTurn(mebibyte);
    expect(waits).toEqual([64, 86]);
  });

  test('is rejected if it would wait longer than ten seconds, and does not delay later ones', async () => {
    let now = 1000;
    const { bodies, waits } = waitsOf(() => now);
    for (let body = 0; body < 157; body++) await bodies.takeTurn(mebibyte);
    expect(waits.at(-1)).toBe(156 * 64);
    const failure = await bodies.takeTurn(mebibyte).catch((error: Failure) => error);
    expect(failure).toMatchObject({ code: 'unavailable', expected: true });
    now += 157 * 64;
    await bodies.takeTurn(mebibyte);
    expect(waits).toHaveLength(156);
  });
});

test('a request that waits is rejected if its key is revoked; small requests do not wait', async () => {
  const waiting = Promise.withResolvers<void>();
  const turn = Promise.withResolvers<void>();
  const largeBodies = new LargeBodies(
    () => 0,
    () => {
      waiting.resolve();
      return turn.promise;
    },
  );
  const server: TestServer = await openTestServer(sqlite, {}, undefined, { largeBodies });
  const management = await server.tenant();
  const rules = [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:create'] }];
  const { id, key } = await server.application(management.key, { permissions: [], rules });
  const create = (length: number) =>
    server.call('POST', '/tokens', { key, body: { container: '/a/', data: 'x'.repeat(length) } });

  expect((await create(70_000)).status).toBe(201);
  const second = create(70_000);
  await waiting.promise;
  expect((await create(60_000)).status).toBe(201);
  await server.call('DELETE', `/applications/${id}`, { key: management.key });
  turn.resolve();
  expect((await second).status).toBe(401);
  await server.close();
});
