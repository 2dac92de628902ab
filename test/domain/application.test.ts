import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import {
  type Application,
  ApplicationCreate,
  ApplicationKey,
  ApplicationKeyCreated,
  ApplicationUpdate,
  ApplicationWithKey,
  expiryAfter,
  readOnlyErrors,
} from '../../src/domain/application.ts';

const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const current: Application = {
  id,
  tenant_id: id,
  name: 'one',
  type: 'private',
  permissions: ['token:read'],
  rules: [],
  created_at: '2026-01-01T00:00:00.000Z',
  created_by: id,
  expires_at: '2030-01-01T00:00:00.000Z',
};

function faults(schema: typeof ApplicationCreate | typeof ApplicationUpdate, body: object): string[] {
  return schema.safeParse(body).error?.issues.map((issue) => issue.path.join('.')) ?? [];
}

describe('creating an application', () => {
  const body = { name: 'one', type: 'private' };

  test('needs only a name and a type', () => {
    expect(ApplicationCreate.parse(body)).toEqual({
      name: 'one',
      type: 'private',
      permissions: [],
      rules: [],
      allowed_origins: undefined,
      require_bound_sessions: undefined,
      allowed_networks: undefined,
      trusted_issuers: undefined,
      labels: undefined,
      expires_at: undefined,
    });
  });

  test('parses expires_at', () => {
    const { expires_at } = ApplicationCreate.parse({ ...body, expires_at: '2030-01-01T00:00:00Z' });
    expect(expires_at).toBe(Date.parse('2030-01-01T00:00:00Z'));
  });

  test.each<[string, object, string[]]>([
    ['without a name', { type: 'private' }, ['name']],
    ['without a type', { name: 'one' }, ['type']],
    ['with an unknown type', { ...body, type: 'session' }, ['type']],
    ['with an unknown field', { ...body, key: 'x' }, ['']],
    ['with an invalid expires_at', { ...body, expires_at: 'soon' }, ['expires_at']],
    ['with an unknown permission', { ...body, permissions: ['token:red'] }, ['permissions.0']],
  ])('is rejected %s', (_, body, expected) => {
    expect(faults(ApplicationCreate, body)).toEqual(expected);
  });

  test.each(['private', 'public', 'management'])('accepts the type %s', (type) => {
    expect(faults(ApplicationCreate, { ...body, type })).toEqual([]);
  });
});

test('ApplicationWithKey has all fields of the application and the key', () => {
  expect(ApplicationWithKey.parse({ ...current, key: 'slp' })).toEqual({ ...current, key: 'slp' });
  expect(ApplicationWithKey.safeParse(current).success).toBe(false);
});

test('ApplicationKey has no key; ApplicationKeyCreated has it', () => {
  const least = { id, ending: 'abcd', created_at: '2026-01-01T00:00:00.000Z' };
  const all = { ...least, created_by: id, last_used_at: '2026-01-02T00:00:00.000Z' };
  for (const key of [least, all]) {
    expect(ApplicationKey.parse({ ...key, key: 'slp' })).toEqual(key);
    expect(ApplicationKeyCreated.parse({ ...key, key: 'slp' })).toEqual({ ...key, key: 'slp' });
  }
  for (const name of Object.keys(least))
    expect(ApplicationKey.safeParse({ ...least, [name]: undefined }).success).toBe(false);
  expect(ApplicationKeyCreated.safeParse(least).success).toBe(false);
});

