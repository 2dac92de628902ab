/** Search for tokens by value: what it finds, for whom, how often, and what the audit log says. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { dumpDatabase } from '../../support/database.ts';
import { naiveDecide, naiveDecideUnder } from '../../support/naive-policy.ts';
import { Random, randomContainer, randomGrants } from '../../support/random-policy.ts';
import {
  type ApiResponse,
  databases,
  openTestServer,
  sqlite,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const pan = '4242424242424242';
const all = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search'];
const unlimited = { SALLYPORT_SEARCHES_PER_MINUTE: '0', SALLYPORT_SEARCH_MISSES_PER_MINUTE: '0' };
const card = {
  container: '/customers/42/',
  type: 'card',
  data: { number: pan, country: 'DE', empty: ' ' },
  mask: '{{ data.number | reveal_last: 4 }}',
  search: { pan: '{{ data.number }}', country: '{{ data.country }}', none: '{{ data.empty }}' },
};
const everywhere = (transform: string, permissions = all) => ({
  permissions: [],
  rules: [{ priority: 1, container: '/', transform, permissions }],
});

describe.each(databases)('on %s, a search', async (_, database) => {
  const server = await openTestServer(database, unlimited);
  let owner: { id: string; key: string };
  let revealer: string;
  await newTenant();

  async function newTenant(): Promise<void> {
    owner = await server.tenant();
    revealer = (await server.application(owner.key, everywhere('reveal'))).key;
  }
  const call = (method: string, path: string, body?: unknown, key = revealer) =>
    server.call(method, path, { key, body });
  const create = async (fields: object = {}) => {
    server.clock.advance(1000);
    const created = await call('POST', '/tokens', { ...card, ...fields });
    expect(created.status).toBe(201);
    return created.body.id as string;
  };
  const search = (body: object, key = revealer) => call('POST', '/tokens/search', body, key);
  const idsOf = ({ body }: ApiResponse) => body.data.map(({ id }: { id: string }) => id);
  const found = async (body: object, key?: string) => idsOf(await search(body, key));
  const entries = async (query: string) => {
    await server.flush();
    return (await call('GET', `/logs?${query}`, undefined, owner.key)).body.data;
  };

  test('finds the tokens with all of the values, newest first, page by page', async () => {
    await newTenant();
    const [first, second] = [await create(), await create()];
    const other = await create({ data: { ...card.data, country: 'FR' } });
    await create({ search: undefined });
    await create({ data: { ...card.data, number: '5555' } });
    expect(await found({ equals: { pan } })).toEqual([other, second, first]);
    expect(await found({ equals: { pan: ` ${pan.replace('4', '４')}\n` } })).toEqual([other, second, first]);
    expect(await found({ equals: { pan, country: 'DE' } })).toEqual([second, first]);
    expect(await found({ equals: { pan: '42' } })).toEqual([]);
    expect(await found({ equals: { pan: '😀'.repeat(1000) } })).toEqual([]);
    expect(await found({ equals: { country: pan } })).toEqual([]);
    expect(await found({ equals: { constructor: 'x' } })).toEqual([]);
    const page = await search({ equals: { pan }, size: 2 });
    expect(page.body.pagination).toEqual({ page_size: 2, next: expect.any(String) });
    const rest = await search({ equals: { pan }, size: 2, start: page.body.pagination.next });
    expect([idsOf(rest), rest.body.pagination]).toEqual([[first], { page_size: 2 }]);
  });

  test('can be limited by type, container and time, and so can a list', async () => {
    await newTenant();
    const first = await create();
    const at = new Date(server.clock.now()).toISOString();
    const later = new Date(server.clock.now() + 1000).toISOString();
    const second = await create({ type: 'other', container: '/elsewhere/' });
    const equals = { pan };
    expect(await found({ equals, type: 'other' })).toEqual([second]);
    expect(await found({ equals, container: '/customers/' })).toEqual([first]);
    for (const [given, expected] of [
      [{ created_after: at }, [second, first]],
      [{ created_after: later }, [second]],
      [{ created_before: later }, [first]],
      [{ created_after: at, created_before: later }, [first]],
      [{ created_after: later, created_before: later }, []],
    ] as [Record<string, string>, string[]][]) {
      expect(await found({ equals, ...given })).toEqual(expected);
      const listed = await call('GET', `/tokens?${new URLSearchParams(given)}`);
      expect([idsOf(listed), listed.body.pagination.total_items]).toEqual([expected, expected.length]);
    }
  });

  test('rejects invalid values by name', async () => {
    for (const [body, field] of [
      [{}, 'equals'],
      [{ equals: {} }, 'equals'],
      [{ equals: { pan: ' ' } }, 'equals.pan'],
      [{ equals: { pan: 'x'.repeat(1001) } }, 'equals.pan'],
      [{ equals: { Pan: 'x' } }, 'equals.Pan'],
      [{ equals: { a: 'x', b: 'x', c: 'x', d: 'x', e: 'x', f: 'x' } }, 'equals'],
      [{ equals: { pan }, page: 2 }, 'page'],
      [{ equals: { pan }, start: 'x' }, 'start'],
      [{ equals: { pan }, size: 101 }, 'size'],
    ] as const) {
      const { status, body: problem } = await search(body);
      expect([status, Object.keys(problem.errors ?? {})]).toEqual([400, [field]]);
    }
    for (const [fields, field] of [
      [{ search: { pan: '{{ data.nubmer }}' } }, 'search.pan'],
      [{ search: { pan: '{% if x %}' } }, 'search.pan'],
      [{ search: { pan } }, 'search.pan'],
      [{ search: { pan: '{{ data.number }}{{ data.country }}' } }, 'search.pan'],
      [{ data: 'x'.repeat(1001), search: { pan: '{{ data }}' }, mask: undefined }, 'search.pan'],
      [{ unless_exists: 'none' }, 'unless_exists'],
      [{ unless_exists: 'constructor' }, 'unless_exists'],
    ] as const) {
      const { status, body: problem } = await call('POST', '/tokens', { ...card, ...fields });
      expect([status, Object.keys(problem.errors ?? {})]).toEqual([400, [field]]);
    }
  });

  test('does not find a value that was replaced, moved out of sight, removed or deleted', async () => {
    await newTenant();
    const id = await create();
    const inside = { priority: 1, container: '/customers/', transform: 'mask', permissions: all };
    const { key } = await server.application(owner.key, { permissions: [], rules: [inside] });
    const both = async (value = pan) =>
      Promise.all([found({ equals: { pan: value } }), found({ equals: { pan: value } }, key)]);
    const patch = async (body: object) =>
      expect((await call('PATCH', `/tokens/${id}`, body)).status).toBe(200);
    expect(await both()).toEqual([[id], [id]]);
    await patch({ container: '/elsewhere/' });
    expect(await both()).toEqual([[id], []]);
    await patch({ container: '/customers/7/x/' });
    expect(await both()).toEqual([[id], [id]]);
    await patch({ data: { number: '5555' } });
    expect([await both(), await both('5555')]).toEqual([
      [[], []],
      [[id], [id]],
    ]);
    await patch({ search: { pan: '{{ data.number | last: 2 }}', country: null } });
    expect([await both('5555'), await both('55')]).toEqual([
      [[], []],
      [[id], [id]],
    ]);
    await patch({ search: null });
    expect(await both('55')).toEqual([[], []]);
    await patch({ search: { pan: '{{ data.number }}' } });
    expect(await both('5555')).toEqual([[id], [id]]);
    expect((await call('DELETE', `/tokens/${id}`)).status).toBe(204);
    expect(await both('5555')).toEqual([[], []]);
    expect(
      await runSql(
        server.config.databaseUrl,
        `select 1 as one from token_search where tenant_id = '${owner.id}'`,
      ),
    ).toEqual([]);
  });

  test('setting a template without replacing the data needs reveal, and so does moving a token to where it can be searched', async () => {
    const id = await create();
    const { key: masked } = await server.application(owner.key, everywhere('mask'));
    const status = async (body: object, key = masked) =>
      (await call('PATCH', `/tokens/${id}`, body, key)).body.code ?? 'done';
    expect(await status({ search: { pan: '{{ data.number | last: 1 }}' } })).toBe('reveal_required');
    expect(
      await status({ search: { pan: '{{ data }}', country: null, none: null }, data: 'new', mask: null }),
    ).toBe('done');
    expect(await status({ search: null })).toBe('done');
    const mover = await server.application(owner.key, {
      permissions: ['token:read', 'token:update'],
      rules: [{ priority: 1, container: '/mine/', transform: 'mask', permissions: ['token:search'] }],
    });
    expect(await status({ container: '/mine/' }, mover.key)).toBe('reveal_required');
    expect(await status({ container: '/other/' }, mover.key)).toBe('done');
    // A search finds only tokens that its caller can also read.
    const searcher = await server.application(owner.key, {
      permissions: ['token:search', 'token:update'],
      rules: [{ priority: 1, container: '/mine/', transform: 'mask', permissions: ['token:read'] }],
    });
    expect(await status({ container: '/mine/' }, searcher.key)).toBe('reveal_required');
  });

  test('returns only what its caller can search and read, as it can read it, and no sign of other tokens', async () => {
    await newTenant();
    const mine = await create();
    for (let at = 0; at < 3; at++) await create({ container: '/hidden/' });
    const rule = (priority: number, container: string, transform: string, permissions: string[]) => ({
      priority,
      container,
      transform,
      permissions,
    });
    const { key } = await server.application(owner.key, {
      permissions: [],
      rules: [
        rule(1, '/customers/', 'mask', ['token:read']),
        rule(2, '/', 'reveal', ['token:search']),
        rule(3, '/hidden/deeper/', 'reveal', ['token:read']),
      ],
    });
    const { body } = await search({ equals: { pan }, size: 1 }, key);
    expect(body).toEqual({
      pagination: { page_size: 1 },
      data: [expect.objectContaining({ id: mine, data: 'XXXXXXXXXXXX4242' })],
    });
    expect((await search({ equals: { pan }, size: 1, container: '/hidden/' }, key)).body).toEqual({
      pagination: { page_size: 1 },
      data: [],
    });
  });

  test('a session searches under the current ceiling of its authorizer', async () => {
    await newTenant();
    const id = await create();
    const web = await server.application(owner.key, { type: 'public' });
    const desk = await server.application(owner.key, everywhere('mask', ['token:read', 'token:search']));
    const { body: session } = await call('POST', '/sessions', undefined, web.key);
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/customers/' }];
    const rules = [
      { priority: 1, conditions, transform: 'reveal', permissions: ['token:read', 'token:search'] },
    ];
    const grant = { nonce: session.nonce, rules };
    expect((await call('POST', '/sessions/authorize', grant, desk.key)).status).toBe(204);
    const asked = () => search({ equals: { pan } }, session.session_key);
    expect((await asked()).body.data).toEqual([expect.objectContaining({ id, data: 'XXXXXXXXXXXX4242' })]);
    const less = everywhere('reveal', ['token:read']);
    await call('PUT', `/applications/${desk.id}`, { name: 'desk', ...less }, owner.key);
    expect((await asked()).status).toBe(403);
  });

  test('needs token:search, which public applications cannot hold, and is denied in quarantine', async () => {
    const reader = await server.application(owner.key, { permissions: ['token:read'] });
    const denied = await search({ equals: { pan } }, reader.key);
    expect([denied.status, denied.body.detail]).toEqual([403, expect.stringContaining('token:search')]);
    const web = { name: 'web', type: 'public', permissions: ['token:search'] };
    const refused = await call('POST', '/applications', web, owner.key);
    expect([refused.status, Object.keys(refused.body.errors)]).toEqual([400, ['permissions.0']]);
    const suspect = await server.application(owner.key, { permissions: ['token:read', 'token:search'] });
    expect((await search({ equals: { pan } }, suspect.key)).status).toBe(200);
    await call('POST', `/applications/${suspect.id}/quarantine`, undefined, owner.key);
    const { status, body } = await search({ equals: { pan } }, suspect.key);
    expect([status, body.code]).toEqual([403, 'quarantined']);
  });

  test('has an entry in the audit log with names, number of hits and ids, and stores no value', async () => {
    await newTenant();
    const secret = '4000056655665556';
    const id = await create({ data: { ...card.data, number: secret } });
    await search({ equals: { pan: secret, country: 'DE' } });
    await search({ equals: { pan: '4000056655665557' } });
    const [miss, hit] = await entries('operation=token.search');
    expect(hit).toMatchObject({
      search: { names: ['pan', 'country'], hits: 1 },
      resource: { ids: [id], container: '/customers/42/' },
      decision: { transform: 'reveal', rule: { rule: 1 } },
      result: 'success',
    });
    expect(miss).toMatchObject({ search: { names: ['pan'], hits: 0 } });
    expect([miss.resource, miss.decision]).toEqual([undefined, undefined]);
    expect(await entries(`token=${id}&operation=token.search`)).toHaveLength(1);
    const stored = await dumpDatabase(server.config.databaseUrl);
    for (const value of [secret, '4000056655665557']) expect(stored).not.toContain(value);
  });

  test('finds the token with the id search at its path', async () => {
    const id = await create({ id: 'search' });
    expect((await call('GET', `/tokens/${id}`)).body.id).toBe('search');
    expect((await call('PATCH', '/tokens/search', { metadata: { a: 'b' } })).status).toBe(200);
    expect((await call('DELETE', '/tokens/search')).status).toBe(204);
    expect((await call('PUT', '/tokens/search', { data: 1 })).status).toBe(404);
  });

  describe('agrees with a second evaluator', () => {
    const random = new Random(40);
    const made: { id: string; container: string; number: string }[] = [];
    beforeAll(async () => {
      await newTenant();
      for (let at = 0; at < 40; at++) {
        const token = { id: `card-${at}`, container: randomContainer(random), number: random.of(['1', '2']) };
        const data = { number: token.number, country: 'DE', empty: '' };
        await create({ ...token, number: undefined, data });
        made.unshift(token);
      }
    });

    const permissionOf = (name: string) => (name === 'token:update' ? 'token:search' : name);
    const drawGrants = (holder: 'application' | 'session') => {
      const drawn = randomGrants(random, holder);
      return {
        permissions: [...new Set([...drawn.permissions, 'token:search'].map(permissionOf))],
        rules: drawn.rules.map(({ permissions, ...rule }) => ({
          ...rule,
          permissions: [...new Set([...permissions, ...permissions.map(permissionOf)])],
        })),
      };
    };
    /** The tokens with the number 1 that both permissions allow, with their data. */
    const expected = (
      decide: (permission: string, resource: object) => ReturnType<typeof naiveDecideUnder>,
    ) =>
      made.flatMap(({ id, container, number }) => {
        const [search, read] = ['token:search', 'token:read'].map((name) => decide(name, { id, container }));
        if (number !== '1' || !search?.allowed || !read?.allowed) return [];
        return [{ id, data: { redact: undefined, mask: '1', reveal: card.data.country }[read.transform] }];
      });
    const answered = async (key: string, headers = {}) => {
      const found: { id: string; data: unknown }[] = [];
      for (let start: string | undefined, more = true; more; more = start !== undefined) {
        const body = { equals: { pan: '1' }, size: 7, start };
        const page = await server.call('POST', '/tokens/search', { key, body, headers });
        for (const { id, data } of page.body.data) found.push({ id, data: data?.country ?? data });
        start = page.body.pagination.next;
      }
      return found;
    };

    // The statements are the same on both databases.
    const worlds = database === sqlite ? 30 : 20;

    test('for random grants', async () => {
      for (let world = 0; world < worlds; world++) {
        const grants = drawGrants('application');
        const { key } = await server.application(owner.key, { type: 'management', ...grants });
        const verdicts = expected((name, resource) => naiveDecide(grants, name, resource));
        expect(await answered(key)).toEqual(verdicts);
      }
    });

    test('for random delegations, with and without a purpose', async () => {
      let total = 0;
      for (let world = 0; world < worlds; world++) {
        const drawn = drawGrants('application');
        const rules = drawn.rules.map((rule) => ({ ...rule, container: rule.container ?? '/' }));
        const issuer = { ...drawn, permissions: [...drawn.permissions, 'token:read'], rules };
        const held = new Set([...issuer.permissions, ...rules.flatMap(({ permissions }) => permissions)]);
        const { key } = await server.application(owner.key, issuer);
        const session = drawGrants('session');
        const found = ['token:search', 'token:read'].filter((name) => held.has(name));
        const only = (names: readonly string[]) => names.filter((name) => found.includes(name));
        const grants = {
          permissions: only(session.permissions),
          rules: session.rules
            .map(({ destinations: _, ...rule }) => ({ ...rule, permissions: only(rule.permissions) }))
            .filter(({ permissions }) => permissions.length > 0),
        };
        const issued = await server.call('POST', '/delegations', { key, body: grants });
        expect(issued.status).toBe(201);
        for (const purpose of [undefined, 'refund']) {
          const verdicts = expected((name, resource) =>
            naiveDecideUnder(grants, issuer, name, resource, purpose),
          );
          const headers = purpose === undefined ? {} : { 'SVC-PURPOSE': purpose };
          expect(await answered(issued.body.key, headers)).toEqual(verdicts);
          total += verdicts.length;
        }
      }
      expect(total).toBeGreaterThan(worlds);
    });
  });

  describe('creating a token unless it exists', () => {
    const body = { ...card, unless_exists: 'pan' };

    test('returns the existing token of the container as its caller can read it, with 200', async () => {
      await newTenant();
      const { id } = (await call('POST', '/tokens', card, owner.key)).body;
      const { key } = await server.application(owner.key, everywhere('mask'));
      const existing = await call('POST', '/tokens', { ...body, id: 'another' }, key);
      expect([existing.status, existing.body.id, existing.body.data]).toEqual([200, id, 'XXXXXXXXXXXX4242']);
      const elsewhere = await call('POST', '/tokens', { ...body, container: '/customers/4/' });
      expect([elsewhere.status, elsewhere.body.data]).toEqual([201, card.data]);
      const [created, returned] = await entries('size=2');
      expect(returned).toMatchObject({
        operation: 'token.search',
        search: { names: ['pan'], hits: 1 },
        resource: { ids: [id] },
        decision: { transform: 'mask' },
      });
      expect(created).toMatchObject({ operation: 'token.create', search: { names: ['pan'], hits: 0 } });
      const changes = await entries('changes=true&size=2');
      expect(changes.map(({ operation }: ApiResponse['body']) => operation)).toEqual([
        'token.create',
        'application.create',
      ]);
    });

    test('never returns a token whose values an application or key with less trust has chosen', async () => {
      await newTenant();
      const web = await server.application(owner.key, { type: 'public', permissions: ['token:create'] });
      const authorizer = await server.application(owner.key, everywhere('reveal'));
      const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/' }];
      const grants = { rules: [{ priority: 1, transform: 'reveal', permissions: all, conditions }] };
      const open = async () => {
        const { body: opened } = await call('POST', '/sessions', undefined, web.key);
        await call('POST', '/sessions/authorize', { nonce: opened.nonce, ...grants }, authorizer.key);
        return opened.session_key as string;
      };
      const delegation = (await call('POST', '/delegations', grants, authorizer.key)).body;
      const keys: Record<string, string> = {
        management: (await server.application(owner.key, { ...everywhere('reveal'), type: 'management' }))
          .key,
        private: authorizer.key,
        delegation: delegation.key,
        'another private': (await server.application(owner.key, everywhere('reveal'))).key,
        public: web.key,
        session: await open(),
        'another session': await open(),
      };
      const trusted: Record<string, string[]> = {
        management: ['management'],
        private: ['management', 'private'],
        delegation: ['management', 'private', 'delegation'],
        'another private': ['management', 'another private'],
        session: ['management', 'public', 'session', 'another session'],
      };
      const template = { pan: '{{ data.number }}' };
      let next = 0;
      const writtenBy = async (data: string, search = data) => {
        const [id, number] = [`poisoned-${++next}`, `4000${next}`];
        const created = { id, container: '/shared/', data: { number }, mask: undefined };
        const first = { ...created, search: data === search ? template : undefined };
        expect((await call('POST', '/tokens', first, keys[data])).status).toBe(201);
        if (data !== search)
          expect((await call('PATCH', `/tokens/${id}`, { search: template }, keys[search])).status).toBe(200);
        const { body: found } = await call('POST', '/tokens/search', { equals: { pan: number } });
        expect(found.data).toHaveLength(1);
        return { id, number, writer: found.data[0].written_by };
      };
      const finds = async (caller: string, { id, number }: { id: string; number: string }) => {
        const given = { container: '/shared/', data: { number }, search: template, unless_exists: 'pan' };
        const { status, body: token } = await call('POST', '/tokens', given, keys[caller]);
        if (status === 201) await call('DELETE', `/tokens/${token.id}`, undefined, owner.key);
        return status === 200 && token.id === id;
      };
      for (const writer of Object.keys(keys)) {
        const token = await writtenBy(writer);
        const kind = writer.split(' ').at(-1) as string;
        expect(token.writer).toEqual({ kind, application_id: expect.any(String) });
        for (const [caller, writers] of Object.entries(trusted))
          expect([caller, writer, await finds(caller, token)]).toEqual([
            caller,
            writer,
            writers.includes(writer),
          ]);
      }
      // A template that another caller adds finds data that it did not write.
      for (const [data, search, expected] of [
        ['session', 'private', false],
        ['private', 'session', false],
        ['session', 'management', false],
        ['management', 'private', true],
        ['private', 'management', true],
      ] as const)
        expect([data, search, await finds('private', await writtenBy(data, search))]).toEqual([
          data,
          search,
          expected,
        ]);
      // The last writer counts.
      const token = await writtenBy('private');
      const change = { data: { number: token.number, iban: 'other' } };
      expect((await call('PATCH', `/tokens/${token.id}`, change, keys.session)).status).toBe(200);
      expect(await finds('private', token)).toBe(false);
      const renewed = { data: null, search: null };
      expect((await call('PATCH', `/tokens/${token.id}`, renewed, keys.private)).status).toBe(400);
      for (const body of [
        { data: 'x', search: null },
        { data: { number: token.number }, search: template },
      ])
        expect((await call('PATCH', `/tokens/${token.id}`, body, keys.private)).status).toBe(200);
      expect(await finds('private', token)).toBe(true);
    });

    test('is recorded as a search, also if the id is taken', async () => {
      await newTenant();
      const id = await create();
      const taken = await call('POST', '/tokens', { ...body, id, data: { ...card.data, number: '4000' } });
      expect(taken.body.code).toBe('token_exists');
      expect(await entries('size=1')).toMatchObject([
        { operation: 'token.search', search: { names: ['pan'], hits: 0 }, result: 'success' },
      ]);
    });

    test('repeats its reply for the same idempotency key', async () => {
      await newTenant();
      const id = await create();
      const headers = { 'Idempotency-Key': 'once' };
      const send = () => server.call('POST', '/tokens', { key: revealer, body, headers });
      for (const replayed of [null, 'true']) {
        const { status, body, headers } = await send();
        expect([status, body.id, headers.get('idempotency-replayed')]).toEqual([200, id, replayed]);
      }
    });

    test.each([['token:search'], ['token:read']])(
      'needs %s in the container, also if no token has the value',
      async (missing) => {
        await newTenant();
        const others = all.filter((permission) => permission !== missing);
        const elsewhere = {
          priority: 1,
          container: '/elsewhere/',
          transform: 'reveal',
          permissions: [missing],
        };
        const { key } = await server.application(owner.key, { permissions: others, rules: [elsewhere] });
        const send = async () => (await call('POST', '/tokens', body, key)).body;
        const before = await send();
        await create();
        const { detail, request_id, explanation: _, ...rest } = await send();
        expect([before.status, before.detail]).toEqual([403, expect.stringContaining(missing)]);
        const { request_id: sent, explanation } = before;
        expect({ detail, ...rest, request_id: sent, explanation }).toEqual(before);
      },
    );

    test('with a value that only an expired token has, creates a token', async () => {
      await newTenant();
      await create({ expires_at: new Date(server.clock.now() + 5000).toISOString() });
      server.clock.advance(10_000);
      expect((await call('POST', '/tokens', body)).status).toBe(201);
    });
  });
});

