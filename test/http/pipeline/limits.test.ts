import { beforeEach, describe, expect, test } from 'bun:test';
import { Limits, type Rates } from '../../../src/http/pipeline/limits.ts';
import type { RequestInfo } from '../../../src/http/pipeline/request-info.ts';
import { dumpDatabase, hideTable } from '../../support/database.ts';
import { type ApiResponse, openTestServer, sqlite } from '../../support/test-server.ts';

const rateLimitHeaders = ({ headers }: ApiResponse) => [
  headers.get('ratelimit-policy'),
  headers.get('ratelimit'),
];
const limitsOff = { SALLYPORT_RATE_PER_KEY: '0', SALLYPORT_RATE_PER_ADDRESS: '0' };

const request = () => ({ rateLimits: { add: () => {} } }) as unknown as RequestInfo;
const limitsOf = (rates: Partial<Rates>, now = () => 0) =>
  new Limits(
    new Proxy({} as Rates, {
      get: (_, name: keyof Rates) => rates[name] ?? { rate: 1, per: 60_000, burst: 2 },
    }),
    now,
    () => {},
  );

test('a search in a change that runs again before its commit counts once, and so does its success', () => {
  const limits = limitsOf({});
  const app = { applicationId: 'app', group: undefined };
  const first = request();
  const found = [limits.takeSearch(app, first), limits.takeSearch(app, first)];
  for (const succeed of found) succeed();
  limits.takeSearch(app, request());
  expect(() => limits.takeSearch(app, request())).toThrow('too_many_requests');
});

test('several limits are taken together or not at all, the strictest answers, and each can be given back', () => {
  let now = 0;
  const minute = 60_000;
  const limits = limitsOf(
    { tokens: { rate: 1, per: minute, burst: 1 }, 'token-bytes': { rate: 10, per: minute, burst: 100 } },
    () => now,
  );
  const create = (units: number) =>
    limits.take(request(), { limit: 'tokens', client: 'a' }, { limit: 'token-bytes', client: 'a', units });
  const retryAfter = (units: number) => {
    try {
      create(units);
      return undefined;
    } catch (error) {
      return (error as { retryAfter?: number }).retryAfter;
    }
  };
  const refund = create(100);
  expect([retryAfter(5), retryAfter(20)]).toEqual([60, 120]);
  refund('tokens');
  refund('tokens');
  expect(retryAfter(10)).toBe(60); // for the bytes; the token is not taken
  now += minute;
  create(10);
  refund();
  expect(retryAfter(90)).toBe(60); // for the token: all bytes but the last ten are back
});

