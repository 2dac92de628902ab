/** `containers` with one entry is a synonym for `container`. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('containers on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key } = await server.tenant();

  const create = (body: object) => server.call('POST', '/tokens', { key, body: { data: 'x', ...body } });
  const patch = (id: string, body: object, by = key) =>
    server.call('PATCH', `/tokens/${id}`, { key: by, body });

  test.each([
    [{ containers: ['/a/b/'] }, '/a/b/'],
    [{ containers: ['/a/b/'], container: null }, '/a/b/'],
    [{ containers: null, container: '/a/' }, '/a/'],
    [{ containers: ['A/b'], container: '/a/B/' }, '/a/B/'],
    [{ containers: null }, '/general/'],
  ])('%j is stored as container %s', async (body, container) => {
    const { status, body: token } = await create(body);
    expect([status, token.container]).toEqual([201, container]);
    expect(token).not.toHaveProperty('containers');
  });

  test.each([
    [{ containers: [] }, 'containers', 'must have exactly one entry'],
    [{ containers: ['/a/', '/b/'] }, 'containers', 'must have exactly one entry'],
    [{ containers: '/a/' }, 'containers', 'must be a list'],
    [{ containers: ['/a//b/'] }, 'containers.0', 'must be a path'],
    [{ containers: ['/a/'], container: '/b/' }, 'containers', 'must name the same container'],
  ])('%j is rejected, in a new token and in a patch', async (body, path, message) => {
    const { id } = (await create({ container: '/a/' })).body;
    for (const answer of [await create(body), await patch(id, body)]) {
      expect(answer.status).toBe(400);
      expect(answer.body.errors).toEqual({ [path]: [expect.stringContaining(message)] });
    }
  });

  test('a patch moves the token, with the same permission checks as container', async () => {
    const { id } = (await create({ container: '/a/' })).body;
    const rules = [{ priority: 1, container: '/a/', transform: 'reveal', permissions: ['token:update'] }];
    const limited = await server.application(key, { permissions: [], rules });
    expect((await patch(id, { containers: ['/b/'] }, limited.key)).status).toBe(403);
    expect((await patch(id, { containers: ['/a/c/'] }, limited.key)).body.container).toBe('/a/c/');
    expect((await patch(id, { containers: null })).body.container).toBe('/general/');
    expect((await patch(id, { metadata: { a: 'b' } })).body.container).toBe('/general/');
  });

  test('a rule decides about a new token by its containers', async () => {
    const rules = [{ priority: 1, container: '/a/', transform: 'reveal', permissions: ['token:create'] }];
    const limited = await server.application(key, { permissions: [], rules });
    const by = (containers: string[]) =>
      server.call('POST', '/tokens', { key: limited.key, body: { data: 'x', containers } });
    expect((await by(['/a/'])).status).toBe(201);
    expect((await by(['/b/'])).status).toBe(403);
  });
});