describe.each(databases)('two nodes on %s', (_, database) => {
  test('create one token of fifty concurrent requests unless it exists', async () => {
    const env = { ...unlimited, SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_DATABASE_CONNECTIONS: '6' };
    const first = await openTestServer(database, env);
    const nodes = [first, await openTestServer(first.config.databaseUrl, env)] as const;
    const { key } = await first.tenant();
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, at) => {
          const number = `${round}${at % 2}`;
          const fields = { container: at % 3 ? '/a/' : '/A', data: { number } };
          const body = { ...fields, search: { pan: '{{ data.number }}' }, unless_exists: 'pan' };
          return (nodes[at % 4 < 2 ? 0 : 1] as TestServer).call('POST', '/tokens', { key, body });
        }),
      );
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(2);
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(48);
      expect(new Set(answers.map(({ body }) => body.id)).size).toBe(2);
    }
    for (const node of nodes.toReversed()) await node.close();
  });

  test('allow an application and its sessions a limited number of searches per minute, and fewer misses', async () => {
    const server = await openTestServer(database, {
      SALLYPORT_SEARCHES_PER_MINUTE: '6',
      SALLYPORT_SEARCH_MISSES_PER_MINUTE: '3',
    });
    const { key: management } = await server.tenant();
    const permissions = ['token:create', 'token:read', 'token:search'];
    const { key } = await server.application(management, { permissions });
    const post = async (path: string, body: object, as = key) =>
      (await server.call('POST', path, { key: as, body })).status;
    const create = (number: string) =>
      post('/tokens', { ...card, data: { ...card.data, number }, unless_exists: 'pan' });
    const guess = (number: string) => post('/tokens/search', { equals: { pan: number } });
    expect([await create('1'), await create('1'), await guess('1')]).toEqual([201, 200, 200]);
    expect((await Promise.all(['2', '3', '4'].map(guess))).sort()).toEqual([200, 200, 429]);
    expect([await create('5'), await guess('1')]).toEqual([429, 429]);
    const other = await server.application(management, { permissions });
    expect(await post('/tokens/search', { equals: { pan: '1' } }, other.key)).toBe(200);
    server.clock.advance(20_000);
    expect([await guess('1'), await guess('6'), await guess('7')]).toEqual([200, 200, 429]);
  });

  test('that sessions send count for their authorizer, which they cannot use up through one public key', async () => {
    const server = await openTestServer(database, {
      SALLYPORT_SEARCHES_PER_MINUTE: '0',
      SALLYPORT_SEARCH_MISSES_PER_MINUTE: '8',
    });
    const { key: management } = await server.tenant();
    const permissions = ['token:read', 'token:search'];
    const { key } = await server.application(management, { permissions });
    const post = (path: string, body?: object, as = key) => server.call('POST', path, { key: as, body });
    const open = async (web: string) => {
      const { session_key, nonce } = (await post('/sessions', undefined, web)).body;
      expect((await post('/sessions/authorize', { nonce, permissions })).status).toBe(204);
      return session_key as string;
    };
    const misses = async (as: string) => {
      for (let count = 0; ; count++)
        if ((await post('/tokens/search', { equals: { pan: `${count}` } }, as)).status === 429) return count;
    };
    const webs = [];
    for (let count = 0; count < 3; count++)
      webs.push((await server.application(management, { type: 'public' })).key as string);
    const [first = '', second = '', third = ''] = webs;
    expect([await misses(await open(first)), await misses(await open(first))]).toEqual([4, 0]);
    expect([await misses(await open(second)), await misses(await open(third))]).toEqual([4, 0]);
    expect(await misses(key)).toBe(0);
    server.clock.advance(60_000);
    expect([await misses(await open(first)), await misses(key)]).toEqual([4, 4]);
  });
});
