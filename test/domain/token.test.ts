import { describe, expect, test } from 'bun:test';
import { Failure } from '../../src/domain/error.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import {
  containerOf,
  Data,
  defaultContainer,
  defaultType,
  Metadata,
  MetadataFilter,
  maxTokenBytes,
  Token,
  TokenContentFields,
  TokenCreate,
  TokenId,
  TokenPatch,
  TokenType,
} from '../../src/domain/token.ts';

const messages = (result: { error?: { issues: { message: string }[] } | undefined }) =>
  result.error?.issues.map(({ message }) => message) ?? [];

describe('an id', () => {
  test.each(['abc', 'A-z_0.9:x', 'x'.repeat(200)])('can be %s', (id) => {
    expect(messages(TokenId.safeParse(id))).toEqual([]);
  });
  test.each(['ab', '', 'x'.repeat(201), 'a b', 'a/b', 'äbc', 'abc\n', '\nabc', 'a~b'])(
    'cannot be %j',
    (id) => {
      expect(messages(TokenId.safeParse(id))).toEqual([
        'must have 3 to 200 characters: A-Z, a-z, 0-9, ".", "_", ":" and "-"',
      ]);
    },
  );
});

describe('a type', () => {
  test.each(['t', 'card', 'bank-account_2', 'x'.repeat(100)])('can be %s', (type) => {
    expect(messages(TokenType.safeParse(type))).toEqual([]);
  });
  test.each(['', 'Card', '1x', '-x', 'a b', 'x'.repeat(101), 'x\n', '\nx'])('cannot be %j', (type) => {
    expect(messages(TokenType.safeParse(type))).toEqual([
      'must have 1 to 100 lower-case letters, digits, - and _, and start with a letter',
    ]);
  });
});

describe('data', () => {
  test.each([[0], [''], [false], ['x'], [[]], [{}], [{ a: [null] }], ['\\ud800']])('can be %j', (data) => {
    expect(messages(Data.safeParse(data))).toEqual([]);
  });
  test.each([[null], [undefined]])('cannot be %p', (data) => {
    expect(messages(Data.safeParse(data))).toEqual(['is required']);
  });
  test.each([['\ud800'], [['x', { '\udc00': 1 }]]])('cannot contain lone surrogates', (data) => {
    expect(messages(Data.safeParse(data))).toEqual(['must be well-formed Unicode throughout']);
  });
  test('has at most 1 MiB of JSON in UTF-8', () => {
    expect(maxTokenBytes).toBe(1024 * 1024);
    expect(messages(Data.safeParse('x'.repeat(maxTokenBytes - 2)))).toEqual([]);
    const message = 'must have at most 1048576 bytes as JSON';
    expect(messages(Data.safeParse('x'.repeat(maxTokenBytes - 1)))).toEqual([message]);
    expect(messages(Data.safeParse('é'.repeat(maxTokenBytes / 2)))).toEqual([message]);
  });
});

describe('metadata', () => {
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, 'x']));
  test.each<[string, unknown]>([
    ['empty', {}],
    ['names and values', { customer: '42', 'two words': '' }],
    ['long', { ['n'.repeat(100)]: 'v'.repeat(500) }],
    ['50 entries', many(50)],
    ['lines', { a: 'b\nc' }],
  ])('can be %s', (_, metadata) => {
    expect(messages(Metadata.safeParse(metadata))).toEqual([]);
    expect(Metadata.parse(metadata) as unknown).toEqual(metadata);
  });

  const messagesOf = (metadata: unknown) => JSON.stringify(Metadata.safeParse(metadata).error?.issues ?? []);
  test.each<[unknown, string]>([
    [many(51), 'must have at most 50 entries'],
    [JSON.parse('{"__proto__": "x"}'), 'must not contain an entry named __proto__'],
    [{ '': 'x' }, 'must have 1 to 100 characters'],
    [{ ['n'.repeat(101)]: 'x' }, 'must have 1 to 100 characters'],
    [{ 'a\n': 'x' }, 'must not contain control characters'],
    [{ a: 'v'.repeat(501) }, 'must have 0 to 500 characters'],
    [{ a: 'x\0' }, 'must not contain NUL'],
    [{ a: '\0' }, 'must not contain NUL'],
    [{ a: 1 }, 'expected string'],
    ['x', 'expected record'],
    ['x'.repeat(51), 'expected record'],
    [null, 'expected record'],
  ])('cannot be %j', (metadata, message) => {
    expect(messagesOf(metadata)).toContain(message);
  });

  test('filters a list by at most 10 entries', () => {
    expect(MetadataFilter.parse(many(10))).toEqual(many(10));
    expect(messages(MetadataFilter.safeParse(many(11)))).toEqual(['must have at most 10 entries']);
  });
});

