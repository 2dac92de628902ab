import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { formType } from '../../../src/http/pipeline/read-input.ts';
import { routes } from '../../../src/http/routes.ts';
import { dumpDatabase, hideTable } from '../../support/database.ts';
import { tokenExchange } from '../../support/issuer.ts';
import { routeCaller, type Tenant } from '../../support/route-access.ts';
import { type CallOptions, databases, openTestServer, sqlite } from '../../support/test-server.ts';

const tokenEndpoint = '/oauth/token';

const plaintext = 'plaintext-of-a-token-4242';
const everyForm = (secret: string) => [
  secret,
  Buffer.from(secret).toString('hex'),
  Buffer.from(secret).toString('base64').replaceAll('=', '').slice(0, -2),
  Buffer.from(secret, 'utf8').toString('utf16le'),
];

describe.each(databases)('secrets on %s', async (_, database) => {
  const server = await openTestServer(database);
  /** Every issued key and nonce. */
  const issued = new Set<string>();
  /** Headers and body of every response, without the secrets that it issues. */
  const answers: string[] = [];
  /** Routes whose request failed. */
  const failed: string[] = [];
  issued.add(readFileSync(server.config.managementKeyFile, 'utf8').trim());
  const tenant = await server.tenant();
  issued.add(tenant.key);
  await everyRoute(tenant);
  await everyOtherUse(tenant);
  await server.flush();

  async function call(method: string, path: string, { key, body }: CallOptions = {}) {
    const response = await fetch(server.url + path, {
      method,
      headers: {
        'Content-Type': path === tokenEndpoint ? formType : 'application/json',
        ...(key !== undefined && { 'SVC-API-KEY': key, 'SVC-REQUEST-ID': key, 'User-Agent': `${key}/1.0` }),
        ...(key !== undefined && method !== 'GET' && { 'Idempotency-Key': `${key}-${answers.length}` }),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const answer = text.startsWith('{') ? JSON.parse(text) : {};
    const news = [answer.key, answer.session_key, answer.nonce].filter((secret) => secret !== undefined);
    for (const secret of news) issued.add(secret);
    const rest = news.reduce((all, secret) => all.replace(secret, ''), text);
    answers.push(`${JSON.stringify([...response.headers])}\n${rest}`);
    return { status: response.status, body: answer };
  }

  async function everyRoute(tenant: Tenant): Promise<void> {
    const { prepare } = routeCaller(call, { data: plaintext, mask: 'masked' });
    for (const route of routes) {
      // Only a JWT of an issuer is accepted there. `everyFailure` sends it secrets.
      if (route.path === tokenEndpoint) continue;
      const { path, ...options } = await prepare(route, tenant);
      const { status, body } = await call(route.method, path, options);
      if (status >= 300) failed.push(`${route.method} ${path}: ${status} ${JSON.stringify(body)}`);
    }
  }

  /** Requests with a session, about a credential, without a change, and those that fail. */
  async function everyOtherUse({ key }: Tenant): Promise<void> {
    const grants = { permissions: ['application:read', 'token:read', 'token:create'] };
    const make = (type: string) =>
      call('POST', '/applications', { key, body: { name: 'x', type, ...grants } });
    const { body: backend } = await make('private');
    const { body: web } = await make('public');
    const one = `/applications/${backend.id}`;
    await call('PUT', `${one}?dry_run=true`, { key, body: { name: 'y', permissions: ['token:read'] } });
    await call('POST', `${one}/regenerate`, { key });
    const { body: session } = await call('POST', '/sessions', { key: web.key });
    await call('POST', '/sessions/authorize', { key, body: { nonce: session.nonce, ...grants } });
    const { body: token } = await call('POST', '/tokens', { key, body: { data: plaintext, mask: 'masked' } });
    await call('GET', '/tokens', { key: session.session_key });
    await call('GET', `/tokens/${token.id}`, { key: session.session_key });
    await call('POST', '/decisions', { key, body: { credential: web.key, permission: 'token:read' } });
    const subject = { type: 'user', id: 'y', properties: { credential: web.key } };
    const evaluation = { subject, action: { name: 'read' }, resource: { type: 'token', id: token.id } };
    for (const end of ['evaluation', 'evaluations', 'search/subject', 'search/resource', 'search/action'])
      await call('POST', `/access/v1/${end}`, { key, body: evaluation });
    await everyFailure(key, backend.key, session);
  }

  /** Sends requests that fail, with secrets in every field where a caller may put them by mistake. */
  async function everyFailure(key: string, old: string, session: { session_key: string; nonce: string }) {
    const secrets = [key, old, session.session_key, session.nonce];
    for (const secret of secrets) {
      await call('GET', `/applications/${secret}`, { key });
      await call('GET', `/tokens?${secret}=1`, { key });
      await call('GET', `/applications?id=${secret}&type=${secret}&start=${secret}`, { key });
      await call('GET', `/${secret}`, { key: secret });
      const form = { ...tokenExchange, client_id: secret, subject_token: secret, [secret]: secret };
      await call('POST', tokenEndpoint, { key: secret, body: new URLSearchParams(form).toString() });
      await call('GET', '/applications', { key: old });
      await call('GET', '/applications', { key: session.nonce });
      await call('DELETE', '/applications/key', { key: secret });
      await call('POST', '/applications', {
        key,
        body: { type: secret, permissions: [secret], [secret]: 1 },
      });
      await call('POST', '/applications', { key, body: `{"${secret}"` });
      await call('POST', '/sessions', { key: secret, body: { [secret]: secret } });
      await call('POST', '/sessions/authorize', { key: secret, body: { nonce: secret } });
      await call('POST', '/sessions/authorize', { key, body: { nonce: secret, permissions: ['mine:x'] } });
      await call('POST', '/sessions/authorize', { key, body: { nonce: [secret], expires_at: secret } });
      await call('POST', '/tokens', { key, body: { id: `!${secret}`, data: secret, mask: `{{ ${secret}` } });
      await call('POST', '/decisions', { key, body: { credential: secret, permission: secret } });
    }
  }

  function expectNoneIn(text: string): void {
    for (const secret of [...issued, plaintext])
      for (const form of everyForm(secret)) expect(text.includes(form)).toBe(false);
  }

  test('are sent to every route', () => {
    expect(failed).toEqual([]);
    expect(issued.size).toBeGreaterThan(6);
  });

  test('are only in the response that issues them', () => {
    expectNoneIn(answers.join('\n'));
  });

  test('are not in the database', async () => {
    const stored = await dumpDatabase(server.config.databaseUrl);
    expect(stored).toContain('first management key');
    expectNoneIn(stored);
  });

  test('are not in the log, even if the database fails', async () => {
    await hideTable(server.config.databaseUrl, 'sessions');
    await hideTable(server.config.databaseUrl, 'application_keys');
    for (const key of issued) {
      // The log has one line for repeated failures within a second.
      server.clock.advance(1000);
      const { status, body } = await call('GET', `/applications/${key}`, { key });
      expect([401, 500]).toContain(status);
      if (status === 500) expect(body.detail).not.toContain('application_keys');
    }
    const failed = server.logged.filter((line) => line.includes('request failed'));
    expect(failed.length).toBeGreaterThan(4);
    expectNoneIn(server.logged.join('\n'));
    expectNoneIn(answers.join('\n'));
  });
});

describe('a key in the wrong field', async () => {
  const server = await openTestServer(sqlite, { SALLYPORT_LOG_LEVEL: 'debug' });
  const key = (await server.tenant()).key;

  const withoutPrefix = (secret: string) => secret.slice('slp_xyz_'.length);
  const grants = { type: 'private', permissions: ['token:read'] };
  const rule = { priority: 1, container: '/', transform: 'mask', permissions: ['token:read'] };

  test.each<[field: string, path: string, body: (secret: string) => object]>([
    ['name', '/applications', (name) => ({ name, ...grants })],
    [
      'rules.0.description',
      '/applications',
      (description) => ({ ...grants, name: 'x', rules: [{ ...rule, description }] }),
    ],
    ['id', '/tokens', (id) => ({ id, data: 1 })],
    ['container', '/tokens', (secret) => ({ container: `/${secret}/`, data: 1 })],
    ['metadata.note', '/tokens', (note) => ({ metadata: { note }, data: 1 })],
  ])('is rejected as %s, which is not encrypted', async (field, path, body) => {
    for (const secret of [key, withoutPrefix(key)]) {
      const { status, body: problem } = await server.call('POST', path, { key, body: body(secret) });
      expect(status).toBe(400);
      expect(problem.errors[field]).toContain(
        'must not contain a key or a nonce, because it is stored unencrypted',
      );
    }
  });

  test('is rejected as the purpose and replaced as the request id, also without its prefix', async () => {
    for (const secret of [key, withoutPrefix(key), `for-${withoutPrefix(key)}`]) {
      const purpose = await server.call('GET', '/tokens', { key, headers: { 'SVC-PURPOSE': secret } });
      expect([purpose.status, Object.keys(purpose.body.errors)]).toEqual([400, ['svc-purpose']]);
      const { headers } = await server.call('GET', '/tokens', { key, headers: { 'SVC-REQUEST-ID': secret } });
      expect(headers.get('svc-request-id')).not.toContain(withoutPrefix(key));
    }
  });

  test('is redacted from the path in responses and in the log, in any encoding', async () => {
    const written = [key.replaceAll('_', '%5F'), key.replace('s', '%73'), encodeURIComponent(key)];
    for (const part of written) {
      for (const path of [`/applications/${part}`, `/${part}`]) {
        const text = await (await fetch(server.url + path, { headers: { 'SVC-API-KEY': key } })).text();
        expect(JSON.parse(text).instance).toContain('[secret]');
        expect(text).not.toContain(key.slice(10));
      }
    }
    expect(server.logged.join('\n')).not.toContain(key.slice(10));
  });
});
