import { describe, expect, test } from 'bun:test';
import {
  type BuiltIn,
  builtIn,
  descriptionOf,
  hasTrait,
  Permission,
  Permissions,
} from '../../src/domain/permission.ts';
import type { Route } from '../../src/http/pipeline/route.ts';
import { allRoutes } from '../../src/http/routes.ts';

const errorOf = (name: unknown) =>
  Permission.safeParse(name)
    .error?.issues.map(({ message }) => message)
    .join();
const accepted = (name: unknown) => errorOf(name) === undefined;

/**
 * The traits of every permission, and the endpoints that need it. Other tests derive what they expect from
 * `src/domain/permission.ts` and `src/http/routes.ts`. This table repeats them, so that a mistake there fails the test.
 */
// biome-ignore format: one line per permission
const table: Record<string, [traits: string, endpoints: string]> = {
  'application:create': ['management',              'createApplication'],
  'application:read':   ['management browser read', 'getApplication getApplicationByKey getUsage listApplications listKeys'],
  'application:update': ['management',              'createKey deleteKey quarantineApplication regenerateKey releaseApplication updateApplication'],
  'application:delete': ['management',              'deleteApplication'],
  'session:authorize':  ['management',              ''],
  'session:read':       ['management browser read', 'getSession listSessions'],
  'session:delete':     ['management',              'endSession endSessions quarantineSession releaseSession'],
  'token:create':       ['browser scoped',          'createToken createTokens'],
  'token:read':         ['browser scoped read',     'getToken listTokens'],
  'token:update':       ['browser scoped',          'replaceToken updateToken'],
  'token:delete':       ['browser scoped',          'deleteToken deleteTokens'],
  'token:use':          ['session scoped destination', 'listUsableDestinations proxyDelete proxyGet proxyPatch proxyPost proxyPut'],
  'token:search':       ['session scoped',          'searchTokens'],
  'destination:create': ['management',              'createDestination'],
  'destination:read':   ['management read',         'getDestination listDestinations'],
  'destination:update': ['management',              'allowUse updateDestination'],
  'destination:delete': ['management',              'deleteDestination'],
  'decision:create':    ['browser read',            'decide evaluate evaluateAll'],
  'access:review':      ['management read',         'adviseAccess createReport diffAccess searchActions searchResources searchSubjects whoHasAccess'],
  'log:read':           ['management read',         'countLogs countRequests listLogs'],
  'tenant:read':        ['management read',         'getTenant'],
  // Endpoints that need no permission.
  'key of public':                ['', 'createSession'],
  'key of private or management': ['', 'authorizeSession'],
  'key of private':               ['', 'createDelegation'],
  'key of management or private or public or session or delegation': ['', 'listOwnPermissions'],
  'no key':                       ['', 'beginSignIn exchangeToken finishSignIn getAuthZenConfiguration getConsole getConsoleFile getConsoleSession getDocs getDocsPage getHome getOpenApi listPermissions live logOutByProvider openLink ready revokeKey signOut'],
};

function accessOf(route: Route): string {
  if (route.kind === 'open') return 'no key';
  return route.permission ?? `key of ${route.callers?.join(' or ')}`;
}

test('permissions have the traits, and endpoints the access, of the table in this file', () => {
  const endpoints = Map.groupBy(allRoutes, accessOf);
  const declared = [...new Set([...builtIn, ...endpoints.keys()])].map((name) => {
    const traits = (['management', 'browser', 'session', 'scoped', 'destination', 'read'] as const).filter(
      (trait) => hasTrait(name, trait),
    );
    return {
      name,
      traits: builtIn.includes(name as BuiltIn) ? traits : [],
      endpoints: (endpoints.get(name) ?? []).map((route) => route.name).sort(),
    };
  });
  const words = (text: string) => text.split(' ').filter(Boolean);
  const expected = Object.entries(table).map(([name, [traits, names]]) => ({
    name,
    traits: words(traits),
    endpoints: words(names).sort(),
  }));
  const byName = (rows: readonly { name: string }[]) =>
    Object.fromEntries(rows.map((row) => [row.name, row]));
  expect(byName(declared)).toEqual(byName(expected));
});

test('every built-in permission has a description', () => {
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
    ['token:read, token:create'],
    ['__proto__'],
    ['constructor'],
  ])('cannot be %p, which is not lower-case words joined by colons', (name) => {
    expect(errorOf(name)).toBe('must be lower-case words joined by colons, such as token:read');
  });

  test.each([[`x:${'y'.repeat(99)}`], [7], [null], [['token:read']]])('cannot be %p', (name) => {
    expect(accepted(name)).toBe(false);
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
