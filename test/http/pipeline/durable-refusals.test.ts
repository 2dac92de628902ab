/** On SQLite, a change that is refused because of what was read is answered only when that is on disk. */
import { beforeAll, expect, test } from 'bun:test';
import { type ApiResponse, openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

/** While it is set, no sync ends. `asked` resolves when a request waits for one. */
let held:
  | { readonly asked: PromiseWithResolvers<void>; readonly end: PromiseWithResolvers<void> }
  | undefined;
let server: TestServer;
let keys: Record<'revoked' | 'reader' | 'malformed', string>;

beforeAll(async () => {
  server = await openTestServer(sqlite, {}, (db) => {
    const durable = async () => {
      held?.asked.resolve();
      await held?.end.promise;
      return db.local?.durable();
    };
    return db.local ? { ...db, local: { ...db.local, durable } } : db;
  });
  const { key } = await server.tenant();
  const reader = await server.application(key);
  const revoked = await server.application(key);
  await server.call('DELETE', `/applications/${revoked.id}`, { key });
  keys = { reader: reader.key, revoked: revoked.key, malformed: 'no key' };
});

async function whileSyncsTake(send: () => Promise<ApiResponse>) {
  held = { asked: Promise.withResolvers(), end: Promise.withResolvers() };
  const { asked, end } = held;
  let status: number | undefined;
  const response = send().then((received) => {
    status = received.status;
  });
  await Promise.race([asked.promise, response]);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  const before = status;
  end.resolve();
  held = undefined;
  await response;
  return { before, after: status };
}

test.each([
  ['a change with a revoked key', 'POST', 'revoked', { before: undefined, after: 401 }],
  ['a change without the permission', 'POST', 'reader', { before: undefined, after: 403 }],
  [
    'a change with a malformed key, for which nothing is read,',
    'POST',
    'malformed',
    { before: 401, after: 401 },
  ],
  ['a read with a revoked key', 'GET', 'revoked', { before: 401, after: 401 }],
  ['a read without the permission', 'GET', 'reader', { before: 403, after: 403 }],
] as const)(
  '%s is refused with the right status, before or after the sync',
  async (_, method, who, expected) => {
    const path = method === 'POST' ? '/tokens' : '/applications';
    const body = method === 'POST' ? { data: 'x' } : undefined;
    expect(await whileSyncsTake(() => server.call(method, path, { key: keys[who], body }))).toEqual(expected);
  },
);
