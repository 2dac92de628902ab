import { beforeEach, describe, expect, test } from 'bun:test';
import { type ApiShell, apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

describe('sessions', async () => {
  const server = await openTestServer(sqlite);
  let key: string;
  let call: ApiShell['call'];
  let json: ApiShell['json'];
  let page: { id: string; key: string };
  beforeEach(async () => {
    ({ key } = await server.tenant());
    ({ call, json } = apiShell(server.url, key));
    page = await server.application(key, { name: 'page', type: 'public', permissions: ['token:create'] });
  });

  const create = () => json(['sessions', 'create'], { env: { SALLYPORT_KEY: page.key } });
  const mayList = async (session: { session_key: string }) =>
    (await server.call('GET', '/tokens', { key: session.session_key })).status;

  test('are created with a public key and authorized by a nonce from standard input, environment or file', async () => {
    const first = await create();
    expect(await mayList(first)).toBe(403);
    const authorize = ['sessions', 'authorize', '--permission', 'token:read'];
    expect(await json(authorize, { stdin: first.nonce })).toEqual({
      authorized: true,
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      expires_at: first.expires_at,
    });
    expect(await mayList(first)).toBe(200);
    const again = await call(authorize, { stdin: first.nonce });
    expect([again.code, again.out, again.err]).toEqual([4, '', expect.stringContaining('nonce_used')]);

    const second = await create();
    await json(authorize, { env: { SALLYPORT_NONCE: second.nonce } });
    expect(await mayList(second)).toBe(200);

    const third = await create();
    const own = { attribute: 'id', operator: 'equals', value: 'card-1' };
    const rules = [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions: [own] }];
    const grant = JSON.stringify({ nonce: third.nonce, rules });
    await json(['sessions', 'authorize', '--file', '-'], { stdin: grant });
    expect(await mayList(third)).toBe(200);
  });

  test('cannot be authorized without a nonce', async () => {
    const onTerminal = await call(['sessions', 'authorize'], { answers: [] });
    expect([onTerminal.code, onTerminal.err]).toEqual([
      2,
      'sallyport: error: no nonce was given\n' +
        'sallyport: hint: set SALLYPORT_NONCE, or pipe the nonce to standard input\n',
    ]);
    expect((await call(['sessions', 'authorize'])).err).toContain('the nonce on standard input is empty');
  });

  test('are listed with their state and names, or ids without application:read, and can be filtered', async () => {
    const other = await server.application(key, { name: 'kiosk', type: 'public' });
    await server.call('POST', '/sessions', { key: other.key });
    const { nonce } = await create();
    await call(['sessions', 'authorize', '--permission', 'token:read', '--subject', 'user:42'], {
      stdin: nonce,
    });
    const of = async (...options: string[]) =>
      ((await json(['sessions', 'list', ...options])) as { application_id: string }[]).map(
        ({ application_id }) => application_id,
      );
    expect(await of()).toEqual([page.id, other.id]);
    expect(await of('--state', 'pending')).toEqual([other.id]);
    expect(await of('--app', 'page')).toEqual([page.id]);
    expect(await of('--subject', 'user:42')).toEqual([page.id]);
    expect(await of('--subject', 'user:4')).toEqual([]);
    expect(await of('--authorized-by', other.id)).toEqual([]);
    const table = (await call(['sessions', 'list'])).out.split('\n');
    expect(table[0]).toMatch(
      /^ID +KIND +STATE +SUBJECT +GRANTS +BOUND +APPLICATION +AUTHORIZED BY +EXPIRES$/,
    );
    expect(table[1]).toMatch(
      /^[0-9a-f-]{36} {2}session {2}active {3}user:42 {2}token:read {2}no {5}page {9}.* management key {2}2/,
    );
    expect(table[2]).toMatch(/^[0-9a-f-]{36} {2}session {2}pending {14,}no {5}kiosk {20,}2/);
    const auditor = await server.application(key, { permissions: ['session:read'] });
    const ids = (await call(['sessions', 'list'], { env: { SALLYPORT_KEY: auditor.key } })).out.split('\n');
    expect(ids[1]).toMatch(
      new RegExp(
        `^[0-9a-f-]{36}  session  active {3}user:42  token:read  no {5}${page.id}  [0-9a-f-]{36}  2`,
      ),
    );
    expect(ids[2]).toMatch(new RegExp(`^[0-9a-f-]{36}  session  pending {14,}no {5}${other.id}  {30,}`));
  });

  test('are ended after a confirmation, and their key is revoked', async () => {
    const session = await create();
    await call(['sessions', 'authorize', '--permission', 'token:read'], { stdin: session.nonce });
    const [{ id }] = await json(['sessions', 'list']);
    expect((await call(['sessions', 'end', id], { answers: ['n'] })).code).toBe(1);
    expect((await call(['sessions', 'end', id])).code).toBe(2);
    expect(await mayList(session)).toBe(200);
    expect(await json(['sessions', 'end', id, '--yes'])).toEqual({ ended: id });
    expect(await mayList(session)).toBe(401);
    expect((await call(['sessions', 'end', id, '--yes'])).code).toBe(4);
  });

  test('of one subject are ended together', async () => {
    const session = await create();
    const authorize = ['sessions', 'authorize', '--permission', 'token:read', '--subject', 'user:42'];
    await call(authorize, { stdin: session.nonce });
    const end = ['sessions', 'end', '--subject', 'user:42'];
    expect((await call(end, { answers: ['n'] })).code).toBe(1);
    for (const wrong of [
      ['sessions', 'end', '--yes'],
      [...end, crypto.randomUUID(), '--yes'],
    ])
      expect((await call(wrong)).code).toBe(2);
    expect(await mayList(session)).toBe(200);
    expect(await json([...end, '--yes'])).toEqual({ ended: { subject: 'user:42' } });
    expect(await mayList(session)).toBe(401);
  });

  test('quarantine and release change what the session can do', async () => {
    const session = await create();
    await json(['sessions', 'authorize', '--permission', 'token:create'], { stdin: session.nonce });
    const [{ id }] = await json(['sessions', 'list']);
    const token = { key: session.session_key, body: { data: 'x' } };
    expect((await call(['sessions', 'quarantine', id, '--yes'])).out).toMatch(
      /^session \S+ is in quarantine since 2026-\S+Z\n$/,
    );
    expect((await server.call('POST', '/tokens', token)).body.code).toBe('quarantined');
    expect((await call(['sessions', 'list'])).out).toContain('active, in quarantine');
    expect(await json(['sessions', 'release', id])).toEqual({ released: id });
    expect((await server.call('POST', '/tokens', token)).status).toBe(201);
  });
});
