/** `createMany` creates every good item once, says of each bad one why, and sends few requests. */
import { expect, test } from 'bun:test';
import { Sallyport, type TokenCreate } from '../../sdk/src/sallyport.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

const server = await openTestServer(sqlite, {
  SALLYPORT_RATE_PER_KEY: '0',
  SALLYPORT_RATE_PER_ADDRESS: '0',
  SALLYPORT_TOKENS_PER_MINUTE: '0',
  SALLYPORT_SEARCHES_PER_MINUTE: '0',
  SALLYPORT_SEARCH_MISSES_PER_MINUTE: '0',
});
const bodies = (count: number, fields: (at: number) => object = () => ({})): TokenCreate[] =>
  Array.from({ length: count }, (_, at) => ({ id: `t-${at}`, container: '/own/', data: at, ...fields(at) }));
const wrongMask = { mask: '{{ data.no }}' };
const search = { n: '{{ data }}' };

/** Imports some bodies before, then the others. Returns the error code of each that was refused, and the requests. */
async function imported(first: TokenCreate[], then: TokenCreate[], permissions?: Record<string, unknown>) {
  const { key } = await server.tenant();
  const limited = permissions && (await server.application(key, permissions));
  let requests = 0;
  const counting = (url: RequestInfo | URL, init?: RequestInit) => {
    requests++;
    return fetch(url, init);
  };
  const api = new Sallyport({ url: server.url, key, fetch: counting as typeof fetch });
  const own = new Sallyport({ url: server.url, key: limited?.key ?? key, fetch: counting as typeof fetch });
  for await (const { error } of api.tokens.createMany(first)) if (error) throw error;
  requests = 0;
  const refused: Record<number, string> = {};
  const created: string[] = [];
  let at = 0;
  for await (const { body, token, error } of own.tokens.createMany(then)) {
    expect(body).toBe(then[at] as TokenCreate);
    if (error) {
      expect(error.message).not.toContain('tokens.');
      refused[at] = error.code;
    } else created.push(token.id);
    at++;
  }
  expect(at).toBe(then.length);
  const sent = requests;
  const stored: string[] = [];
  for await (const { id } of api.tokens.all()) stored.push(id);
  expect(new Set(stored).size).toBe(stored.length);
  for (const id of created) expect(stored).toContain(id);
  return { refused, stored: stored.length, requests: sent };
}

const exists = (ats: readonly number[]) => Object.fromEntries(ats.map((at) => [at, 'token_exists']));
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at);

test('one bad item is sent alone, and the others as a batch', async () => {
  const then = bodies(100, (at) => (at === 7 ? wrongMask : {}));
  expect(await imported([], then)).toEqual({ refused: { 7: 'validation_failed' }, stored: 99, requests: 3 });
});

test('a resumed import finds the existing tokens of a batch with two requests', async () => {
  const result = await imported(bodies(150), bodies(250));
  expect(result).toEqual({ refused: exists(upTo(150)), stored: 250, requests: 5 });
});

test('a resumed import with a bad item in each batch', async () => {
  const then = bodies(200, (at) => (at % 100 === 99 ? wrongMask : {}));
  const wrong = { 99: 'validation_failed', 199: 'validation_failed' };
  const result = await imported(bodies(50), then);
  expect([result.refused, result.stored]).toEqual([{ ...exists(upTo(50)), ...wrong }, 198]);
});

test('of two items with one id, the first creates the token', async () => {
  const then = bodies(10, (at) => (at === 6 ? { id: 't-2' } : {}));
  expect(await imported([], then)).toMatchObject({ refused: { 6: 'token_exists' }, stored: 9 });
  expect(await imported(bodies(3), then)).toMatchObject({ refused: exists([0, 1, 2, 6]), stored: 9 });
});

test('items with the same value create one token, also beside a bad one', async () => {
  const same = (at: number) => ({
    id: undefined,
    data: `4242-${at % 5}`,
    search,
    unless_exists: 'n',
    ...(at === 3 && wrongMask),
  });
  const then = JSON.parse(JSON.stringify(bodies(10, same))) as TokenCreate[];
  expect(await imported([], then)).toMatchObject({ refused: { 3: 'validation_failed' }, stored: 5 });
});

test('items that the key may not create are refused with their reason', async () => {
  const rules = [{ priority: 1, transform: 'reveal', permissions: ['token:create'], container: '/own/' }];
  const then = bodies(60, (at) => (at % 20 === 0 ? { container: '/other/' } : {}));
  const refused = { 0: 'permission_missing', 20: 'permission_missing', 40: 'permission_missing' };
  const grants = { permissions: [], rules };
  expect(await imported([], then, grants)).toEqual({ refused, stored: 57, requests: 5 });
});