describe('updating an application', () => {
  const sent = (fields: object) => ApplicationUpdate.parse({ name: 'two', ...fields });

  test('accepts an application as fetched', () => {
    expect(faults(ApplicationUpdate, current)).toEqual([]);
    expect(readOnlyErrors(current, ApplicationUpdate.parse(current))).toEqual({});
  });

  test('accepts absent and null read-only fields', () => {
    const nothing = {
      id: null,
      tenant_id: null,
      type: null,
      created_by: null,
      created_at: null,
    };
    expect(readOnlyErrors(current, sent({}))).toEqual({});
    expect(readOnlyErrors(current, sent(nothing))).toEqual({});
  });

  test('accepts other spellings of ids and dates', () => {
    const spelled = {
      id: id.toUpperCase(),
      created_at: '2026-01-01T01:00:00+01:00',
    };
    expect(readOnlyErrors(current, sent(spelled))).toEqual({});
  });

  const other = '0197f3c2-5a1e-7c40-9d2b-000000000000';
  test.each<[string, unknown]>([
    ['id', other],
    ['id', 5],
    ['id', 'x'],
    ['tenant_id', other],
    ['type', 'public'],
    ['type', 'PRIVATE'],
    ['created_by', other],
    ['created_at', '2026-01-01T00:00:01Z'],
    ['created_at', 'never'],
    ['modified_by', id],
    ['modified_at', '2026-01-01T00:00:00Z'],
  ])('is rejected if %s is changed to %j', (field, value) => {
    expect(readOnlyErrors(current, sent({ [field]: value }))).toEqual({
      [field]: ['is read-only: omit it or send its current value'],
    });
  });

  test('is rejected if it sets an absent date, valid or not', () => {
    expect(Object.keys(readOnlyErrors(current, sent({ modified_at: 'never' })))).toEqual(['modified_at']);
  });

  test.each([
    ['absent', {}, current.expires_at],
    ['null', { expires_at: null }, current.expires_at],
    ['equal, although it has passed', { expires_at: '2030-01-01T00:00Z' }, current.expires_at],
    ['later', { expires_at: '2031-06-01T02:00:00+02:00' }, '2031-06-01T00:00:00.000Z'],
    ['never', { expires_at: 'never' }, undefined],
  ])('with an expiry that is %s', (_, fields, expected) => {
    expect(expiryAfter(current, sent(fields), { now: Date.parse('2031-01-01T00:00:00Z') })).toBe(expected);
  });

  test('is rejected if a new expiry is not in the future', () => {
    const expires_at = '2029-01-01T00:00:00.000Z';
    const now = Date.parse(expires_at);
    expect(() => expiryAfter(current, sent({ expires_at }), { now })).toThrow();
    expect(expiryAfter(current, sent({ expires_at }), { now: now - 1 })).toBe(expires_at);
    for (const wrong of ['soon', 'Never', 1893456000000])
      expect(faults(ApplicationUpdate, { ...current, expires_at: wrong })).toEqual(['expires_at']);
  });

  test('cannot remove or exceed the expiry if the tenant has a maximum lifetime', () => {
    const day = 86_400_000;
    const caller = { now: Date.parse('2029-01-01T00:00:00Z'), maxLifetime: day };
    const after = (expires_at: string, stored = current) => expiryAfter(stored, sent({ expires_at }), caller);
    const invalid = (message: string) =>
      expect.objectContaining({ code: 'validation_failed', errors: { expires_at: [message] } });
    expect(() => after('never')).toThrow(
      invalid('must not be never, because the tenant has a maximum lifetime'),
    );
    expect(() => after('2029-01-02T00:00:00.001Z')).toThrow(
      invalid('must be at most 2029-01-02T00:00:00.000Z, because the tenant has a maximum lifetime'),
    );
    expect(after('2029-01-02T00:00:00Z')).toBe('2029-01-02T00:00:00.000Z');
    expect(after('2030-01-01T00:00:00Z')).toBe('2030-01-01T00:00:00.000Z');
    const { expires_at: _, ...unlimited } = current;
    expect(after('never', unlimited)).toBeUndefined();
  });

  test('needs a name and rejects unknown fields', () => {
    expect(faults(ApplicationUpdate, {})).toEqual(['name']);
    expect(faults(ApplicationUpdate, { name: 'x', key: 'y' })).toEqual(['']);
  });
});

test('the JSON schema of an update contains the format of each read-only field', () => {
  const { shape } = ApplicationUpdate;
  const schemaOf = (name: keyof typeof shape) =>
    z.toJSONSchema(shape[name], { io: 'input', unrepresentable: 'any' }).anyOf?.[0];
  for (const name of ['id', 'tenant_id', 'created_by', 'modified_by'] as const)
    expect(schemaOf(name)).toEqual({ type: 'string', format: 'uuid' });
  for (const name of ['created_at', 'modified_at', 'last_used_at'] as const)
    expect(schemaOf(name)).toEqual({ type: 'string', format: 'date-time' });
  expect(schemaOf('type')).toEqual({ type: 'string', enum: ['private', 'public', 'management'] });
});
