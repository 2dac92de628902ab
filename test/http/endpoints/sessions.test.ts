import { describe, expect, test } from 'bun:test';
import { unknownKey } from '../../support/keys.ts';
import { type ApiResponse, databases, openTestServer } from '../../support/test-server.ts';

const reading = { permissions: ['application:read'] };
const day = 86_400_000;

describe.each(databases)('sessions on %s', async (_, database) => {
  const server = await openTestServer(database);

  const iso = (moment: number) => new Date(moment).toISOString();
  const start = (key: string) => server.call('POST', '/sessions', { key });
  const authorize = (key: string, nonce: unknown, grants: object = reading) =>
    server.call('POST', '/sessions/authorize', { key, body: { nonce, ...grants } });
  const me = async (key: string) => (await server.call('GET', '/applications/key', { key })).status;
  const outcome = ({ status, body }: ApiResponse) => [status, body.code];

  /** A tenant with a public application and a pending session. */
  async function scene(fields: object = {}) {
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['mine:x'], ...fields });
    const { body: session } = await start(web.key);
    return { key, web, session };
  }

  test('a public key creates a session without any permission, for three minutes', async () => {
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['mine:x'] });
    const { status, body } = await start(web.key);
    expect(status).toBe(201);
    expect(Object.keys(body).sort()).toEqual(['expires_at', 'nonce', 'session_key']);
    expect(body.session_key).toMatch(/^slp_ses_[0-9A-Za-z]{55}$/);
    expect(body.nonce).toMatch(/^slp_non_[0-9A-Za-z]{55}$/);
    expect(body.expires_at).toBe(iso(server.clock.now() + 180_000));
    expect((await start(web.key)).body.session_key).not.toBe(body.session_key);
  });

  test('other keys cannot create a session', async () => {
    const { key, session } = await scene();
    const backend = await server.application(key);
    for (const [other, owner] of [
      [key, 'management'],
      [backend.key, 'private'],
      [session.session_key, 'session'],
    ]) {
      const answer = await start(other);
      expect(outcome(answer)).toEqual([403, 'key_type_refused']);
      expect(answer.body.detail).toContain(owner);
    }
  });

  test('creating accepts no body, an empty one, or an empty object', async () => {
    const { web } = await scene();
    for (const body of [undefined, '', '{}'])
      expect((await server.call('POST', '/sessions', { key: web.key, body })).status).toBe(201);
    const answer = await server.call('POST', '/sessions', { key: web.key, body: { expires_at: 'x' } });
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, ['expires_at']]);
  });

  test('a pending session has no access, even if its application does', async () => {
    const { session, web } = await scene(reading);
    expect(await me(web.key)).toBe(200);
    for (const [method, path] of [
      ['GET', '/applications/key'],
      ['GET', '/applications'],
      ['GET', `/applications/${web.id}`],
      ['DELETE', `/applications/${web.id}`],
      ['POST', '/sessions'],
      ['POST', '/sessions/authorize'],
      ['GET', '/tokens'],
    ] as const) {
      expect((await server.call(method, path, { key: session.session_key })).status).toBe(403);
    }
  });

  test('authorizing returns 204, and the session has exactly the granted access', async () => {
    const { key, session } = await scene();
    const { status, body } = await authorize(key, session.nonce);
    expect([status, body]).toEqual([204, '']);
    expect(await me(session.session_key)).toBe(200);
    const list = await server.call('GET', '/tokens', { key: session.session_key });
    expect(outcome(list)).toEqual([403, 'permission_missing']);
  });

  test('a grant applies only to the session, not to its application or other sessions', async () => {
    const { key, web, session } = await scene();
    const other = (await start(web.key)).body;
    const before = (await server.call('GET', `/applications/${web.id}`, { key })).body;
    await authorize(key, session.nonce);
    expect((await server.call('GET', `/applications/${web.id}`, { key })).body).toEqual(before);
    expect(await me(web.key)).toBe(403);
    expect(await me(other.session_key)).toBe(403);
  });

  test('private and management keys can authorize; public and session keys cannot', async () => {
    const { key, web, session } = await scene();
    const backend = await server.application(key, { permissions: ['session:authorize'] });
    await authorize(key, session.nonce);
    const next = (await start(web.key)).body;
    for (const other of [web.key, session.session_key])
      expect(outcome(await authorize(other, next.nonce))).toEqual([403, 'key_type_refused']);
    expect((await authorize(backend.key, next.nonce)).status).toBe(204);
  });

  test('a used nonce is rejected, and the first grant stays', async () => {
    const { key, session } = await scene();
    await authorize(key, session.nonce);
    const again = await authorize(key, session.nonce, { permissions: ['token:read'] });
    expect(outcome(again)).toEqual([409, 'nonce_used']);
    const late = { ...reading, expires_at: iso(server.clock.now() + 400 * day) };
    expect(outcome(await authorize(key, session.nonce, late))).toEqual([409, 'nonce_used']);
    expect(await me(session.session_key)).toBe(200);
    expect((await server.call('GET', '/tokens', { key: session.session_key })).status).toBe(403);
  });

  test('an unknown nonce returns 404', async () => {
    const { key, web, session } = await scene();
    const unknown = unknownKey('non').secret.reveal();
    const junk = ['x', ' ', unknown.slice(0, -1), `${unknown}x`, 'n'.repeat(5000), '\u0000', '\ud800'];
    const others = [session.session_key, web.key, ` ${session.nonce}`, session.nonce.toLowerCase()];
    for (const nonce of [unknown, ...junk, ...others])
      expect(outcome(await authorize(key, nonce))).toEqual([404, 'nonce_not_found']);
    expect((await authorize(key, session.nonce)).status).toBe(204);
  });

  test('rules outside of the access of the authorizer are rejected, if there is no other grant', async () => {
    const { key, session } = await scene();
    const rule = { priority: 1, transform: 'mask', permissions: ['token:read'] };
    const container = (value: string) => [{ attribute: 'container', operator: 'starts_with', value }];
    const { key: backend } = await server.application(key, {
      permissions: [],
      rules: [{ ...rule, container: '/a/' }],
    });
    const grant = (...values: string[]) => ({
      rules: values.map((value) => ({ ...rule, conditions: container(value) })),
    });
    const refused = await authorize(backend, session.nonce, grant('/b/', '/c/'));
    expect([refused.status, Object.keys(refused.body.errors)]).toEqual([
      400,
      ['rules.0.conditions', 'rules.1.conditions'],
    ]);
    const delegated = await server.call('POST', '/delegations', { key: backend, body: grant('/b/') });
    expect(Object.keys(delegated.body.errors)).toEqual(['rules.0.conditions']);
    expect((await authorize(backend, session.nonce, grant('/b/', '/a/1/'))).status).toBe(204);
  });

  test('a key that is sent as a nonce is named by its kind', async () => {
    const { key, web, session } = await scene();
    const detail = async (nonce: string) => (await authorize(key, nonce)).body.detail;
    expect(await detail(session.session_key)).toMatch(/^This is the key of a session, not a nonce\./);
    expect(await detail(web.key)).toMatch(/^This is the key of an application, not a nonce\./);
    expect(await detail('slp_dlg_x')).toMatch(/^This is the key of a delegation, not a nonce\./);
    expect(await detail(unknownKey('non').secret.reveal())).toMatch(/^The nonce is unknown/);
  });

  test.each([undefined, null, '', 7, [['x']], {}])('a nonce of %j is rejected', async (nonce) => {
    const { key } = await server.tenant();
    const { status, body } = await authorize(key, nonce);
    expect([status, Object.keys(body.errors)]).toEqual([400, ['nonce']]);
  });

  test('a nonce of another tenant returns 404 and stays valid', async () => {
    const { key, session } = await scene();
    const stranger = await server.tenant();
    expect(outcome(await authorize(stranger.key, session.nonce))).toEqual([404, 'nonce_not_found']);
    expect((await authorize(key, session.nonce)).status).toBe(204);
    expect(outcome(await authorize(stranger.key, session.nonce))).toEqual([404, 'nonce_not_found']);
  });

  test('a nonce is not a key', async () => {
    const { session } = await scene();
    expect(await me(session.nonce)).toBe(401);
  });

  test('a rejected authorization does not use the nonce', async () => {
    const { key, session } = await scene();
    expect((await authorize(key, session.nonce, { permissions: [] })).status).toBe(400);
    expect((await authorize(key, session.nonce, { ...reading, colour: 1 })).status).toBe(400);
    expect((await authorize(key, session.nonce, { permissions: ['application:create'] })).status).toBe(400);
    const late = { ...reading, expires_at: iso(server.clock.now() + 400 * day) };
    expect((await authorize(key, session.nonce, late)).status).toBe(400);
    expect((await authorize(key, session.nonce)).status).toBe(204);
  });

  test('a session expires after three minutes to the millisecond, authorized or not', async () => {
    const { key, web, session } = await scene();
    await authorize(key, session.nonce);
    const idle = (await start(web.key)).body;
    server.clock.advance(179_999);
    expect(await me(session.session_key)).toBe(200);
    expect(await me(idle.session_key)).toBe(403);
    server.clock.advance(1);
    expect(await me(session.session_key)).toBe(401);
    expect(await me(idle.session_key)).toBe(401);
  });

  test('a session can be authorized until it expires', async () => {
    const { key, web, session } = await scene();
    const other = (await start(web.key)).body;
    server.clock.advance(179_999);
    expect((await authorize(key, session.nonce)).status).toBe(204);
    server.clock.advance(1);
    expect(outcome(await authorize(key, other.nonce))).toEqual([404, 'nonce_not_found']);
    expect(outcome(await authorize(key, session.nonce))).toEqual([404, 'nonce_not_found']);
  });

  test.each([
    ['shorten', 1000],
    ['lengthen', 3_600_000],
    ['stretch to the longest lifetime', 7 * day],
  ])('authorizing can %s the lifetime', async (_what, lifetime) => {
    const { key, session } = await scene();
    const expires_at = iso(server.clock.now() + lifetime);
    expect((await authorize(key, session.nonce, { ...reading, expires_at })).status).toBe(204);
    server.clock.advance(lifetime - 1);
    expect(await me(session.session_key)).toBe(200);
    server.clock.advance(1);
    expect(await me(session.session_key)).toBe(401);
  });

  test.each([
    ['default', undefined],
    ['shorter', 1000],
    ['longer', 3_600_000],
  ])(
    'the response says which session was authorized until when, also a replay: %s expiry',
    async (_what, lifetime) => {
      const { key, web, session } = await scene();
      const now = server.clock.now();
      const body = {
        nonce: session.nonce,
        ...reading,
        ...(lifetime !== undefined && { expires_at: iso(now + lifetime) }),
      };
      const { data } = (await server.call('GET', `/sessions?application_id=${web.id}`, { key })).body;
      const expected = { id: data[0].id, expiresAt: iso(now + (lifetime ?? 180_000)) };
      for (const replayed of [null, 'true']) {
        const { status, headers } = await server.call('POST', '/sessions/authorize', {
          key,
          body,
          headers: { 'Idempotency-Key': 'authorize' },
        });
        const named = { id: headers.get('svc-session-id'), expiresAt: headers.get('svc-session-expires-at') };
        expect([status, headers.get('idempotency-replayed'), named]).toEqual([204, replayed, expected]);
      }
    },
  );

  test.each([
    { first: 'the application of the session', unlimited: false, ends: 1000 },
    { first: 'the authorizer', unlimited: false, ends: 1000 },
    { first: 'the key of the authorizer', unlimited: false, ends: 1000 },
    { first: 'the authorizer', unlimited: true, ends: 180_000 },
    { first: 'the key of the authorizer', unlimited: true, ends: 180_000 },
  ])(
    'the response and the list say when the session ends, if $first expires first (unlimited: $unlimited)',
    async (one) => {
      const { key, web, session } = await scene();
      const permissions = one.unlimited ? ['session:authorize'] : ['mine:x'];
      const backend = await server.application(key, { name: 'backend', permissions });
      const soon = iso(server.clock.now() + 1000);
      const expire = ({ id }: { id: string }, body: object) =>
        server.call('PUT', `/applications/${id}`, { key, body: { ...body, expires_at: soon } });
      if (one.first === 'the authorizer') await expire(backend, { name: 'backend', permissions });
      else if (one.first === 'the key of the authorizer')
        await server.call('POST', `/applications/${backend.id}/keys`, {
          key,
          body: { old_keys_expire_at: soon },
        });
      else await expire(web, { name: 'web', permissions: ['mine:x'] });
      const { status, headers } = await authorize(backend.key, session.nonce, { permissions: ['mine:x'] });
      const end = iso(server.clock.now() + one.ends);
      expect([status, headers.get('svc-session-expires-at')]).toEqual([204, end]);
      const listed = await server.call('GET', `/sessions?application_id=${web.id}`, { key });
      expect(listed.body.data).toMatchObject([{ expires_at: end }]);
      server.clock.advance(one.ends - 1);
      expect(await me(session.session_key)).toBe(403);
      server.clock.advance(1);
      expect(await me(session.session_key)).toBe(401);
    },
  );

  test('a null expires_at does not change the lifetime', async () => {
    const { key, session } = await scene();
    await authorize(key, session.nonce, { ...reading, expires_at: null });
    server.clock.advance(180_000);
    expect(await me(session.session_key)).toBe(401);
  });

  test('expires_at must be in the future and within the maximum lifetime', async () => {
    const { key, session } = await scene();
    const created = server.clock.now();
    server.clock.advance(1000);
    for (const end of [created, created + 1000, created + 7 * day + 1]) {
      const answer = await authorize(key, session.nonce, { ...reading, expires_at: iso(end) });
      expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, ['expires_at']]);
    }
    const longest = { ...reading, expires_at: iso(created + 7 * day) };
    expect((await authorize(key, session.nonce, longest)).status).toBe(204);
  });

  test('a session expires with its application at the latest', async () => {
    const end = server.clock.now() + 60_000;
    const { key, session } = await scene({ expires_at: iso(end) });
    expect(session.expires_at).toBe(iso(end));
    const late = await authorize(key, session.nonce, { ...reading, expires_at: iso(end + 1) });
    expect([late.status, Object.keys(late.body.errors)]).toEqual([400, ['expires_at']]);
    expect(late.body.errors.expires_at[0]).toContain(iso(end));
    await authorize(key, session.nonce, { ...reading, expires_at: iso(end) });
    server.clock.advance(59_999);
    expect(await me(session.session_key)).toBe(200);
    server.clock.advance(1);
    expect(await me(session.session_key)).toBe(401);
  });

  test('deleting the application revokes the session and its nonce', async () => {
    const { key, web, session } = await scene();
    await authorize(key, session.nonce);
    const idle = (await start(web.key)).body;
    await server.call('DELETE', `/applications/${web.id}`, { key });
    expect(await me(session.session_key)).toBe(401);
    expect(await me(idle.session_key)).toBe(401);
    expect(outcome(await authorize(key, idle.nonce))).toEqual([404, 'nonce_not_found']);
  });

  test('a session survives a new key and a new name of its application', async () => {
    const { key, web, session } = await scene();
    await authorize(key, session.nonce);
    await server.call('POST', `/applications/${web.id}/regenerate`, { key });
    await server.call('PUT', `/applications/${web.id}`, {
      key,
      body: { name: 'y', permissions: ['mine:y'] },
    });
    expect(await me(session.session_key)).toBe(200);
  });

  test('the lifetimes are configurable', async () => {
    const env = { SALLYPORT_SESSION_TTL: '5', SALLYPORT_SESSION_TTL_MAX: '10' };
    const other = await openTestServer(database, env);
    try {
      const { key } = await other.tenant();
      const web = await other.application(key, { type: 'public' });
      const { body } = await other.call('POST', '/sessions', { key: web.key });
      expect(body.expires_at).toBe(iso(other.clock.now() + 5000));
      for (const [lifetime, status] of [
        [10_001, 400],
        [10_000, 204],
      ] as const) {
        const grant = { nonce: body.nonce, ...reading, expires_at: iso(other.clock.now() + lifetime) };
        expect((await other.call('POST', '/sessions/authorize', { key, body: grant })).status).toBe(status);
      }
    } finally {
      await other.close();
    }
  });
});
