import { describe, expect, test } from 'bun:test';
import { builtIn, descriptionOf, hasTrait, Permission, Permissions } from '../../src/domain/permission.ts';

const errorOf = (name: unknown) => Permission.safeParse(name).error?.issues[0]?.message;
const accepted = (name: unknown) => errorOf(name) === undefined;

test('every built-in permission has a description', () => {
  expect(builtIn).toEqual([
    'application:create',
    'application:read',
    'application:update',
    'application:delete',
    'session:authorize',
    'session:read',
    'session:delete',
    'token:create',
    'token:read',
    'token:update',
    'token:delete',
    'decision:create',
    'access:review',
    'log:read',
    'tenant:read',
  ]);
  for (const name of builtIn) expect(descriptionOf(name)).toMatch(/^[A-Z].*\.$/);
});

describe('a permission', () => {
  test('can be built-in', () => {
    for (const name of builtIn) expect(accepted(name)).toBe(true);
  });

  test.each([['invoice:pay'], ['a:b'], ['my-app:read_all:v2'], ['tokens:read'], [`x:${'y'.repeat(98)}`]])(
    'can be custom: %p',
    (name) => {
      expect(accepted(name)).toBe(true);
    },
  );

  test.each([
    ['token:reed'],
    ['application:manage'],
    ['application:read:all'],
    ['session:create'],
    ['log:write'],
    ['tenant:create'],
    ['decision:read'],
  ])('cannot be %p, an unknown name in a built-in family', (name) => {
    const family = `${name.split(':')[0]}:`;
    const known = builtIn.filter((other) => other.startsWith(family)).join(', ');
    expect(errorOf(name)).toBe(`is unknown: the ${family.slice(0, -1)} permissions are ${known}`);
  });

  test.each([
    [''],
    ['token'],
    ['application:'],
    ['Token:Read'],
    ['token :read'],
    [' token:read'],
    ['1a:b'],
    ['token:read '],
    ['token:*'],
    ['*'],
    [':read'],
    ['a::b'],
    ['a:1b'],
    ['ä:b'],
    ['a:b\n'],
    ['__proto__'],
    ['constructor'],
  ])('cannot be %p, which is not lower-case words joined by colons', (name) => {
    expect(errorOf(name)).toBe('must be lower-case words joined by colons, such as token:read');
  });

  test.each([[`x:${'y'.repeat(99)}`], [7], [null], [['token:read']]])('cannot be %p', (name) => {
    expect(accepted(name)).toBe(false);
  });
});

describe('built-in permissions', () => {
  test('that only a holder can grant', () => {
    expect(builtIn.filter((name) => hasTrait(name, 'management'))).toEqual([
      'application:create',
      'application:read',
      'application:update',
      'application:delete',
      'session:authorize',
      'session:read',
      'session:delete',
      'access:review',
      'log:read',
      'tenant:read',
    ]);
  });

  test('that public applications and sessions cannot have', () => {
    expect(builtIn.filter((name) => !hasTrait(name, 'browser'))).toEqual([
      'application:create',
      'application:update',
      'application:delete',
      'session:authorize',
      'session:delete',
      'access:review',
      'log:read',
      'tenant:read',
    ]);
  });

  test('that rules limit to containers are those of tokens', () => {
    expect(builtIn.filter((name) => hasTrait(name, 'scoped'))).toEqual(
      builtIn.filter((name) => name.startsWith('token:')),
    );
  });
});

test('custom permissions can be granted freely, held by any owner and limited by rules', () => {
  for (const name of ['invoice:pay', 'constructor:x', 'a:b:c']) {
    expect([hasTrait(name, 'management'), hasTrait(name, 'browser'), hasTrait(name, 'scoped')]).toEqual([
      false,
      true,
      true,
    ]);
  }
});

test('permissions are deduplicated in order, and at most 50', () => {
  expect(Permissions.parse(['b:x', 'a:x', 'b:x'])).toEqual(['b:x', 'a:x']);
  const many = Array.from({ length: 51 }, (_, index) => `a:x${index}`);
  expect(Permissions.safeParse(many.slice(1)).success).toBe(true);
  expect(Permissions.safeParse(many).success).toBe(false);
});
