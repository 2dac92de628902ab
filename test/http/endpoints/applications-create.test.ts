import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const fields = { name: 'backend', type: 'private', permissions: ['token:read'] };
const grinning = '😀';

const pastMoments = ['2026-11-15T11:59:59.999Z', '2026-11-15T12:00:00.000Z', '2026-11-15T17:30:00+05:30'];

describe.each(databases)('creating an application on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  const create = (given: Record<string, unknown>) =>
    server.call('POST', '/applications', { key, body: { ...fields, ...given } });

  test('returns the application with its key, and no other fields', async () => {
    const tenant = await server.tenant();
    const me = (await server.call('GET', '/applications/key', { key: tenant.key })).body;
    const { status, body } = await server.call('POST', '/applications', { key: tenant.key, body: fields });
    expect(status).toBe(201);
    const { id, key: secret, ...rest } = body;
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(secret).toMatch(/^slp_pvt_[0-9A-Za-z]{55}$/);
    expect(rest).toEqual({
      tenant_id: tenant.id,
      ...fields,
      rules: [],
      created_by: me.id,
      created_at: new Date(server.clock.now()).toISOString(),
    });
  });

  test.each([
    ['private', /^slp_pvt_/],
    ['public', /^slp_pub_/],
    ['management', /^slp_mgt_/],
  ])('a %s application gets a key of its kind', async (type, shape) => {
    const { status, body } = await create({ type });
    expect(status).toBe(201);
    expect(body.key).toMatch(shape);
    expect(body.type).toBe(type);
  });

  test.each([
    ['of one character', 'x'],
    ['of 200 characters', 'a'.repeat(200)],
    ['of 200 characters outside the basic plane', grinning.repeat(200)],
    ['with spaces at its ends', '  kept  '],
    ['in any script', 'Ключ 鍵 مفتاح'],
    ['that looks like SQL', "'; drop table applications; --"],
    ['that looks like a template', '{{ name }} <b>&amp;</b>'],
  ])('a name %s is stored unchanged', async (_what, name) => {
    const { status, body } = await create({ name });
    expect(status).toBe(201);
    const { body: got } = await server.call('GET', `/applications/${body.id}`, { key });
    expect(got.name).toBe(name);
  });

  test.each(pastMoments)(
    'the expires_at %s is rejected, because it is not in the future',
    async (expires_at) => {
      const { status, body } = await create({ expires_at });
      expect([status, Object.keys(body.errors)]).toEqual([400, ['expires_at']]);
    },
  );

  test('all errors of a request are reported together', async () => {
    const { body } = await create({ name: '', type: 'x', colour: 1 });
    expect(Object.keys(body.errors).sort()).toEqual(['colour', 'name', 'type']);
  });

  test('an expires_at of the next millisecond is in the future', async () => {
    const expires_at = new Date(server.clock.now() + 1).toISOString();
    expect(await create({ expires_at })).toMatchObject({ status: 201, body: { expires_at } });
  });

  test('null in an optional field means absent', async () => {
    const { body } = await create({ rules: null, expires_at: null });
    expect(body.rules).toEqual([]);
    expect(body).not.toHaveProperty('expires_at');
  });

  test('a missing field is reported as required', async () => {
    const { body } = await server.call('POST', '/applications', { key, body: {} });
    expect(body.errors).toMatchObject({ name: ['is required'], type: ['is required'] });
  });

  test('an application expires at expires_at, to the millisecond', async () => {
    const tenant = await server.tenant();
    const end = server.clock.now() + 60_000;
    const created = await server.application(tenant.key, {
      permissions: ['application:read'],
      expires_at: new Date(end).toISOString(),
    });
    const sees = async (path: string, as: string) => (await server.call('GET', path, { key: as })).status;
    server.clock.advance(59_999);
    expect(await sees('/applications/key', created.key)).toBe(200);
    expect(await sees(`/applications/${created.id}`, tenant.key)).toBe(200);
    server.clock.advance(1);
    expect(await sees('/applications/key', created.key)).toBe(401);
    expect(await sees(`/applications/${created.id}`, tenant.key)).toBe(404);
    const list = await server.call('GET', `/applications?id=${created.id}`, { key: tenant.key });
    expect(list.body).toMatchObject({ pagination: { total_items: 0 }, data: [] });
  });

  test('created_by is the calling application', async () => {
    const deputy = await server.application(key, { permissions: ['application:create'] });
    const created = await server.application(deputy.key);
    expect(created.created_by).toBe(deputy.id);
  });
});
