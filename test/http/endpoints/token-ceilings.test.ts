/** Token access of a session that is limited by its authorizer. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const data = { number: '4242424242424242', name: 'Ada' };
const masked = { number: 'XXXXXXXXXXXX4242' };
const mask = { number: '{{ data.number | reveal_last: 4 }}' };
const all = ['token:create', 'token:read', 'token:update', 'token:delete'];

describe.each(databases)('a limited session on %s', async (_, database) => {
  const server = await openTestServer(database);
  let management: string;
  let backend: { id: string; key: string };
  let session: string;

  beforeEach(async () => {
    management = (await server.tenant()).key;
    for (const customer of ['41', '42', '43']) {
      const body = { id: `card-${customer}`, container: `/customers/${customer}/`, data, mask };
      await server.call('POST', '/tokens', { key: management, body });
    }
    backend = await server.application(management, { permissions: [], rules: [rule('/', 'reveal')] });
    session = await authorized(backend.key);
  });

  const rule = (container: string, transform: string, permissions = all, priority = 1) => ({
    priority,
    container,
    transform,
    permissions,
  });

  /** A session with all permissions on every customer's tokens, limited by its authorizer. */
  async function authorized(by: string): Promise<string> {
    const web = await server.application(management, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/customers/' }];
    const rules = [{ priority: 1, transform: 'reveal', permissions: all, conditions }];
    const grant = { nonce: body.nonce, rules };
    expect((await server.call('POST', '/sessions/authorize', { key: by, body: grant })).status).toBe(204);
    return body.session_key;
  }

  async function setRules(...rules: object[]): Promise<void> {
    const body = { name: 'backend', rules };
    const { status } = await server.call('PUT', `/applications/${backend.id}`, { key: management, body });
    expect(status).toBe(200);
  }

  const get = (id: string, key = session) => server.call('GET', `/tokens/${id}`, { key });
  const list = async (key = session) => {
    const { body } = await server.call('GET', '/tokens', { key });
    return body.data.map((token: { id: string; data: unknown }) => [token.id, token.data]);
  };
  const patch = (id: string, body: object) => server.call('PATCH', `/tokens/${id}`, { key: session, body });

  test('can do what its authorizer can do', async () => {
    expect((await get('card-42')).body.data).toEqual(data);
    expect(await list()).toEqual([
      ['card-43', data],
      ['card-42', data],
      ['card-41', data],
    ]);
    expect((await patch('card-42', { metadata: { seen: 'yes' } })).body.data).toEqual(data);
  });

  test('loses containers and transforms with its authorizer, with the next request', async () => {
    await setRules(rule('/customers/42/', 'mask'), rule('/customers/43/', 'redact'));
    expect((await get('card-42')).body.data).toEqual(masked);
    expect((await get('card-43')).body).not.toHaveProperty('data');
    const rejected = await get('card-41');
    expect(rejected.status).toBe(403);
    expect(rejected.body.detail).toBe('You cannot use `token:read` on this token.');
    expect(await list()).toEqual([
      ['card-43', undefined],
      ['card-42', masked],
    ]);
    const { body } = await server.call('GET', '/tokens?size=1', { key: session });
    expect(body.pagination).toMatchObject({ total_items: 2, total_pages: 2 });
    expect((await patch('card-42', { type: 'card' })).body.data).toEqual(masked);
    expect((await patch('card-43', { type: 'card' })).body).not.toHaveProperty('data');
    expect((await patch('card-41', { type: 'card' })).status).toBe(403);
  });

  test('regains access with its authorizer, within its own rules', async () => {
    await setRules(rule('/customers/42/', 'redact'));
    await setRules(rule('/', 'reveal'));
    expect((await get('card-41')).body.data).toEqual(data);
    const body = { id: 'elsewhere', container: '/general/', data, mask };
    await server.call('POST', '/tokens', { key: management, body });
    expect((await get('elsewhere')).status).toBe(403);
    expect((await list()).length).toBe(3);
  });

  test('loses permissions with its authorizer', async () => {
    await setRules(rule('/', 'reveal', ['token:read']));
    expect((await get('card-42')).status).toBe(200);
    for (const [method, path, permission, body] of [
      ['PATCH', '/tokens/card-42', 'token:update', { type: 'card' }],
      ['DELETE', '/tokens/card-42', 'token:delete', undefined],
      ['POST', '/tokens', 'token:create', { data: 1, container: '/customers/42/' }],
    ] as const) {
      const rejected = await server.call(method, path, { key: session, body });
      expect(rejected.status).toBe(403);
      expect(rejected.body.detail).toBe(
        `You need the permission \`${permission}\`: this key is limited to what its authorizer may do now.`,
      );
    }
  });

  test('moves a token only where both have token:update', async () => {
    await setRules(rule('/customers/42/', 'reveal'));
    expect((await patch('card-42', { container: '/customers/43/' })).status).toBe(403);
    expect((await patch('card-42', { container: '/customers/42/old/' })).status).toBe(200);
  });

  test('cannot move hidden data to where its authorizer or another session sees more', async () => {
    const rules = [rule('/s/', 'redact', ['token:update']), rule('/customers/', 'reveal')];
    const authorizer = await server.application(management, { permissions: [], rules });
    const body = { id: 'hidden', container: '/s/', data, mask };
    await server.call('POST', '/tokens', { key: management, body });
    const web = await server.application(management, { type: 'public' });
    const { body: opened } = await server.call('POST', '/sessions', { key: web.key });
    const blind = ['/s/', '/customers/'].map((value) => ({
      priority: 1,
      transform: 'redact',
      permissions: ['token:update'],
      conditions: [{ attribute: 'container', operator: 'starts_with', value }],
    }));
    const grant = { nonce: opened.nonce, rules: blind };
    await server.call('POST', '/sessions/authorize', { key: authorizer.key, body: grant });
    const move = { key: opened.session_key, body: { container: '/customers/42/' } };
    for (const change of [move, { ...move, body: { ...move.body, data: { name: 'x' } } }]) {
      const { status, body } = await server.call('PATCH', '/tokens/hidden', change);
      expect([status, body.code]).toEqual([403, 'reveal_required']);
    }
    expect((await get('hidden', authorizer.key)).status).toBe(403);
    expect(
      (await server.call('PATCH', '/tokens/hidden', { ...move, body: { container: '/S/' } })).status,
    ).toBe(200);
    const whole = { ...move, body: { container: '/customers/42/', data: 'new', mask: null } };
    expect((await server.call('PATCH', '/tokens/hidden', whole)).status).toBe(200);
    expect((await get('hidden', authorizer.key)).body.data).toBe('new');
  });

  test('changes a mask only if both can reveal the data', async () => {
    const wider = { mask: '{{ data.number | reveal_first: 6 }}' };
    await setRules(rule('/', 'mask'));
    const rejected = await patch('card-42', wider);
    expect(rejected.body.code).toBe('reveal_required');
    await setRules(rule('/', 'reveal'));
    expect((await patch('card-42', wider)).status).toBe(200);
  });

  test('applies the defaults of its rule only where its authorizer could set them afterwards', async () => {
    const rules = [rule('/customers/42/', 'mask'), rule('/customers/43/', 'reveal')];
    await setRules(...rules, rule('/customers/44/', 'reveal', ['token:create', 'token:read']));
    const wide = {
      mask: '{{ data.number | first: 15 }}/{{ data.name }}',
      search: { pan: '{{ data.number }}' },
    };
    const everywhere = [{ attribute: 'container', operator: 'starts_with', value: '/' }];
    const grants = {
      rules: [
        {
          priority: 1,
          transform: 'reveal',
          permissions: ['token:create'],
          conditions: everywhere,
          defaults: wide,
        },
      ],
    };
    const web = await server.application(management, { type: 'public' });
    const { body: opened } = await server.call('POST', '/sessions', { key: web.key });
    const call = (path: string, body: object) => server.call('POST', path, { key: backend.key, body });
    await call('/sessions/authorize', { nonce: opened.nonce, ...grants });
    const delegation = (await call('/delegations', grants)).body;
    for (const key of [opened.session_key, delegation.key])
      for (const [customer, fields, status] of [
        ['42', {}, 403],
        ['42', { mask: '***' }, 403],
        ['42', { search: {} }, 403],
        ['42', { mask: '***', search: {} }, 201],
        ['42', { max_uses: 1 }, 201],
        ['44', {}, 403],
        ['43', {}, 201],
      ] as const) {
        const container = `/customers/${customer}/`;
        const created = await server.call('POST', '/tokens', { key, body: { container, data, ...fields } });
        expect([customer, fields, created.status]).toEqual([customer, fields, status]);
        if (status === 403) expect(created.body.code).toBe('reveal_required');
      }
  });

  test.each([
    ['regenerated', () => server.call('POST', `/applications/${backend.id}/regenerate`, { key: management })],
    ['deleted', () => server.call('DELETE', `/applications/${backend.id}`, { key: management })],
  ])('is revoked if its authorizer is %s', async (_what, end) => {
    expect((await get('card-42')).status).toBe(200);
    expect((await end()).status).toBeLessThan(300);
    expect((await get('card-42')).status).toBe(401);
    expect((await server.call('GET', '/tokens', { key: session })).status).toBe(401);
    expect((await patch('card-42', { type: 'card' })).status).toBe(401);
  });

  test('is revoked if its authorizer expires', async () => {
    const expires_at = new Date(server.clock.now() + 1000).toISOString();
    const rules = [rule('/', 'reveal')];
    const brief = await server.application(management, { permissions: [], rules, expires_at });
    const bound = await authorized(brief.key);
    server.clock.advance(999);
    expect((await get('card-42', bound)).status).toBe(200);
    server.clock.advance(1);
    expect((await get('card-42', bound)).status).toBe(401);
  });

  test('is not limited if its authorizer holds session:authorize', async () => {
    const permissions = ['session:authorize'];
    const free = await server.application(management, { permissions, rules: [rule('/', 'redact')] });
    const bound = await authorized(free.key);
    expect((await get('card-42', bound)).body.data).toEqual(data);
    await server.call('DELETE', `/applications/${free.id}`, { key: management });
    expect((await get('card-42', bound)).body.data).toEqual(data);
  });
});