describe('rate limits', async () => {
  const server = await openTestServer(sqlite, {
    SALLYPORT_RATE_PER_KEY: '2',
    SALLYPORT_BURST_PER_KEY: '5',
    SALLYPORT_RATE_PER_ADDRESS: '4',
    SALLYPORT_BURST_PER_ADDRESS: '10',
    SALLYPORT_SESSIONS_PER_MINUTE: '2',
    SALLYPORT_SESSIONS_BURST: '3',
    SALLYPORT_TRUSTED_PROXIES: '127.0.0.1',
    SALLYPORT_METRICS_PORT: '0',
  });
  const key = (await server.tenant()).key;
  const other = (await server.tenant()).key;
  beforeEach(() => server.clock.advance(600_000));

  const get = (as: string | undefined, from = '192.0.2.1', path = '/applications') =>
    server.call('GET', path, { key: as, headers: { 'X-Forwarded-For': from } });
  const statuses = async (times: number, call: () => Promise<ApiResponse>) => {
    const all = [];
    for (let i = 0; i < times; i++) all.push((await call()).status);
    return all;
  };
  let fresh = 0;
  /** An unused address. */
  const somewhere = () => `198.51.100.${++fresh}`;

  test('limit a key across addresses, and allow it again after Retry-After', async () => {
    expect(await statuses(6, () => get(key, somewhere()))).toEqual([200, 200, 200, 200, 200, 429]);
    server.clock.advance(499);
    expect((await get(key, somewhere())).status).toBe(429);
    server.clock.advance(1);
    expect(await statuses(2, () => get(key, somewhere()))).toEqual([200, 429]);
  });

  test('limit an address across valid and invalid keys', async () => {
    await statuses(3, () => get(undefined));
    await statuses(3, () => get('junk'));
    expect(await statuses(2, () => get(key))).toEqual([200, 200]);
    expect(await statuses(3, () => get(other))).toEqual([200, 200, 429]);
    expect((await get(undefined)).status).toBe(429);
    expect((await get(other, '192.0.2.2')).status).toBe(200);
  });

  test('treat an IPv6 /64 as one address', async () => {
    await statuses(10, () => get(undefined, '2001:db8:0:1::1'));
    expect((await get(undefined, '2001:db8:0:1:ffff::2')).status).toBe(429);
    expect((await get(undefined, '2001:db8:0:2::1')).status).toBe(401);
  });

  test('are reported in headers to callers with a valid key, once less than half remains', async () => {
    await statuses(2, () => get(key));
    expect(rateLimitHeaders(await get(key, '192.0.2.1', '/tokens/none'))).toEqual([
      '"key";q=5;w=3',
      '"key";r=2;t=1',
    ]);
    await statuses(2, () => get(key));
    const rejected = await get(key);
    const policy = '"address";q=10;w=3, "key";q=5;w=3';
    expect(rateLimitHeaders(rejected)).toEqual([policy, '"address";r=4;t=1, "key";r=0;t=1']);
    expect(rejected.headers.get('access-control-expose-headers')).toContain('RateLimit, RateLimit-Policy');
  });

  test('reject with the limit and Retry-After', async () => {
    await statuses(5, () => get(key, somewhere()));
    const { status, body, headers } = await get(key, somewhere());
    expect([status, body.code, headers.get('retry-after')]).toEqual([429, 'too_many_requests', '1']);
    expect(body.detail).toStartWith('At most 5 requests with one key in a burst, and 2 every second');
  });

  test('ignore requests that need no key', async () => {
    const answers = await statuses(12, () => get(undefined, '192.0.2.1', '/livez'));
    expect(new Set(answers)).toEqual(new Set([200]));
    expect(rateLimitHeaders(await get(undefined, '192.0.2.1', '/livez'))).toEqual([null, null]);
    expect((await get(key)).status).toBe(200);
  });

  test('limit new sessions by public key and address', async () => {
    const web = await server.application(key, { type: 'public' });
    const [here, there] = [somewhere(), somewhere()];
    const create = (as: string, from: string) =>
      server.call('POST', '/sessions', { key: as, headers: { 'X-Forwarded-For': from } });
    expect(await statuses(3, () => create(web.key, here))).toEqual([201, 201, 201]);
    server.clock.advance(1000);
    const rejected = await create(web.key, here);
    expect([rejected.status, rejected.headers.get('retry-after')]).toEqual([429, '29']);
    expect(rejected.body.detail).toStartWith(
      'At most 3 new sessions from one address in a burst, and 2 every minute',
    );
    expect(rateLimitHeaders(rejected)[0]).toEndWith('"sessions";q=3;w=90');
    expect(rateLimitHeaders(rejected)[1]).toEndWith('"sessions";r=0;t=29');
    expect((await create(web.key, there)).status).toBe(201);
    const second = await server.application(key, { type: 'public' });
    expect((await create(second.key, here)).status).toBe(201);
    server.clock.advance(29_000);
    expect((await create(web.key, here)).status).toBe(201);
  });

  test('add rejected requests to a metric, not to the audit log', async () => {
    const scrape = async () => (await fetch(server.app.metricsUrl as string)).text();
    const counted = async (limit: string) =>
      Number(
        new RegExp(`^sallyport_limited_total{limit="${limit}"} (\\d+)$`, 'm').exec(await scrape())?.[1] ?? 0,
      );
    const before = [await counted('key'), await counted('address')];
    await statuses(8, () => get(key));
    await statuses(4, () => get(undefined));
    expect([await counted('key'), await counted('address')]).toEqual([
      (before[0] as number) + 3,
      (before[1] as number) + 2,
    ]);
    await server.flush();
    expect(await dumpDatabase(server.config.databaseUrl)).not.toContain('too_many_requests');
  });
});

describe('a request over the limit', () => {
  test('does not query the database', async () => {
    const server = await openTestServer(sqlite, {
      ...limitsOff,
      SALLYPORT_RATE_PER_KEY: '1',
      SALLYPORT_BURST_PER_KEY: '1',
    });
    const { key } = await server.tenant();
    expect((await server.call('GET', '/applications', { key })).status).toBe(200);
    await hideTable(server.config.databaseUrl, 'application_keys');
    expect((await server.call('GET', '/applications', { key })).status).toBe(429);
  });
});

describe('disabled limits', () => {
  test('reject nothing and add no headers', async () => {
    const server = await openTestServer(sqlite, {
      ...limitsOff,
      SALLYPORT_BURST_PER_KEY: '1',
      SALLYPORT_BURST_PER_ADDRESS: '1',
    });
    const { key } = await server.tenant();
    for (let i = 0; i < 3; i++) {
      const answer = await server.call('GET', '/applications', { key });
      expect([answer.status, ...rateLimitHeaders(answer)]).toEqual([200, null, null]);
    }
  });
});
