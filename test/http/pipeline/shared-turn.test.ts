/** Reads that arrive together are handled together. */
import { expect, test } from 'bun:test';
import { arrivesWithOthers, requestEnded, sharedTurn } from '../../../src/http/pipeline/shared-turn.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);

test('calls in the same turn of the event loop wait for the same promise', async () => {
  const first = sharedTurn();
  await Promise.resolve();
  expect(sharedTurn()).toBe(first);
  await first;
  expect(sharedTurn()).not.toBe(first);
});

test('a request arrives with others if another arrived or ended less than 50 µs before, and so does one of 16 alone', () => {
  const start = performance.now() + 1_000_000;
  const alone = Array.from({ length: 32 }, (_, at) => start + at);
  expect(alone.filter(arrivesWithOthers)).toHaveLength(2);
  expect([start + 31.04, start + 31.08].map(arrivesWithOthers)).toEqual([true, true]);
  requestEnded(start + 40);
  expect(arrivesWithOthers(start + 40.04)).toBe(true);
});

test('each of many concurrent reads gets its own response, or 401 once its key is revoked', async () => {
  const { key } = await server.tenant();
  const applications = await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      server.application(key, { name: `application ${at}`, permissions: ['application:read'] }),
    ),
  );
  const readAll = () =>
    Promise.all(
      applications.map(async (each) => {
        const { status, body } = await server.call('GET', '/applications/key', { key: each.key });
        return status === 200 ? body.name : status;
      }),
    );
  expect(await readAll()).toEqual(applications.map(({ name }) => name));
  await server.call('DELETE', `/applications/${applications[7].id}`, { key });
  expect(await readAll()).toEqual(applications.map(({ name }, at) => (at === 7 ? 401 : name)));
});
