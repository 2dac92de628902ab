import { describe, expect, test } from 'bun:test';
import { builtIn, descriptionOf, isA, Permission, Permissions } from '../../src/domain/permission.ts';

const complaint = (name: unknown) => Permission.safeParse(name).error?.issues[0]?.message;
const accepted = (name: unknown) => complaint(name) === undefined;

test('the built-in permissions are these, each with a sentence', () => {
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
    'log:read',
    'tenant:read',
  ]);
  for (const name of builtIn) expect(descriptionOf(name)).toMatch(/^[A-Z].*\.$/);
});

describe('a permission', () => {
  test('may be built in', () => {
    for (const name of builtIn) expect(accepted(name)).toBe(true);
  });

  test.each([['invoice:pay'], ['a:b'], ['my-app:read_all:v2'], ['tokens:read'], [`x:${'y'.repeat(98)}`]])(
    "may be one's own: %p",
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
  ])('is not %p, a slip of the pen in a family that is known', (name) => {
    const family = `${name.split(':')[0]}:`;
    const known = builtIn.filter((other) => other.startsWith(family)).join(', ');
    expect(complaint(name)).toBe(`is unknown: the ${family.slice(0, -1)} permissions are ${known}`);
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
  ])('is not %p, which is not words joined by colons', (name) => {
    expect(complaint(name)).toBe('must be lower-case words joined by colons, such as token:read');
  });

  test.each([[`x:${'y'.repeat(99)}`], [7], [null], [['token:read']]])('is not %p', (name) => {
    expect(accepted(name)).toBe(false);
  });
});

describe('of permissions, the built-in ones', () => {
  test('that are handed on only by who holds them are these', () => {
    expect(builtIn.filter((name) => isA('management', name))).toEqual([
      'application:create',
      'application:read',
      'application:update',
      'application:delete',
      'session:authorize',
      'session:read',
      'session:delete',
      'log:read',
      'tenant:read',
    ]);
  });

  test('that must not live in a browser are these', () => {
    expect(builtIn.filter((name) => !isA('browser', name))).toEqual([
      'application:create',
      'application:update',
      'application:delete',
      'session:authorize',
      'session:delete',
    ]);
  });

  test('that a container narrows are those of Tokens', () => {
    expect(builtIn.filter((name) => isA('scoped', name))).toEqual(
      builtIn.filter((name) => name.startsWith('token:')),
    );
  });
});

test("one's own permissions are free to hand on, may live anywhere, and are narrowed by rules", () => {
  for (const name of ['invoice:pay', 'constructor:x', 'a:b:c']) {
    expect([isA('management', name), isA('browser', name), isA('scoped', name)]).toEqual([false, true, true]);
  }
});

test('a permission given twice is kept once, in the order given, and fifty are the most', () => {
  expect(Permissions.parse(['b:x', 'a:x', 'b:x'])).toEqual(['b:x', 'a:x']);
  const many = Array.from({ length: 51 }, (_, index) => `a:x${index}`);
  expect(Permissions.safeParse(many.slice(1)).success).toBe(true);
  expect(Permissions.safeParse(many).success).toBe(false);
});
