/** A replayed response does not contain data that its caller can no longer see. */
import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import { type ChangeRoute, takesIdempotencyKey } from '../../../src/http/pipeline/route.ts';
import { routes } from '../../../src/http/routes.ts';
import { databases, manyConnections, openTestServer } from '../../support/test-server.ts';

const data = { number: '4242424242424242', name: 'Ada' };
const rule = (transform: string, container = '/pci/') => ({
  priority: 1,
  container,
  transform,
  permissions: ['token:create', 'token:update'],
});

describe.each(databases)('a retry with an Idempotency-Key on %s', async (_, database) => {
  const server = await openTestServer(database, manyConnections);

  async function backend(transform: string) {
    const { key: management } = await server.tenant();
    const { id, key } = await server.application(management, { permissions: [], rules: [rule(transform)] });
    const narrow = async (...rules: object[]) =>
      expect(
        await server.call('PUT', `/applications/${id}`, { key: management, body: { name: 'x', rules } }),
      ).toMatchObject({ status: 200 });
    const body = { id: 'card-1', container: '/pci/', data };
    await server.call('POST', '/tokens', { key: management, body });
    return { management, id, key, narrow };
  }

  const rename = (key: string) =>
    server.call('PATCH', '/tokens/card-1', {
      key,
      body: { data: { name: 'Eve' } },
      headers: { 'Idempotency-Key': 'rename' },
    });

  test('gets the same response if the grants are unchanged', async () => {
    const { key } = await backend('reveal');
    const first = await rename(key);
    expect(first.body.data).toEqual({ ...data, name: 'Eve' });
    const again = await rename(key);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
  });

  test.each<[string, object]>([
    ['sees less', rule('redact')],
    ['sees another container', rule('reveal', '/other/')],
  ])('is rejected if the key %s', async (_, narrower) => {
    const { key, narrow } = await backend('reveal');
    expect((await rename(key)).body.data).toBeDefined();
    await narrow(narrower);
    const again = await rename(key);
    expect(again).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
    expect(JSON.stringify(again.body)).not.toContain(data.number);
  });

  test('is rejected for a session whose authorizer lost access', async () => {
    const { management, key, narrow } = await backend('reveal');
    const web = await server.application(management, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const conditions = [{ attribute: 'id', operator: 'equals', value: 'card-1' }];
    const { container: _, ...ruled } = { ...rule('reveal'), conditions };
    const grant = { nonce: body.nonce, rules: [ruled] };
    expect((await server.call('POST', '/sessions/authorize', { key, body: grant })).status).toBe(204);
    expect((await rename(body.session_key)).body.data).toBeDefined();
    await narrow(rule('redact'));
    const again = await rename(body.session_key);
    expect(again.status).toBe(422);
    expect(JSON.stringify(again.body)).not.toContain(data.number);
  });

  const create = (key: string, more = {}) =>
    server.call('POST', '/tokens', {
      key,
      body: { id: 'card-2', container: '/pci/', data, ...more },
      headers: { 'Idempotency-Key': 'create' },
    });

  test.each<[string, (key: string) => Promise<unknown>]>([
    ['deleted', (key) => server.call('DELETE', '/tokens/card-2', { key })],
    ['moved', (key) => server.call('PATCH', '/tokens/card-2', { key, body: { container: '/x/' } })],
    ['changed', (key) => server.call('PATCH', '/tokens/card-2', { key, body: { data: 'Eve' } })],
    [
      'deleted and created again',
      async (key) => {
        await server.call('DELETE', '/tokens/card-2', { key });
        await server.call('POST', '/tokens', {
          key,
          body: { id: 'card-2', container: '/pci/', data: 'new' },
        });
      },
    ],
  ])('is rejected with the id of the token if it was %s', async (_, change) => {
    const { key, management } = await backend('reveal');
    const first = await create(key);
    expect((await create(key)).body).toEqual(first.body);
    await change(management);
    const { status, body } = await create(key);
    expect([status, body.code]).toEqual([409, 'idempotency_outdated']);
    expect(body.detail).toContain('The token card-2 was changed again or deleted');
    expect(JSON.stringify(body)).not.toContain(data.number);
  });

  test('is rejected if the token has expired', async () => {
    const { key } = await backend('reveal');
    const first = await create(key, { expires_at: new Date(server.clock.now() + 1000).toISOString() });
    const again = () => create(key, { expires_at: first.body.expires_at });
    expect((await again()).body).toEqual(first.body);
    server.clock.advance(1000);
    expect(await again()).toMatchObject({ status: 409, body: { code: 'idempotency_outdated' } });
  });

  test('shows no more than the first response if it moved the token to where the key sees more', async () => {
    const { key: management } = await server.tenant();
    const hidden = { ...rule('redact'), priority: 1 };
    const { key } = await server.application(management, {
      permissions: [],
      rules: [hidden, { ...rule('reveal', '/open/'), priority: 2 }],
    });
    await server.call('POST', '/tokens', { key: management, body: { id: 'note', container: '/pci/', data } });
    const move = () =>
      server.call('PATCH', '/tokens/note', {
        key,
        body: { container: '/open/', data: 'new' },
        headers: { 'Idempotency-Key': 'move' },
      });
    const first = await move();
    expect([first.status, first.body.data]).toEqual([200, undefined]);
    expect((await move()).body).toEqual(first.body);
  });

  test('gets a key only with the API key that asked for it', async () => {
    const { key } = await server.tenant();
    const { id } = (await server.call('GET', '/applications/key', { key })).body;
    const other = (await server.call('POST', `/applications/${id}/keys`, { key })).body.key;
    const body = { name: 'reader', type: 'private', permissions: ['log:read'] };
    const options = { body, headers: { 'Idempotency-Key': 'make' } };
    const made = await server.call('POST', '/applications', { key, ...options });
    expect((await server.call('POST', '/applications', { key, ...options })).body).toEqual(made.body);
    const stolen = await server.call('POST', '/applications', { key: other, ...options });
    expect([stolen.status, stolen.body.code]).toEqual([422, 'idempotency_mismatch']);
    // A request without a secret is repeated with a new key after a rotation.
    const token = { body: { id: 'card-2', data }, headers: { 'Idempotency-Key': 'store' } };
    for (const each of [key, other])
      expect((await server.call('POST', '/tokens', { key: each, ...token })).status).toBe(201);
  });

  test('gets a key only with the API key that asked for it, at every route that returns one', () => {
    const secrets = ['key', 'session_key', 'nonce', 'access_token'];
    const returning = routes.filter(
      (route): route is ChangeRoute =>
        takesIdempotencyKey(route) &&
        Object.values(route.replies).some(
          ({ schema }) => schema instanceof z.ZodObject && secrets.some((name) => name in schema.shape),
        ),
    );
    expect(returning.length).toBeGreaterThan(3);
    expect(returning.filter((route) => route.retries !== 'same key').map(({ name }) => name)).toEqual([]);
  });

  test('is one only with an equal body, where browsers share a public key', async () => {
    const { key: management } = await server.tenant();
    const web = { type: 'public', permissions: ['token:create'] };
    const { key } = await server.application(management, web);
    const store = (value: string) => {
      const headers = { 'Idempotency-Key': 'checkout' };
      return server.call('POST', '/tokens', { key, body: { data: value }, headers });
    };
    const [one, again, other] = [await store('a'), await store('a'), await store('b')];
    expect([one, again, other].map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(again.body.id).toBe(one.body.id);
    expect(other.body.id).not.toBe(one.body.id);
  });

  test('gets no key that the caller could no longer create', async () => {
    const { key: management } = await server.tenant();
    const maker = await server.application(management, {
      type: 'management',
      permissions: ['application:create', 'log:read'],
    });
    const make = () =>
      server.call('POST', '/applications', {
        key: maker.key,
        body: { name: 'reader', type: 'private', permissions: ['log:read'] },
        headers: { 'Idempotency-Key': 'make' },
      });
    const created = await make();
    expect(created.status).toBe(201);
    const body = { name: 'maker', permissions: ['application:create'] };
    expect((await server.call('PUT', `/applications/${maker.id}`, { key: management, body })).status).toBe(
      200,
    );
    const again = await make();
    expect(again.status).toBe(422);
    expect(JSON.stringify(again.body)).not.toContain(created.body.key);
  });

  test('gets the response even if the request changed its own grants', async () => {
    const { key: management } = await server.tenant();
    const own = await server.application(management, {
      type: 'management',
      permissions: ['application:update', 'application:read'],
    });
    const narrow = () =>
      server.call('PUT', `/applications/${own.id}`, {
        key: own.key,
        body: { name: 'own', permissions: ['application:update'] },
        headers: { 'Idempotency-Key': 'narrow' },
      });
    const first = await narrow();
    expect(first.status).toBe(200);
    expect(await narrow()).toMatchObject({ status: 200, body: first.body });
  });

  const regenerate = (key: string, path: string) =>
    server.call('POST', path, { key, headers: { 'Idempotency-Key': 'again' } });

  test('gets the response with any spelling of the path', async () => {
    const { key } = await server.tenant();
    const { id } = await server.application(key);
    const first = await regenerate(key, `/applications/${id}/regenerate`);
    expect(first.status).toBe(200);
    for (const path of [`/applications/${id}/regenerate/`, `/applications/${id.toUpperCase()}/regenerate`]) {
      const again = await regenerate(key, path);
      expect(again).toMatchObject({ status: 200, body: first.body });
      expect(again.headers.get('idempotency-replayed')).toBe('true');
    }
  });

  test('is rejected for another resource or operation', async () => {
    const { key } = await server.tenant();
    const [one, other] = [await server.application(key), await server.application(key)];
    expect((await regenerate(key, `/applications/${one.id}/regenerate`)).status).toBe(200);
    for (const path of [`/applications/${other.id}/regenerate`, `/applications/${one.id}/keys`]) {
      const { status, body } = await regenerate(key, path);
      expect([status, body.code]).toEqual([422, 'idempotency_mismatch']);
    }
  });

  test('is matched per caller', async () => {
    const { key: management } = await server.tenant();
    const web = await server.application(management, { type: 'public' });
    const session = async () => {
      const { body } = await server.call('POST', '/sessions', { key: web.key });
      const grant = { nonce: body.nonce, permissions: ['token:create'] };
      await server.call('POST', '/sessions/authorize', { key: management, body: grant });
      return body.session_key as string;
    };
    const backend = async (key: string) =>
      (await server.application(key, { permissions: ['token:create'] })).key as string;
    const stranger = (await server.tenant()).key;
    const callers = [
      ...[await backend(management), await backend(management), await backend(stranger)],
      ...[await session(), await session()],
    ];
    const ids = new Set<string>();
    for (const key of callers) {
      const create = () =>
        server.call('POST', '/tokens', { key, body: { data }, headers: { 'Idempotency-Key': 'mine' } });
      const first = await create();
      expect(first.status).toBe(201);
      expect((await create()).body.id).toBe(first.body.id);
      ids.add(first.body.id);
    }
    expect(ids.size).toBe(callers.length);
  });
});