describe('creating a token', () => {
  test('needs only data', () => {
    expect(TokenCreate.parse({ data: 1 })).toEqual({
      id: undefined,
      type: undefined,
      container: undefined,
      containers: undefined,
      data: { value: 1, json: new JsonText('1') },
      mask: undefined,
      search: undefined,
      metadata: undefined,
      max_uses: undefined,
      expires_at: undefined,
      unless_exists: undefined,
    });
  });

  test('has the default type token and container /general/', () => {
    expect([defaultType, defaultContainer]).toEqual(['token', '/general/']);
  });

  const paths = (body: object) =>
    TokenCreate.safeParse(body).error?.issues.map((issue) => issue.path.join('.')) ?? [];
  test.each<[string, object, string[]]>([
    ['without data', {}, ['data']],
    ['with an unknown field', { data: 1, version: 1 }, ['']],
    [
      'with several errors',
      { id: 'x', type: 'X', container: '//', data: null, mask: 1, metadata: 1, expires_at: 1 },
      ['type', 'container', 'data', 'mask', 'metadata', 'expires_at', 'id'],
    ],
  ])('is rejected %s', (_, body, expected) => {
    expect(paths(body)).toEqual(expected);
  });

  test('accepts null for absent fields', () => {
    const absent = { id: null, type: null, container: null, mask: null, metadata: null, expires_at: null };
    expect(paths({ data: 1, ...absent })).toEqual([]);
  });

  test('does not change the given fields', () => {
    const given = {
      id: 'abc',
      type: 'card',
      container: 'Pci/',
      data: { a: null },
      mask: ['x'],
      metadata: { a: 'b' },
    };
    const { data, ...others } = given;
    expect(TokenCreate.parse(given)).toMatchObject({
      ...others,
      data: { value: data, json: JsonText.of(data) },
    });
    expect(TokenContentFields.safeParse({ ...given }).success).toBe(false);
  });
});

describe('patching a token', () => {
  test('accepts any JSON in writable fields', () => {
    const patch = {
      type: null,
      container: 1,
      data: null,
      mask: false,
      metadata: { a: null },
      expires_at: null,
    };
    expect(TokenPatch.parse(patch)).toEqual(patch);
    for (const [name, value] of Object.entries(patch))
      expect(TokenPatch.parse({ [name]: value })).toEqual({ [name]: value });
  });
  test('needs at least one field', () => {
    expect(messages(TokenPatch.safeParse({}))).toEqual(['must contain at least one field']);
  });
  test('cannot change the id', () => {
    expect(TokenPatch.safeParse({ id: 'abc' }).success).toBe(false);
  });
});

describe('the container of a token', () => {
  test.each([
    [{}, undefined],
    [{ container: '/a/' }, '/a/'],
    [{ containers: ['/a/'] }, '/a/'],
    [{ container: '/a/', containers: ['/a/'] }, '/a/'],
    [{ container: '/a/', containers: ['/A'] }, '/a/'],
  ])('of %j is %j', (fields, container) => {
    const absent = { container: undefined, containers: undefined };
    expect(containerOf({ ...absent, ...fields })).toBe(container as string);
  });

  test('is invalid if container and containers differ', () => {
    try {
      containerOf({ container: '/a/', containers: ['/b/'] });
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(Failure);
      expect(error).toMatchObject({
        code: 'validation_failed',
        errors: { containers: ['must name the same container as `container`'] },
      });
    }
  });

  test.each([[[]], [['/a/', '/b/']]])('cannot be the list %j', (containers) => {
    expect(messages(TokenContentFields.safeParse({ data: 1, containers }))).toEqual([
      'must have exactly one entry: a token is in one container',
    ]);
  });
  test('can be a list with one path', () => {
    expect(messages(TokenContentFields.safeParse({ data: 1, containers: ['/a/'] }))).toEqual([]);
  });
});

test('Token omits absent fields', () => {
  const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
  const time = '2026-01-01T00:00:00.000Z';
  const minimal = { id: 'abc', tenant_id: id, type: 'token', container: '/a/', created_at: time };
  const all = {
    ...minimal,
    data: 1,
    mask: 'x',
    metadata: { a: 'b' },
    created_by: id,
    modified_by: id,
    modified_at: time,
    expires_at: time,
  };
  expect(Token.parse(minimal)).toEqual(minimal);
  expect(Token.parse(all)).toEqual(all);
  for (const name of Object.keys(minimal))
    expect(Token.safeParse({ ...minimal, [name]: undefined }).success).toBe(false);
});
