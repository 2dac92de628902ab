import { describe, expect, test } from 'bun:test';
import {
  databases,
  manyConnections,
  openTestServer,
  startTime,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';

const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/customers/42/' }];
const ruleFor = (permissions: string[], transform = 'reveal') => ({
  priority: 1,
  conditions,
  transform,
  permissions,
});
const all = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search'];

describe.each(databases)('delegations on %s', async (_, database) => {
  const server = await openTestServer(database, { ...manyConnections, SALLYPORT_MASTER_KEY: testMasterKey });

  /** A tenant whose agent backend may do everything below /customers/, and two tokens. */
  async function scene(fields: Record<string, unknown> = {}) {
    const { key, id: tenant } = await server.tenant();
    const rules = [{ priority: 1, container: '/customers/', transform: 'reveal', permissions: all }];
    const issuer = await server.application(key, {
      rules,
      permissions: ['application:read', 'decision:create'],
      ...fields,
    });
    for (const [id, container] of [
      ['card-42', '/customers/42/'],
      ['card-43', '/customers/43/'],
    ])
      await server.call('POST', '/tokens', { key, body: { id, container, data: `data of ${id}` } });
    const issue = (body: object, by: string = issuer.key) =>
      server.call('POST', '/delegations', { key: by, body });
    const delegation = async (body: object = {}) => {
      const issued = await issue({ rules: [ruleFor(['token:read'])], ...body });
      expect(issued.status).toBe(201);
      return issued.body as { id: string; key: string; expires_at: string };
    };
    return { key, tenant, issuer, issue, delegation };
  }

  const read = async (key: string, id = 'card-42') =>
    (await server.call('GET', `/tokens/${id}`, { key })).status;

  test('a delegation reads what its rules allow, until it expires', async () => {
    const { delegation } = await scene();
    const { key, expires_at } = await delegation();
    expect(key).toMatch(/^slp_dlg_[0-9A-Za-z]{55}$/);
    expect(Date.parse(expires_at)).toBe(server.clock.now() + 180_000);
    expect((await server.call('GET', '/tokens/card-42', { key })).body.data).toBe('data of card-42');
    expect(await read(key, 'card-43')).toBe(403);
    server.clock.advance(180_000);
    expect(await read(key)).toBe(401);
  });

  test('only the key of a private application can issue one, and only with permissions that it holds', async () => {
    const { key, issue, delegation } = await scene();
    const web = await server.application(key, { type: 'public' });
    const { key: agent } = await delegation({ rules: [], permissions: ['application:read'] });
    for (const other of [key, web.key, agent]) {
      const refused = await issue({ permissions: ['token:read'] }, other);
      expect([refused.status, refused.body.code]).toEqual([403, 'key_type_refused']);
    }
    const unheld = await issue({ permissions: ['session:read'] });
    expect([unheld.status, unheld.body.code]).toEqual([403, 'grant_not_held']);
    for (const [path, body] of [
      ['/sessions', undefined],
      ['/sessions/authorize', { nonce: 'x', permissions: ['application:read'] }],
    ] as const)
      expect((await server.call('POST', path, { key: agent, body })).body.code).toBe('key_type_refused');
  });

  test.each([
    [{}, 'permissions'],
    [{ permissions: ['application:update'] }, 'permissions.0'],
    [{ rules: [{ ...ruleFor(['token:read']), conditions: undefined }] }, 'rules.0.conditions'],
    [{ permissions: ['token:read'], max_uses: 0 }, 'max_uses'],
    [{ permissions: ['token:read'], max_uses: 1.5 }, 'max_uses'],
    [{ permissions: ['token:read'], expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ permissions: ['token:read'], expires_at: '2099-01-01T00:00:00Z' }, 'expires_at'],
    [{ permissions: ['token:read'], nonce: 'x' }, 'nonce'],
  ])('%p is rejected because of %s', async (body, field) => {
    const { issue } = await scene();
    const refused = await issue(body);
    expect(refused.status).toBe(400);
    expect(Object.keys(refused.body.errors)).toEqual([field]);
  });

  test('its key is the ceiling, also for an issuer that can authorize any session', async () => {
    const { key, issuer, delegation } = await scene({
      permissions: ['session:authorize', 'application:read'],
    });
    const agent = await delegation();
    expect(await read(agent.key)).toBe(200);
    const rules = [{ priority: 1, container: '/customers/', transform: 'mask', permissions: ['token:read'] }];
    const body = { name: 'agents', rules };
    await server.call('PUT', `/applications/${issuer.id}`, { key, body });
    expect((await server.call('GET', '/tokens/card-42', { key: agent.key })).body).not.toHaveProperty('data');
  });

  test('it cannot move a token to where its issuer or others see more', async () => {
    const rules = [
      { priority: 1, container: '/customers/42/', transform: 'mask', permissions: all },
      { priority: 1, container: '/open/', transform: 'reveal', permissions: all },
    ];
    const { delegation } = await scene({ rules });
    const { key } = await delegation({ rules: [], permissions: ['token:read', 'token:update'] });
    const moved = await server.call('PATCH', '/tokens/card-42', { key, body: { container: '/open/' } });
    expect(moved.status).toBe(403);
  });

  const endings: [
    string,
    (made: Awaited<ReturnType<typeof scene>>, agent: { id: string; key: string }) => Promise<unknown>,
  ][] = [
    [
      'its issuing key is deleted',
      async ({ key, issuer }) => {
        const [one] = (await server.call('GET', `/applications/${issuer.id}/keys`, { key })).body.data;
        return server.call('DELETE', `/applications/${issuer.id}/keys/${one.id}`, { key });
      },
    ],
    [
      'the key of its issuer is regenerated',
      ({ key, issuer }) => server.call('POST', `/applications/${issuer.id}/regenerate`, { key }),
    ],
    [
      'its issuing key is revoked as leaked',
      ({ issuer }) => server.call('POST', '/keys/revoke', { body: { key: issuer.key } }),
    ],
    [
      'its issuer is deleted',
      ({ key, issuer }) => server.call('DELETE', `/applications/${issuer.id}`, { key }),
    ],
    ['it is ended', ({ key }, { id }) => server.call('DELETE', `/sessions/${id}`, { key })],
    ['its subject is signed out', ({ key }) => server.call('DELETE', '/sessions?subject=user:42', { key })],
    ['its own key is revoked', (_, { key }) => server.call('POST', '/keys/revoke', { body: { key } })],
  ];
  test.each(endings)('it ends when %s', async (_name, end) => {
    const made = await scene();
    const agent = await made.delegation({ subject: 'user:42' });
    expect(await read(agent.key)).toBe(200);
    await end(made, agent);
    expect(await read(agent.key)).toBe(401);
    expect((await server.call('GET', '/sessions', { key: made.key })).body.data).toEqual([]);
  });

  test('one that is issued after its subject was signed out stays valid', async () => {
    const { key, delegation } = await scene();
    const first = await delegation({ subject: 'user:42' });
    await server.call('DELETE', '/sessions?subject=user:42', { key });
    const second = await delegation({ subject: 'user:42' });
    expect([await read(first.key), await read(second.key)]).toEqual([401, 200]);
  });

  test('another key of its issuer does not get it with the same idempotency key', async () => {
    const { key, issuer } = await scene();
    const added = await server.call('POST', `/applications/${issuer.id}/keys`, { key });
    const issue = (by: string) =>
      server.call('POST', '/delegations', {
        key: by,
        body: { rules: [ruleFor(['token:read'])] },
        headers: { 'Idempotency-Key': 'agent' },
      });
    const [first, again, other] = [
      await issue(issuer.key),
      await issue(issuer.key),
      await issue(added.body.key),
    ];
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(other.body.code).toBe('idempotency_mismatch');
  });

  test('it ends with a key that expires earlier, and says so', async () => {
    const { key, issuer, issue } = await scene();
    const at = new Date(server.clock.now() + 60_000).toISOString();
    const added = await server.call('POST', `/applications/${issuer.id}/keys`, {
      key,
      body: { expires_at: at },
    });
    const issued = await issue({ permissions: ['application:read'] }, added.body.key);
    expect(issued.body.expires_at).toBe(at);
  });

  test('it works only from the networks of its issuer', async () => {
    const { key, issuer, delegation } = await scene();
    const agent = await delegation();
    const { name, rules } = issuer;
    const body = { name, rules, allowed_networks: ['192.0.2.0/24'] };
    await server.call('PUT', `/applications/${issuer.id}`, { key, body });
    const refused = await server.call('GET', '/tokens/card-42', { key: agent.key });
    expect([refused.status, refused.body.code]).toEqual([403, 'network_refused']);
  });

  test.each([
    ['GET', '/delegations', 405],
    ['DELETE', '/delegations?id=1', 405],
    ['DELETE', `/delegations/${crypto.randomUUID()}`, 404],
  ])('%s %s says where delegations are listed and ended', async (method, path, status) => {
    const refused = await server.call(method, path);
    expect(refused.status).toBe(status);
    expect(refused.body.detail).toContain('`GET /sessions?kind=delegation`');
    expect((await server.call(method, '/delegationsx')).body.detail).not.toContain('kind=delegation');
  });

  test('lists show its kind and its uses, and filter by kind', async () => {
    const { key, issuer, delegation } = await scene();
    const agent = await delegation({ subject: 'user:42', max_uses: 3 });
    const web = await server.application(key, { type: 'public' });
    await server.call('POST', '/sessions', { key: web.key });
    await read(agent.key);
    const list = async (query: string) => (await server.call('GET', `/sessions${query}`, { key })).body.data;
    expect((await list('')).map(({ kind }: { kind: string }) => kind)).toEqual(['session', 'delegation']);
    expect((await list('?kind=session')).length).toBe(1);
    expect(await list('?kind=delegation')).toMatchObject([
      {
        id: agent.id,
        kind: 'delegation',
        application_id: issuer.id,
        authorized_by: issuer.id,
        state: 'active',
        subject: 'user:42',
        ceiling: true,
        bound: false,
        max_uses: 3,
        uses: 1,
        expires_at: agent.expires_at,
      },
    ]);
  });

  test('audit entries, decisions and reviews name it', async () => {
    const { key, issuer, issue, delegation } = await scene();
    const agent = await delegation({ subject: 'user:42' });
    await server.call('GET', '/tokens/card-42', { key: agent.key, headers: { 'SVC-PURPOSE': 'refund' } });
    await read(agent.key, 'card-43');
    await server.flush();
    const logs = async (query: string) => (await server.call('GET', `/logs?${query}`, { key })).body.data;
    const actor = {
      kind: 'delegation',
      id: agent.id,
      application_id: issuer.id,
      authorized_by: issuer.id,
      subject: 'user:42',
    };
    const entries = await logs(`actor=${agent.id}`);
    expect(entries).toHaveLength(2);
    expect(entries).toContainEqual(
      expect.objectContaining({ actor, operation: 'token.read', purpose: 'refund' }),
    );
    expect(entries).toContainEqual(expect.objectContaining({ actor, result: 'denied' }));
    expect(await logs('operation=delegation.create')).toMatchObject([
      {
        actor: { kind: 'application', id: issuer.id },
        entity: { kind: 'delegation', id: agent.id },
        difference: {
          ceiling: { to: true },
          subject: { to: 'user:42' },
          rules: { to: [{ transform: 'reveal' }] },
        },
      },
    ]);
    const question = { permission: 'token:read', resource: { id: 'card-42', container: '/customers/42/' } };
    const decision = await server.call('POST', '/decisions', {
      key: issuer.key,
      body: { ...question, credential: agent.key },
    });
    expect(decision.body).toMatchObject({
      allowed: true,
      principal: { kind: 'delegation', id: agent.id, application_id: issuer.id, subject: 'user:42' },
      rule: { of: 'delegation', rule: 1 },
    });
    const who = await server.call('GET', '/access/who?token=card-42', { key });
    expect(who.body.data).toContainEqual(
      expect.objectContaining({
        subject: { type: 'delegation', id: agent.id, name: issuer.name, subject: 'user:42' },
        limited_by: { type: 'application', id: issuer.id, name: issuer.name },
      }),
    );
    const evaluate = async (type: string) =>
      (
        await server.call('POST', '/access/v1/evaluation', {
          key,
          body: {
            subject: { type, id: agent.id },
            action: { name: 'read' },
            resource: { type: 'token', id: 'card-42' },
          },
        })
      ).body.decision;
    expect([await evaluate('delegation'), await evaluate('session')]).toEqual([true, false]);
    const search = {
      subject: { type: 'delegation' },
      action: { name: 'read' },
      resource: { type: 'token', id: 'card-42' },
    };
    const found = await server.call('POST', '/access/v1/search/subject', { key, body: search });
    expect(found.body.results).toEqual([{ type: 'delegation', id: agent.id }]);
    const self = await issue({ permissions: ['decision:create', 'token:read'] });
    for (const [credential, status] of [
      [self.body.key, 200],
      [agent.key, 403],
    ])
      expect(
        (await server.call('POST', '/decisions', { key: self.body.key, body: { ...question, credential } }))
          .status,
      ).toBe(status);
  });

  describe('with max_uses', () => {
    test('a change that fails because of stored data is a use', async () => {
      const { delegation } = await scene();
      const rules = [{ ...ruleFor(['token:update']), transform: 'reveal' }];
      const agent = await delegation({ rules, max_uses: 1 });
      const guess = async () =>
        (await server.call('PATCH', '/tokens/card-42', { key: agent.key, body: { mask: '{{ data }}' } }))
          .status;
      expect([await guess(), await guess()]).toEqual([400, 401]);
    });

    test('a use is a request that passed authorization', async () => {
      const { issuer, delegation } = await scene();
      const agent = await delegation({
        rules: [ruleFor(['token:read', 'token:create', 'token:delete'])],
        max_uses: 3,
      });
      const call = (method: string, path: string, body?: unknown) =>
        server.call(method, path, { key: agent.key, body });
      const card = { id: 'card-42', container: '/customers/42/', data: 'x' };
      const statuses = [
        await call('GET', '/tokens/card-43'),
        await call('GET', '/tokens?size=0'),
        await call('POST', '/tokens', { ...card, container: '/customers/43/' }),
        await call('GET', '/applications'),
        await call('POST', '/delegations', { permissions: ['token:read'] }),
        await call('GET', '/tokens/unknown'),
        await call('POST', '/tokens', card),
      ].map(({ status }) => status);
      expect(statuses).toEqual([403, 400, 403, 403, 403, 404, 409]);
      const asked = {
        credential: agent.key,
        permission: 'token:read',
        resource: { container: '/customers/42/' },
      };
      const decided = () => server.call('POST', '/decisions', { key: issuer.key, body: asked });
      expect((await decided()).body.allowed).toBe(true);
      expect((await call('DELETE', '/tokens/card-42')).status).toBe(204);
      expect((await decided()).body.allowed).toBe(false);
      const spent = await call('GET', '/tokens/card-42');
      const unknown = await server.call('GET', '/tokens/card-42', { key: 'slp_dlg_unknown' });
      expect([spent.status, spent.body]).toEqual([
        401,
        { ...unknown.body, request_id: spent.body.request_id },
      ]);
    });

    test.each(['GET', 'POST'])(
      'of 20 concurrent requests by %s on two nodes, at most five succeed',
      async (method) => {
        const { key, delegation } = await scene();
        const agent = await delegation({ rules: [ruleFor(['token:read', 'token:create'])], max_uses: 5 });
        const other = await openTestServer(server.config.databaseUrl, manyConnections);
        try {
          other.clock.advance(server.clock.now() - startTime);
          const request = (node: TestServer, at: number) =>
            method === 'GET'
              ? node.call('GET', '/tokens/card-42', { key: agent.key })
              : node.call('POST', '/tokens', {
                  key: agent.key,
                  body: { id: `new-${at}`, container: '/customers/42/', data: 'x' },
                });
          const replies = await Promise.all(
            Array.from({ length: 20 }, (_, at) => request(at % 2 ? server : other, at)),
          );
          const statuses = replies.map(({ status }) => status);
          expect(statuses.filter((status) => status === 401)).toHaveLength(15);
          expect(statuses.filter((status) => status < 300)).toHaveLength(5);
          const { data } = (await server.call('GET', '/tokens?container=/customers/42/', { key })).body;
          expect(data).toHaveLength(method === 'GET' ? 1 : 6);
        } finally {
          await other.close();
        }
      },
    );

    test('a repeated request with the same idempotency key is a use', async () => {
      const { delegation } = await scene();
      const agent = await delegation({ rules: [ruleFor(['token:create'])], max_uses: 2 });
      const body = { container: '/customers/42/', data: 'x' };
      const headers = { 'Idempotency-Key': 'one' };
      const create = () => server.call('POST', '/tokens', { key: agent.key, body, headers });
      const [first, second, third] = [await create(), await create(), await create()];
      expect([first.status, second.status, third.status]).toEqual([201, 201, 401]);
      expect(second.body.id).toBe(first.body.id);
    });
  });
});

test('an application has at most the configured number of delegations', async () => {
  const [, database] = databases[0] as (typeof databases)[number];
  const server = await openTestServer(database, { SALLYPORT_PENDING_SESSIONS_PER_APPLICATION: '2' });
  const { key } = await server.tenant();
  const issuer = await server.application(key);
  const issue = () =>
    server.call('POST', '/delegations', {
      key: issuer.key,
      body: { permissions: ['token:read'], max_uses: 1 },
    });
  const [first] = [await issue(), await issue()];
  const refused = await issue();
  expect([refused.status, refused.body.code]).toEqual([429, 'too_many_requests']);
  await server.call('GET', '/tokens', { key: first.body.key });
  server.clock.advance(1000);
  expect((await issue()).status).toBe(201);
});
