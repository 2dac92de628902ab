/** The test kit of the SDK answers like the service: the same random requests get the same responses from both. */
import { describe, expect, test } from 'bun:test';
import {
  authorizeSession,
  NotFoundError,
  PermissionError,
  ProblemError,
  Sallyport,
  startSession,
} from '../../sdk/src/sallyport.ts';
import { fakeSallyport, supported } from '../../sdk/testing/testing.ts';
import { routes } from '../../src/http/routes.ts';
import { Random, randomContainer, randomGrants } from '../support/random-policy.ts';
import { openTestServer, sqlite, startTime } from '../support/test-server.ts';

const unlimited = Object.fromEntries(
  ['RATE_PER_KEY', 'RATE_PER_ADDRESS', 'SESSIONS_PER_MINUTE', 'TOKENS_PER_MINUTE', 'TOKEN_BYTES_PER_MINUTE']
    .concat('SEARCHES_PER_MINUTE', 'SEARCH_MISSES_PER_MINUTE', 'REVOCATIONS_PER_MINUTE', 'PENDING_SESSIONS')
    .map((name) => [`SALLYPORT_${name}`, '0']),
);

/** Either the service or the fake. */
interface Target {
  readonly url: string;
  readonly key: string;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  advance(milliseconds: number): void;
}

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the requests are random
  readonly body: any;
}

/** Headers that are compared. */
const compared = ['content-type', 'etag', 'allow', 'www-authenticate', 'idempotency-replayed'].concat([
  'svc-session-id',
  'svc-session-expires-at',
  'cache-control',
]);

/** Replaces generated values by their order, so that the transcripts of two tenants can be compared. */
class Names {
  readonly #known = new Map<string, string>();

  in(text: string): string {
    return text
      .replaceAll(
        /slp_([a-z]{3})_\w{55}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g,
        (value, kind = 'id') => {
          const name = this.#known.get(value) ?? `${kind} ${this.#known.size}`;
          this.#known.set(value, name);
          return name;
        },
      )
      .replaceAll(/"(next|ending|tag)":"[\w-]+"/g, '"$1"');
  }
}

