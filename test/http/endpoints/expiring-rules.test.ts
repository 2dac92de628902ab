/** Rules with `expires_at`: from then on they are absent everywhere. */
import { describe, expect, test } from 'bun:test';
import { guardFetch } from '../../../sdk/src/guard.ts';
import { accessReport } from '../../../sdk/src/report.ts';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { tokenUseRule } from '../../support/destination-receiver.ts';
import { exchange, IssuerKey, local, openFixture, openIssuer } from '../../support/issuer.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

/** Shorter than the default lifetime of a session. */
const lasts = 100_000;

describe.each(databases)('a rule with expires_at on %s', async (_, database) => {
  const server = await openTestServer(database, local);
  const other = await openTestServer(server.config.databaseUrl);
  const tenant = await server.tenant();
  const { key } = tenant;

  const at = (milliseconds: number) => new Date(server.clock.now() + milliseconds).toISOString();
  const advance = (milliseconds: number) => {
    for (const { clock } of [server, other]) clock.advance(milliseconds);
  };
  const call = (method: string, path: string, body?: unknown, as = key) =>
    server.call(method, path, { key: as, body });
  const get = (path: string, as = key) => call('GET', path, undefined, as);
  const reveal = (container: string, fields: object = {}) => ({
    priority: 1,
    container,
    transform: 'reveal',
    permissions: ['token:read'],
    ...fields,
  });
  const when = (container: string, fields: object = {}) => ({
    ...reveal(container, fields),
    container: undefined,
    conditions: [{ attribute: 'container', operator: 'starts_with', value: container }],
  });
  const plain = ['application:read', 'decision:create'];
  let count = 0;
  /** A token in a container of its own, and an application with a rule for it that ends in an hour. */
  const open = async (fields: object = {}) => {
    const container = `/cards/${++count}/`;
    const id = `card-${count}`;
    const search = { pan: '{{ data.number }}' };
    await call('POST', '/tokens', { id, container, data: { number: id }, search });
    const ending = reveal(container, { expires_at: at(lasts), permissions: ['token:read', 'token:search'] });
    const rules = [reveal('/other/'), ending];
    const app = await server.application(key, {
      name: `desk ${count}`,
      permissions: plain,
      rules,
      ...fields,
    });
    return { ...app, container, token: id, ending };
  };
  const sessionOf = async (backend: string, grants: object) => {
    const web = await server.application(key, { type: 'public' });
    const { body } = await call('POST', '/sessions', undefined, web.key);
    const authorized = await call('POST', '/sessions/authorize', { nonce: body.nonce, ...grants }, backend);
    expect(authorized.status).toBe(204);
    return { key: body.session_key as string, end: authorized.headers.get('SVC-SESSION-EXPIRES-AT') };
  };
  const destination = (
    await call('POST', '/destinations', {
      name: 'payments',
      origin: 'https://api.example',
      requests: [{ method: 'POST', path: '/' }],
    })
  ).body.id as string;

  describe('is there until the millisecond, and then absent from', () => {
    type Opened = Awaited<ReturnType<typeof open>>;
    type Place = (opened: Opened) => Promise<() => Promise<unknown>>;
    const ids = (body: { data: { id: string }[] }) => body.data.map(({ id }) => id);
    /** Each returns a function that returns whether the rule is there. */
    const places: Record<string, Place> = {
      'the representation': async (app) => async () => (await get(`/applications/${app.id}`)).body.rules[1],
      'the representation by key, on another node': async (app) => async () =>
        (await other.call('GET', '/applications/key', { key: app.key })).body.rules[1],
      'lists of applications': async (app) => async () =>
        (await get(`/applications?id=${app.id}`)).body.data[0].rules[1],
      reads: async (app) => async () => (await get(`/tokens/${app.token}`, app.key)).status === 200,
      'reads on another node': async (app) => async () =>
        (await other.call('GET', `/tokens/${app.token}`, { key: app.key })).status === 200,
      'lists of tokens': async (app) => async () => ids((await get('/tokens', app.key)).body).length > 0,
      'a list that is read by cursor': async (app) => {
        await call('POST', '/tokens', { container: app.container, data: 'newer' });
        const { next } = (await get('/tokens?size=1', app.key)).body.pagination;
        return async () => ids((await get(`/tokens?start=${next}`, app.key)).body).length > 0;
      },
      searches: async (app) => async () =>
        (await call('POST', '/tokens/search', { equals: { pan: app.token } }, app.key)).status === 200,
      decisions:
        async ({ key: credential, container }) =>
        async () =>
          (
            await call('POST', '/decisions', {
              credential,
              permission: 'token:read',
              resource: { container },
            })
          ).body.allowed,
      explanations:
        async ({ key: credential, container }) =>
        async () => {
          const asked = { credential, permission: 'token:read', resource: { container }, explain: true };
          const { trace } = (await call('POST', '/decisions', asked)).body;
          return trace.some(({ rule }: { rule: unknown }) => rule === 2);
        },
      'the guard of the SDK': async ({ key: credential, container }) => {
        const client = new Sallyport({ url: server.url, key });
        const options = { client, permission: 'token:read', fields: [], resource: () => ({ container }) };
        const handler = guardFetch(options, () => Response.json({}));
        const request = () => new Request('http://localhost/', { headers: { 'SVC-API-KEY': credential } });
        return async () => (await handler(request())).status === 200;
      },
      'AuthZEN evaluations':
        async ({ id, container }) =>
        async () =>
          (
            await call('POST', '/access/v1/evaluation', {
              subject: { type: 'application', id },
              action: { name: 'read' },
              resource: { type: 'token', id: 'x', properties: { container } },
            })
          ).body.decision,
      'AuthZEN searches for subjects':
        async ({ id, container }) =>
        async () =>
          JSON.stringify(
            (
              await call('POST', '/access/v1/search/subject', {
                subject: { type: 'application' },
                action: { name: 'read' },
                resource: { type: 'token', id: 'x', properties: { container } },
              })
            ).body,
          ).includes(id),
      who:
        async ({ id, container }) =>
        async () =>
          JSON.stringify((await get(`/access/who?container=${container}`)).body).includes(id),
      'the report': async ({ container }) => {
        const client = new Sallyport({ url: server.url, key });
        return async () => {
          const files = await accessReport(client, { from: at(-lasts), to: at(0) });
          return files.some(({ name, text }) => name === 'access.csv' && text.includes(container));
        };
      },
      advice:
        async ({ id, container }) =>
        async () =>
          JSON.stringify((await get(`/access/advice?application_id=${id}`)).body).includes(container),
      'the use of grants':
        async ({ id, container }) =>
        async () =>
          JSON.stringify((await get(`/applications/${id}/usage`)).body).includes(container),
      'the impact of an update':
        async ({ id, container, ending }) =>
        async () => {
          const body = { name: 'x', rules: [reveal('/else/')], permissions: plain };
          expect(ending.expires_at).toBeDefined();
          const { changes } = (await call('PUT', `/applications/${id}?dry_run=true`, body)).body;
          return JSON.stringify(changes).includes(container);
        },
      'the ceiling of a session': async (app) => {
        const session = await sessionOf(app.key, { rules: [when(app.container), when('/other/')] });
        return async () => (await get(`/tokens/${app.token}`, session.key)).status === 200;
      },
      'the ceiling of a session, on another node': async (app) => {
        const session = await sessionOf(app.key, { rules: [when(app.container), when('/other/')] });
        return async () =>
          (await other.call('GET', `/tokens/${app.token}`, { key: session.key })).status === 200;
      },
      'who about a session': async (app) => {
        await sessionOf(app.key, { rules: [when(app.container)] });
        return async () =>
          JSON.stringify((await get(`/access/who?container=${app.container}`)).body).includes('limited_by');
      },
      'the ceiling of a delegation': async (app) => {
        const { body } = await call(
          'POST',
          '/delegations',
          { rules: [when(app.container)], expires_at: at(2 * lasts) },
          app.key,
        );
        return async () => (await get(`/tokens/${app.token}`, body.key)).status === 200;
      },
      'new delegations': async (app) => async () =>
        (await call('POST', '/delegations', { rules: [when(app.container)] }, app.key)).status === 201,
      'a session in quarantine': async (app) => {
        await call('POST', `/applications/${app.id}/quarantine`);
        return async () => (await get(`/tokens/${app.token}`, app.key)).status === 200;
      },
    };

    test.each(Object.entries(places))('%s', async (_name, place) => {
      const isThere = await place(await open());
      advance(lasts - 1);
      expect(Boolean(await isThere())).toBe(true);
      expect(Boolean(await isThere())).toBe(true);
      advance(1);
      expect(Boolean(await isThere())).toBe(false);
      expect(Boolean(await isThere())).toBe(false);
    });

    test('GET /proxy and decisions about destinations', async () => {
      const rule = { ...tokenUseRule('/cards/', [destination]), expires_at: at(lasts) };
      const app = await server.application(key, { permissions: ['token:read'], rules: [rule] });
      const seen = async () => {
        const listed = await get('/proxy', app.key);
        const use = { credential: app.key, permission: 'token:use' };
        const resource = { container: '/cards/', destination: 'payments' };
        const decision = await call('POST', '/decisions', { ...use, resource });
        return [listed.status, decision.body.allowed];
      };
      advance(lasts - 1);
      expect(await seen()).toEqual([200, true]);
      advance(1);
      expect(await seen()).toEqual([403, false]);
    });
  });

  const statusOf = (as: string) => get('/applications/key', as).then(({ status }) => status);

  test('ends in a cached policy without any change of the database', async () => {
    const rule = { priority: 1, container: '/', transform: 'mask', permissions: ['application:read'] };
    const app = await server.application(key, {
      permissions: [],
      rules: [{ ...rule, expires_at: at(lasts) }],
    });
    const nodes = [server, other];
    const everywhere = () =>
      Promise.all(
        nodes.map(async (node) => (await node.call('GET', '/applications/key', { key: app.key })).status),
      );
    for (let round = 0; round < 3; round++) expect(await everywhere()).toEqual([200, 200]);
    advance(lasts - 1);
    expect(await everywhere()).toEqual([200, 200]);
    advance(1);
    for (let round = 0; round < 3; round++) expect(await everywhere()).toEqual([403, 403]);
  });

  test('an application without grants keeps its keys, gets 403, and its next update needs a grant', async () => {
    const rule = reveal('/', { expires_at: at(lasts), permissions: ['application:read'] });
    const app = await server.application(key, { permissions: [], rules: [rule] });
    advance(lasts);
    expect(await statusOf(app.key)).toBe(403);
    const current = await get(`/applications/${app.id}`);
    expect(current.body).toMatchObject({ permissions: [], rules: [] });
    const put = (body: object, headers = {}) =>
      server.call('PUT', `/applications/${app.id}`, { key, body: { name: 'x', ...body }, headers });
    expect((await put(current.body)).body.errors).toEqual({
      permissions: ['must not be empty unless rules are given'],
    });
    expect((await put({ rules: [rule] })).body.errors).toEqual({
      permissions: ['must not be empty unless rules are given'],
      'rules.0.expires_at': ['must be in the future'],
    });
    const next = reveal('/', { expires_at: at(lasts), permissions: ['application:read'] });
    const updated = await put({ rules: [rule, next] }, { 'If-Match': current.headers.get('ETag') as string });
    expect([updated.status, updated.body.rules]).toEqual([200, [next]]);
    expect(await statusOf(app.key)).toBe(200);
  });

  test('the end does not change the ETag: an update with an earlier one drops the rule', async () => {
    const app = await open();
    const before = await get(`/applications/${app.id}`);
    advance(lasts);
    const { name, rules, permissions } = before.body;
    expect((await get(`/applications/${app.id}`)).headers.get('ETag')).toBe(before.headers.get('ETag'));
    const headers = { 'If-Match': before.headers.get('ETag') as string };
    const body = { name, rules, permissions };
    const updated = await server.call('PUT', `/applications/${app.id}`, { key, body, headers });
    expect([updated.status, updated.body.rules]).toEqual([200, [rules[0]]]);
  });

  test.each([
    ['a time that has passed', () => at(0), 'must be in the future'],
    ['text', () => 'soon', 'must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z'],
    ['a number', () => 5, 'must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z'],
  ])('a new application cannot have a rule that ends at %s', async (_name, end, message) => {
    const rules = [reveal('/a/'), reveal('/a/'), reveal('/b/', { expires_at: end() })];
    const { status, body } = await call('POST', '/applications', { name: 'x', type: 'private', rules });
    expect([status, body.errors]).toEqual([400, { 'rules.2.expires_at': [message] }]);
  });

  test('times are stored in UTC, null means that a rule does not end, and errors name the rule as it was sent', async () => {
    const end = new Date(Date.parse(at(lasts)));
    const rules = [
      reveal('/a/', { expires_at: null }),
      reveal('/b/', { expires_at: end.toISOString().replace('Z', '+00:00') }),
    ];
    const app = await server.application(key, { permissions: [], rules });
    expect(app.rules).toEqual([reveal('/a/'), reveal('/b/', { expires_at: end.toISOString() })]);
    const sent = [
      reveal('/a/', { expires_at: at(0) }),
      reveal('/b/'),
      { ...reveal('/c/'), container: undefined },
    ];
    const put = await call('PUT', `/applications/${app.id}`, { name: 'x', rules: sent });
    expect(put.body.errors).toEqual({
      'rules.2.container': ['is required in a rule of a private application'],
    });
  });

  test('rules of sessions and delegations cannot end by themselves', async () => {
    const app = await open();
    const web = await server.application(key, { type: 'public' });
    const { nonce } = (await call('POST', '/sessions', undefined, web.key)).body;
    const rules = [when('/other/', { expires_at: at(10) })];
    for (const [path, body, owner] of [
      ['/sessions/authorize', { nonce, rules }, 'session'],
      ['/delegations', { rules }, 'delegation'],
    ] as const)
      expect((await call('POST', path, body, app.key)).body.errors).toEqual({
        'rules.0.expires_at': [`is only for applications: the ${owner} has its own expiry`],
      });
  });

  test('the history of access knows the rule and its end, also after an update and a deletion', async () => {
    const app = await open();
    const gone = await open();
    advance(lasts - 1);
    const from = at(0);
    advance(1);
    const end = at(0);
    advance(1);
    const lost = async (of: typeof app, query: object) => {
      const { body } = await get(
        `/access/diff?${new URLSearchParams({ ...query, container: of.container })}`,
      );
      expect([body.complete, body.unknown]).toEqual([true, []]);
      return body.data
        .filter(
          ({ application, permission }: Record<string, { id: string }>) =>
            application?.id === of.id && String(permission) === 'token:read',
        )
        .map(({ from, to, events }: { from: string; to: string; events: { operation: string }[] }) => [
          from,
          to,
          ...events.map((event) => event.operation),
        ]);
    };
    const expected = ['reveal', 'denied', 'application.rule.end'];
    for (const of of [app, gone]) {
      expect(await lost(of, { from })).toEqual([expected]);
      expect(await lost(of, { from, to: end })).toEqual([expected]);
      expect(await lost(of, { from: end })).toEqual([]);
    }
    await call('PUT', `/applications/${app.id}`, { name: 'desk', permissions: plain });
    await call('DELETE', `/applications/${gone.id}`);
    advance(1);
    expect(await lost(app, { from, to: end })).toEqual([expected]);
    expect(await lost(app, { from })).toEqual([[...expected, 'application.update']]);
    expect(await lost(gone, { from })).toEqual([[...expected, 'application.delete']]);
    expect(await lost(app, { from: end })).toEqual([]);
    expect(await lost(gone, { from: end })).toEqual([]);
  });

  describe('access does not survive its rule', () => {
    const management = ['application:create', 'application:read', 'application:update', 'session:authorize'];
    /** A management application whose rule ends, and another one with the same permissions for ever. */
    const admins = async () => {
      const ends = at(lasts);
      const rules = [{ priority: 1, transform: 'mask', permissions: management, expires_at: ends }];
      const lasting = await server.application(key, { type: 'management', permissions: management });
      const admin = await server.application(key, { type: 'management', permissions: ['token:read'], rules });
      const as = (method: string, path: string, body?: unknown) => call(method, path, body, admin.key);
      return { admin, lasting, ends, later: at(lasts + 1), rules, as };
    };
    type Admins = Awaited<ReturnType<typeof admins>>;
    const body = { name: 'x', type: 'management' };
    const refused: Record<string, (given: Admins) => Promise<{ status: number; body: { detail: string } }>> =
      {
        'a new application without an end': ({ as }) =>
          as('POST', '/applications', { ...body, permissions: ['application:read'] }),
        'a new application with a later end': ({ as, rules, later }) =>
          as('POST', '/applications', { ...body, rules: [{ ...rules[0], expires_at: later }] }),
        'a new application that expires later': ({ as, rules, later }) =>
          as('POST', '/applications', {
            ...body,
            permissions: ['application:read'],
            expires_at: later,
            rules,
          }),
        'its own rule without an end': ({ as, admin, rules }) =>
          as('PUT', `/applications/${admin.id}`, { name: 'x', rules: [{ ...rules[0], expires_at: null }] }),
        'a preview of it': ({ as, admin }) =>
          as('PUT', `/applications/${admin.id}`, { name: 'x', permissions: management }),
        'a key of another application': ({ as, lasting }) => as('POST', `/applications/${lasting.id}/keys`),
        'a key with a later end': ({ as, lasting, later }) =>
          as('POST', `/applications/${lasting.id}/keys`, { expires_at: later }),
        'regenerating the key of another application': ({ as, lasting }) =>
          as('POST', `/applications/${lasting.id}/regenerate`),
        'an issuer of another application': ({ as, lasting }) => {
          const trusted_issuers = [{ issuer: 'https://a.example', audience: 'b', claims: { sub: 'c' } }];
          const { name, permissions } = lasting;
          return as('PUT', `/applications/${lasting.id}`, { name, permissions, trusted_issuers });
        },
        'a later expiry of an application that ends with it': async ({ as, ends }) => {
          const short = await as('POST', '/applications', {
            ...body,
            permissions: management,
            expires_at: ends,
          });
          expect(short.status).toBe(201);
          return as('PUT', `/applications/${short.body.id}`, {
            name: 'x',
            permissions: management,
            expires_at: 'never',
          });
        },
      };

    test.each(Object.entries(refused))('by %s', async (_name, attempt) => {
      const given = await admins();
      const { status, body } = await attempt(given);
      expect([status, body.detail]).toEqual([
        403,
        expect.stringContaining(`beyond ${given.ends}: your key does not hold it longer`),
      ]);
    });

    test('what ends in time, or takes access away, is allowed', async () => {
      const { as, lasting, ends, rules } = await admins();
      const path = `/applications/${lasting.id}`;
      const { name } = lasting;
      const statuses = [
        await as('POST', '/applications', { ...body, rules }),
        await as('POST', '/applications', { ...body, permissions: ['application:read'], expires_at: ends }),
        await as('POST', '/applications', { ...body, permissions: ['token:read', 'own:thing'] }),
        await as('POST', `${path}/keys`, { expires_at: ends }),
        await as('PUT', path, { name: 'renamed', permissions: management }),
        await as('PUT', path, { name, permissions: ['application:read'] }),
        await as('POST', `${path}/quarantine`),
      ];
      expect(statuses.map(({ status }) => status)).toEqual([201, 201, 201, 201, 200, 200, 200]);
    });

    test('by a session without a ceiling, which ends with the rule', async () => {
      const { admin, ends, later } = await admins();
      const grants = { permissions: ['token:read'] };
      expect((await sessionOf(admin.key, { ...grants, expires_at: ends })).end).toBe(ends);
      const early = await sessionOf(admin.key, { ...grants, expires_at: at(5) });
      expect(early.end).toBe(at(5));
      const session = await sessionOf(admin.key, grants);
      expect(session.end).toBe(ends);
      const web = await server.application(key, { type: 'public' });
      const { nonce } = (await call('POST', '/sessions', undefined, web.key)).body;
      const late = await call(
        'POST',
        '/sessions/authorize',
        { nonce, ...grants, expires_at: later },
        admin.key,
      );
      expect(Object.keys(late.body.errors)).toEqual(['expires_at']);
      advance(lasts - 1);
      expect((await get('/tokens', session.key)).status).toBe(200);
      advance(1);
      expect((await get('/tokens', session.key)).status).toBe(401);
      expect((await other.call('GET', '/tokens', { key: session.key })).status).toBe(401);
    });

    test('by a key that was issued for a JWT', async () => {
      const signer = new IssuerKey('one');
      const fixture = await openFixture(server, openIssuer(signer), signer);
      const rules = [reveal('/', { permissions: ['application:read'], expires_at: at(lasts) })];
      const app = await fixture.application({ lifetime: 900 }, { permissions: [], rules });
      const issued = await exchange(server, fixture.clientId(app), fixture.jwt());
      advance(lasts - 1);
      expect(await statusOf(issued.body.access_token)).toBe(200);
      advance(1);
      expect(await statusOf(issued.body.access_token)).toBe(403);
      const later = await exchange(server, fixture.clientId(app), fixture.jwt());
      expect(await statusOf(later.body.access_token)).toBe(403);
    });

    test('by the release of a quarantine, a rename, a proposal, or a new key', async () => {
      const app = await open();
      const path = `/applications/${app.id}`;
      await get(`/tokens/${app.token}`, app.key);
      await server.flush();
      await call('POST', `${path}/quarantine`);
      const [advice] = (await get(`/access/advice?application_id=${app.id}`)).body.data;
      expect(advice.proposal.rules).toContainEqual(
        expect.objectContaining({ expires_at: app.ending.expires_at }),
      );
      const { body: fetched } = await get(path);
      const { key_expires_at: _, ...same } = fetched;
      expect((await call('PUT', path, { ...same, name: 'renamed' })).status).toBe(200);
      const { body: added } = await call('POST', `${path}/keys`);
      advance(lasts - 1);
      await call('DELETE', `${path}/quarantine`);
      const read = async () =>
        Promise.all([app.key, added.key].map(async (one) => (await get(`/tokens/${app.token}`, one)).status));
      expect(await read()).toEqual([200, 200]);
      await call('POST', `${path}/quarantine`);
      advance(1);
      await call('DELETE', `${path}/quarantine`);
      expect(await read()).toEqual([403, 403]);
    });

    test('by a reply that an Idempotency-Key repeats', async () => {
      const rule = reveal('/cards/', { permissions: ['token:create', 'token:read'], expires_at: at(lasts) });
      const app = await server.application(key, {
        permissions: [],
        rules: [rule, reveal('/other/', { permissions: ['token:create'] })],
      });
      const headers = { 'Idempotency-Key': 'once' };
      const post = () =>
        server.call('POST', '/tokens', { key: app.key, body: { container: '/cards/', data: 'x' }, headers });
      expect([(await post()).status, (await post()).body.data]).toEqual([201, 'x']);
      advance(lasts);
      const { status, body } = await post();
      expect([status, body.data]).toEqual([422, undefined]);
    });
  });
});
