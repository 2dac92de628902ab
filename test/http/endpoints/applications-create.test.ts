import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const fields = { name: 'backend', type: 'private', permissions: ['token:read'] };
const grinning = '😀';

/** Invalid fields, and the fields that the errors must name. */
const rejected: [what: string, fields: Record<string, unknown>, parts: string[]][] = [
  ['no name', { name: undefined }, ['name']],
  ['a name of null', { name: null }, ['name']],
  ['a name that is a number', { name: 7 }, ['name']],
  ['a name that is a list', { name: ['a'] }, ['name']],
  ['an empty name', { name: '' }, ['name']],
  ['a name of 201 characters', { name: 'a'.repeat(201) }, ['name']],
  ['a name of 201 characters outside the basic plane', { name: grinning.repeat(201) }, ['name']],
  ['a name of white space', { name: ' \u00a0\u3000\u2003' }, ['name']],
  ['a name with a NUL', { name: 'a\u0000b' }, ['name']],
  ['a name with a line feed', { name: 'a\nb' }, ['name']],
  ['a name with a delete character', { name: 'a\u007f' }, ['name']],
  ['a name with a control character above ASCII', { name: 'a\u0085' }, ['name']],
  ['a name with a bidirectional override', { name: 'a\u202eb' }, ['name']],
  ['a name with half a surrogate pair', { name: 'a\ud83d' }, ['name']],
  ['no type', { type: undefined }, ['type']],
  ['a type of null', { type: null }, ['type']],
  ['a type in upper case', { type: 'Private' }, ['type']],
  ['a type that does not exist', { type: 'session' }, ['type']],
  ['a type that every object has', { type: 'constructor' }, ['type']],
  ['neither permissions nor rules', { permissions: undefined }, ['permissions']],
  ['empty permissions and empty rules', { permissions: [], rules: [] }, ['permissions']],
  ['permissions and rules of null', { permissions: null, rules: null }, ['permissions']],
  ['permissions that are no list', { permissions: 'token:read' }, ['permissions']],
  ['rules that are no list', { rules: {} }, ['rules']],
  ['an unknown field', { colour: 'red' }, ['colour']],
  ['a chosen id', { id: '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d' }, ['id']],
  ['a chosen key', { key: 'secret' }, ['key']],
  ['a chosen tenant', { tenant_id: '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d' }, ['tenant_id']],
  ['an unknown field that is null', { colour: null }, ['colour']],
  ['several errors', { name: '', type: 'x', colour: 1 }, ['colour', 'name', 'type']],
];

const impossibleMoments: [what: string, moment: unknown][] = [
  ['words', 'tomorrow'],
  ['a number', 1_893_456_000],
  ['a day without a time', '2030-01-31'],
  ['a 30th of February', '2030-02-30T00:00:00Z'],
  ['a 29th of February in a common year', '2030-02-29T00:00:00Z'],
  ['a 13th month', '2030-13-01T00:00:00Z'],
  ['a day 0', '2030-01-00T00:00:00Z'],
  ['an hour 24', '2030-01-31T24:00:00Z'],
  ['a minute 60', '2030-01-31T12:60:00Z'],
  ['a second 60', '2030-01-31T12:00:60Z'],
  ['an offset of 24 hours', '2030-01-31T12:00:00+24:00'],
  ['an offset that breaks off', '2030-01-31T12:00:00+05:'],
  ['an offset beyond the year 9999', '9999-12-31T23:59:59-01:00'],
  ['a year of six digits', '+012030-01-31T12:00:00Z'],
  ['something behind it', '2030-01-31T12:00:00Z '],
  ['the past', '2026-11-15T11:59:59.999Z'],
  ['this very moment', '2026-11-15T12:00:00.000Z'],
  ['this very moment elsewhere', '2026-11-15T17:30:00+05:30'],
];

const possibleMoments: [given: string, shown: string][] = [
  ['2030-01-31T12:00:00Z', '2030-01-31T12:00:00.000Z'],
  ['2030-01-31T12:00:00', '2030-01-31T12:00:00.000Z'],
  ['2030-01-31T12:00', '2030-01-31T12:00:00.000Z'],
  ['2030-01-31t12:00:00z', '2030-01-31T12:00:00.000Z'],
  ['2030-01-31T12:00:00.5Z', '2030-01-31T12:00:00.500Z'],
  ['2030-01-31T12:00:00.123456789Z', '2030-01-31T12:00:00.123Z'],
  ['2030-01-31T12:00:00+05:30', '2030-01-31T06:30:00.000Z'],
  ['2030-01-31T12:00:00-0330', '2030-01-31T15:30:00.000Z'],
  ['2030-01-31T00:00:00+01', '2030-01-30T23:00:00.000Z'],
  ['2032-02-29T23:59:59.999Z', '2032-02-29T23:59:59.999Z'],
  ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
];

describe.each(databases)('creating an application on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  const create = (given: Record<string, unknown>) =>
    server.call('POST', '/applications', { key, body: { ...fields, ...given } });
  const count = async () => (await server.call('GET', '/applications?size=1', { key })).body.pagination;

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

  test.each(rejected)('%s is rejected without creating an application', async (_what, given, parts) => {
    const before = await count();
    const { status, body } = await create(given);
    expect(status).toBe(400);
    expect(Object.keys(body.errors).sort()).toEqual(parts);
    expect(await count()).toEqual(before);
  });

  test.each(impossibleMoments)('an expires_at of %s is rejected', async (_what, expires_at) => {
    const { status, body } = await create({ expires_at });
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual(['expires_at']);
  });

  test.each(possibleMoments)('an expires_at of %s is returned as %s', async (expires_at, returned) => {
    const { status, body } = await create({ expires_at });
    expect(status).toBe(201);
    expect(body.expires_at).toBe(returned);
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

  test.each([
    ['no body', undefined],
    ['null', 'null'],
    ['a list', '[]'],
    ['a string', '"x"'],
    ['a number', '1'],
  ])('%s instead of an object is rejected', async (_what, body) => {
    const answer = await server.call('POST', '/applications', { key, body });
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['body']);
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

  test('requires application:create, and a denial names it', async () => {
    const other = await server.application(key, { permissions: ['application:read', 'application:update'] });
    const { status, body } = await server.call('POST', '/applications', { key: other.key, body: fields });
    expect([status, body.code]).toEqual([403, 'permission_missing']);
    expect(body.detail).toContain('application:create');
  });
});