/** Sends requests to a target and writes down the responses. */
class Client {
  readonly transcript: string[] = [];
  readonly #names = new Names();
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
    this.#names.in(target.key);
  }

  async send(method: string, path: string, key?: string, body?: unknown, headers = {}): Promise<Answer> {
    const response = await this.#target.fetch(this.#target.url + path, {
      method,
      headers: {
        ...(key !== undefined && { 'SVC-API-KEY': key }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const shown = compared.map((name) => `${name}: ${response.headers.get(name)}`);
    const request = JSON.stringify([method, path, key, body, headers]);
    const withoutId = text.replace(/"request_id":"[^"]*"|activity\?q=[\w-]*/g, '');
    this.transcript.push(this.#names.in(`${request}\n${response.status} ${shown.join(', ')}\n${withoutId}`));
    const isJson = response.headers.get('content-type')?.includes('json');
    return { status: response.status, body: isJson && text ? JSON.parse(text) : undefined };
  }
}

/** The grants of `random-policy.ts` without destinations, which the fake does not have. */
function grants(random: Random, holder: 'application' | 'session') {
  const made = randomGrants(random, holder);
  const isWanted = (name: string) =>
    holder === 'session' ? tokenPermissions.includes(name) : name !== 'token:use';
  const rules = made.rules.slice(0, 4).map(({ destinations: _, ...rule }) => ({
    ...rule,
    ...(holder === 'application' && { container: rule.container ?? '/' }),
    ...(holder === 'application' && random.chance(0.3) && { expires_at: ruleEnd(random) }),
    permissions: [...new Set([...rule.permissions.filter(isWanted), random.of(tokenPermissions)])],
  }));
  const plain = random.chance(0.5) ? [random.of(tokenPermissions)] : [];
  return { permissions: [...new Set([...made.permissions.filter(isWanted), ...plain])], rules };
}

const ruleEnd = (random: Random) => new Date(startTime + random.of([1000, 60_000, 300_000])).toISOString();
const tokenPermissions = ['read', 'create', 'update', 'delete', 'search'].map((name) => `token:${name}`);
const purpose = (random: Random): Record<string, string> =>
  random.chance(0.4) ? { 'SVC-PURPOSE': random.of(['support 7', 'refund']) } : {};

/** Makes the same random requests to every target, as long as their responses are the same. */
async function run(target: Target, seed: number, steps: number): Promise<string[]> {
  const random = new Random(seed);
  const client = new Client(target);
  const admin = target.key;
  const applications: { id: string; key: string; type: string }[] = [];
  const handedOut: string[] = [];
  const tokens: string[] = ['tok-0'];
  const nonces: string[] = [];
  const anyKey = () =>
    random.of(random.chance(0.6) ? [admin, ...handedOut] : applications.map(({ key }) => key));
  const application = () => random.of([...applications, { id: crypto.randomUUID(), key: admin, type: '' }]);
  const keyOf = (type: string) => random.of(applications.filter((each) => each.type === type))?.key ?? admin;

  const create = async (type: string, granted: object) => {
    const body = { name: `app ${applications.length}`, type, ...granted };
    const created = await client.send('POST', '/applications', admin, body);
    if (created.status === 201) applications.push({ ...created.body, type });
  };
  const backend = grants(random, 'application');
  await create('public', { permissions: ['token:create'] });
  await create('private', { ...backend, permissions: tokenPermissions });
  await create('private', { ...backend, permissions: ['session:authorize', ...tokenPermissions] });

  const operations: Record<string, () => Promise<unknown>> = {
    'create an application': () =>
      create(random.of(['public', 'private', 'management']), grants(random, 'application')),
    'update an application': async () => {
      if (random.chance(0.5)) return;
      const body = { name: 'renamed', ...grants(random, 'application') };
      await client.send('PUT', `/applications/${application().id}`, admin, body);
    },
    'change an application': () => {
      const { id } = application();
      return client.send(
        ...random.of<[string, string]>([
          ['POST', `/applications/${id}/quarantine`],
          ['DELETE', `/applications/${id}/quarantine`],
          ['GET', `/applications/${id}/keys`],
          ['POST', `/applications/${id}/regenerate`],
          ['GET', '/applications?size=2&type=private&order=oldest'],
          ['GET', `/applications/${id}`],
        ]),
        random.of([admin, admin, anyKey()]),
      );
    },
    'delete an application': async () => {
      if (random.chance(0.2)) await client.send('DELETE', `/applications/${application().id}`, admin);
    },
    'create a key': async () => {
      const { body } = await client.send('POST', `/applications/${application().id}/keys`, admin);
      if (body?.key) handedOut.push(body.key);
    },
    'create a session': async () => {
      const { body } = await client.send('POST', '/sessions', keyOf('public'));
      if (body?.nonce) nonces.push(body.nonce);
      if (body?.session_key) handedOut.push(body.session_key);
    },
    'authorize a session': () => {
      const nonce = random.chance(0.1) ? 'slp_non_wrong' : random.of(nonces.slice(-2));
      const body = { nonce, subject: random.of(['user:1', 'user:2']), ...grants(random, 'session') };
      return client.send('POST', '/sessions/authorize', random.of([admin, keyOf('private')]), body);
    },
    delegate: async () => {
      const body = { ...grants(random, 'session'), max_uses: 1 + random.below(4), subject: 'job' };
      const { body: made } = await client.send('POST', '/delegations', keyOf('private'), body);
      if (made?.key) handedOut.push(made.key);
    },
    'list sessions': () =>
      client.send(
        'GET',
        random.of(['/sessions', '/sessions?subject=user:1', '/sessions?kind=delegation']),
        admin,
      ),
    'end sessions': async () => {
      if (random.chance(0.2)) await client.send('DELETE', '/sessions?subject=user:1', admin);
    },
    'revoke a key': async () => {
      const key = random.of([...handedOut, 'unknown']);
      if (random.chance(0.2)) await client.send('POST', '/keys/revoke', undefined, { key });
    },
    'create a token': async () => {
      const number = `42424242${random.below(4)}`;
      const body = {
        ...(random.chance(0.7) && {
          id: random.of([`tok-${tokens.length}`, 'card-1', 'card-10', 'tok:1.a']),
        }),
        container: randomContainer(random),
        data: random.of([{ number, country: 'DE' }, number]),
        ...(random.chance(0.7) && { mask: '{{ data.number | reveal_last: 2 }}' }),
        ...(random.chance(0.7) && { search: { pan: '{{ data.number }}' }, metadata: { customer: '42' } }),
        ...(random.chance(0.2) && { expires_at: new Date(startTime + 600_000).toISOString() }),
        ...(random.chance(0.2) && { unless_exists: 'pan' }),
      };
      const retry = random.chance(0.2) ? { 'Idempotency-Key': random.of(['one', 'two']) } : {};
      const key = random.of([admin, anyKey()]);
      const created = await client.send('POST', '/tokens', key, body, { ...purpose(random), ...retry });
      if (created.status === 201) tokens.push(created.body.id);
    },
    'read a token': () => {
      const query = random.of(['', '', '?transform=mask', '?transform=redact', '?transform=reveal']);
      return client.send('GET', `/tokens/${random.of(tokens)}${query}`, anyKey(), undefined, purpose(random));
    },
    'list tokens': () => {
      const query = random.of([
        '',
        '?size=3',
        '?size=2&page=2&order=oldest',
        '?container=/pci/',
        '?metadata[customer]=42',
        `?created_by=${application().id}`,
        `?expires_before=${new Date(startTime + 600_001).toISOString()}`,
      ]);
      return client.send('GET', `/tokens${query}`, anyKey(), undefined, purpose(random));
    },
    'search tokens': () => {
      const equals = { pan: `42424242${random.below(4)}` };
      return client.send('POST', '/tokens/search', anyKey(), { equals, size: 3 }, purpose(random));
    },
    'change a token': () => {
      const body = random.of<object>([
        { container: randomContainer(random) },
        { data: { number: '99' } },
        { mask: null },
        { search: { pan: '{{ data.country }}' } },
        { metadata: { customer: '43' } },
        {},
      ]);
      return client.send('PATCH', `/tokens/${random.of(tokens)}`, anyKey(), body, purpose(random));
    },
    'delete a token': () => client.send('DELETE', `/tokens/${random.of(tokens)}`, anyKey()),
    decide: () => {
      const body = {
        credential: random.of([anyKey(), anyKey(), 'unknown']),
        permission: random.of([...tokenPermissions, 'invoice:read']),
        resource: { id: random.of(tokens), container: randomContainer(random) },
        ...(random.chance(0.4) && { purpose: 'refund' }),
        ...(random.chance(0.5) && { explain: true }),
      };
      return client.send('POST', '/decisions', admin, body);
    },
    'ask for oneself': () =>
      client.send('GET', random.of(['/permissions/own', '/applications/key', '/tenants/self']), anyKey()),
    'send a wrong request': () =>
      client.send(
        ...random.of<[string, string]>([
          ['DELETE', '/tokens'],
          ['GET', '/nowhere'],
          ['GET', '/tokens/'],
        ]),
        admin,
      ),
    wait: async () => target.advance(random.of([1, 1000, 60_000])),
  };

  const often = [
    'create a session',
    'authorize a session',
    'delegate',
    'create a token',
    'read a token',
    'decide',
  ];
  const names = [...Object.keys(operations), ...often, ...often];
  for (let step = 0; step < steps; step++) await operations[random.of(names)]?.();
  return client.transcript;
}

describe('the test kit', async () => {
  const server = await openTestServer(sqlite, unlimited);

  test.each(Array.from({ length: 8 }, (_, seed) => [seed]))(
    'answers like the service, world %i',
    async (seed) => {
      const { key } = await server.tenant();
      const start = server.clock.now();
      const real: Target = { url: server.url, key, fetch, advance: (time) => server.clock.advance(time) };
      const expected = await run(real, seed, 150);
      const fake = fakeSallyport({ now: () => start });
      expect(await run(fake, seed, 150)).toEqual(expected);
      for (const status of [200, 201, 204, 400, 401, 403, 404])
        expect(expected.some((line) => line.includes(`\n${status} `))).toBe(true);
    },
  );

  test('its routes have the access of the service', () => {
    const accessOf = ({ method, path, ...route }: (typeof routes)[number]) => {
      const { permission, callers } = { permission: undefined, callers: undefined, ...route };
      return { name: route.name, method, path, kind: route.kind, permission, callers };
    };
    const names = supported.map(({ name }) => name);
    const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
    const expected = routes.filter(({ name }) => names.includes(name));
    expect(supported.map(accessOf).sort(byName)).toEqual(expected.map(accessOf).sort(byName));
  });

  const card = {
    id: 'card-42',
    container: '/customers/42/',
    data: '4242',
    mask: '{{ data | reveal_last: 1 }}',
  };
  const own = { attribute: 'container', operator: 'starts_with', value: '/customers/42/' } as const;
  const rules = [
    {
      priority: 1,
      transform: 'reveal',
      require_purpose: true,
      permissions: ['token:read'],
      conditions: [own],
    },
  ] as const;

  /** A page with a session, as in an application. */
  async function openPage(options?: Parameters<typeof fakeSallyport>[0]) {
    const fake = fakeSallyport(options);
    const admin = new Sallyport(fake);
    const page = await admin.applications.create({
      name: 'page',
      type: 'public',
      permissions: ['token:create'],
    });
    await admin.tokens.create(card);
    const session = await startSession({
      ...fake,
      publicKey: page.key,
      authorize: (nonce) =>
        authorizeSession(admin, nonce, { subject: 'user:42', rules: [...rules] as never }),
    });
    return { fake, admin, page, session };
  }

  test('a session sees what its rules allow, and the fake records its requests', async () => {
    const { fake, session } = await openPage();
    expect((await session.client.tokens.get('card-42')).data).toBe('XXX2');
    expect((await session.client.tokens.get('card-42', { purpose: 'refund' })).data).toBe('4242');
    expect(fake.requests.at(-1)).toMatchObject({ method: 'GET', path: '/tokens/card-42', status: 200 });
    expect(fake.requests.at(-1)?.headers['svc-purpose']).toBe('refund');
    const created = fake.requests.find(({ path }) => path === '/tokens');
    expect(created).toMatchObject({ method: 'POST', body: card, status: 201 });
    expect(await session.client.tokens.create({ data: 'x' }).catch((error) => error)).toBeInstanceOf(
      PermissionError,
    );
  });

  test('an ended session is renewed, and a revoked key of the page ends renewals', async () => {
    const { fake, page, session } = await openPage();
    const started = () =>
      fake.requests.filter(({ path, status }) => path === '/sessions' && status === 201).length;
    fake.expireSessions();
    expect((await session.client.tokens.get('card-42')).id).toBe('card-42');
    expect(started()).toBe(2);
    fake.revoke(page.key);
    fake.revoke(await session.key());
    expect(await session.client.tokens.get('card-42').catch(String)).toContain('could not be renewed');
    expect(() => fake.revoke(page.key)).toThrow('no application or session has this key');
  });

  test('a bound session needs a proof for each request', async () => {
    const fake = fakeSallyport();
    const admin = new Sallyport(fake);
    const { key } = await admin.applications.create({
      name: 'p',
      type: 'public',
      permissions: ['token:create'],
    });
    const authorize = (nonce: string) => authorizeSession(admin, nonce, { permissions: ['token:read'] });
    const session = await startSession({ ...fake, publicKey: key, bind: true, authorize });
    expect((await session.client.tokens.list()).data).toEqual([]);
    const stolen = new Sallyport({ ...fake, key: await session.key() });
    expect(await stolen.tokens.list().catch((error) => error.status)).toBe(401);
  });

  test('the clock can be moved, and purposes can be limited', async () => {
    const { fake, admin, session } = await openPage({ now: () => startTime, purposes: ['refund'] });
    await admin.tokens.update('card-42', { expires_at: new Date(startTime + 60_000).toISOString() });
    expect(
      await session.client.tokens.get('card-42', { purpose: 'other' }).catch(({ status }) => status),
    ).toBe(400);
    fake.advance(59_999);
    expect((await admin.tokens.get('card-42')).id).toBe('card-42');
    fake.advance(1);
    expect(await admin.tokens.get('card-42').catch((error) => error)).toBeInstanceOf(NotFoundError);
  });

  test('what it does not have fails by name', async () => {
    const fake = fakeSallyport();
    const admin = new Sallyport(fake);
    const unsupported = await admin.logs.list().catch((error) => error);
    expect(unsupported).toBeInstanceOf(ProblemError);
    expect([unsupported.status, unsupported.message]).toEqual([501, expect.stringContaining('GET /logs')]);
    const { id } = await admin.applications.create({
      name: 'a',
      type: 'private',
      permissions: ['token:read'],
    });
    const update = { name: 'b', permissions: ['token:update' as const] };
    const preview = await admin.applications.preview(id, update).catch(String);
    expect(preview).toContain('fakeSallyport does not support');
    await expect(fake.fetch('https://example.com/')).rejects.toThrow(
      'answers requests to http://sallyport.test',
    );
  });
});
