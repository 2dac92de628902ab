import { describe, expect, test } from 'bun:test';
import { builtIn, hasTrait } from '../../../src/domain/permission.ts';
import { type ApiResponse, openTestServer, sqlite } from '../../support/test-server.ts';

type Owner = 'private' | 'public' | 'management' | 'session';
const owners: Owner[] = ['private', 'public', 'management', 'session'];

const condition = { attribute: 'id', operator: 'equals', value: 'x' };
const scope = { private: { container: '/pci/' }, public: { container: '/pci/' }, management: {} };
const rule = { priority: 1, transform: 'mask', permissions: ['token:read'] };

function ruleOf(owner: Owner, given: object = {}) {
  return { ...rule, ...(owner === 'session' ? { conditions: [condition] } : scope[owner]), ...given };
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `mine:n${index}`);

/** Of the many that `test/domain/` has, and `test/http/pipeline/refusals.test.ts` generates. */
const badPermissions = ['token:reed', '*'];
const badContainers = ['/pci//high/', '/../'];
const badConditions: [what: string, part: string, given: unknown][] = [
  ['a value of half a surrogate pair', '.value', { ...condition, value: '\ud83d' }],
  ['a container that is none', '.value', { ...condition, attribute: 'container', value: '/a//b/' }],
  ['null', '', null],
];
const goodContainers = ['pci', '/PCI/High/'];

describe('grants', async () => {
  const server = await openTestServer(sqlite);
  let nonce: string;
  const key = (await server.tenant()).key;
  nonce = await newNonce();

  async function newNonce(): Promise<string> {
    const web = await server.application(key, { type: 'public' });
    return (await server.call('POST', '/sessions', { key: web.key })).body.nonce;
  }

  /** Grants to an application of the type or to a session. Rejected requests do not use the nonce, so all share one. */
  async function give(owner: Owner, grants: object): Promise<ApiResponse> {
    if (owner === 'session') {
      return server.call('POST', '/sessions/authorize', { key, body: { nonce, ...grants } });
    }
    return server.call('POST', '/applications', { key, body: { name: 'x', type: owner, ...grants } });
  }

  async function expectRefused(owner: Owner, grants: object, parts: string[]): Promise<void> {
    const { status, body } = await give(owner, grants);
    expect({ status, parts: Object.keys(body.errors ?? {}) }).toEqual({ status: 400, parts });
  }

  async function expectTaken(owner: Owner, grants: object): Promise<ApiResponse['body']> {
    const { status, body } = await give(owner, grants);
    expect({ status, errors: body.errors }).toEqual({
      status: owner === 'session' ? 204 : 201,
      errors: undefined,
    });
    if (owner === 'session') nonce = await newNonce();
    return body;
  }

  describe.each(owners)('of a %s owner', (owner) => {
    test('may be permissions, rules or both', async () => {
      await expectTaken(owner, { permissions: ['token:read'] });
      await expectTaken(owner, { rules: [ruleOf(owner)] });
      await expectTaken(owner, { permissions: ['token:read'], rules: [ruleOf(owner)] });
      await expectRefused(owner, { permissions: [], rules: [] }, ['permissions']);
      await expectRefused(owner, {}, ['permissions']);
    });

    test.each(badPermissions.map((bad) => [bad]))('reject the permission %j', async (permission) => {
      await expectRefused(owner, { permissions: ['token:read', permission] }, ['permissions.1']);
    });

    test('accept custom permissions', async () => {
      const permissions = ['invoice:approve', 'acme:reports_2:read-all', 'a:b', 'tokens:read'];
      const created = await expectTaken(owner, { permissions });
      if (owner !== 'session') expect(created.permissions).toEqual(permissions);
    });

    test('have at most 50 permissions', async () => {
      await expectTaken(owner, { permissions: numbered(50) });
      await expectRefused(owner, { permissions: numbered(51) }, ['permissions']);
    });

    test('have at most 50 rules', async () => {
      const rules = (count: number) =>
        Array.from({ length: count }, (_, at) => ruleOf(owner, { priority: at + 1 }));
      await expectTaken(owner, { rules: rules(50) });
      await expectRefused(owner, { rules: rules(51) }, ['rules']);
    });

    test('reject a rule with a misspelt permission', async () => {
      const bad = ruleOf(owner, { permissions: ['token:read', 'token:reed'] });
      await expectRefused(owner, { rules: [ruleOf(owner), bad] }, ['rules.1.permissions.1']);
    });

    test('accept rules with any priority from 1, transform and description', async () => {
      for (const priority of [1, 2_147_483_647])
        await expectTaken(owner, { rules: [ruleOf(owner, { priority })] });
      for (const transform of ['redact', 'mask', 'reveal'])
        await expectTaken(owner, { rules: [ruleOf(owner, { transform })] });
      for (const description of ['', 'two\nlines', '😀'.repeat(1000), null])
        await expectTaken(owner, { rules: [ruleOf(owner, { description })] });
    });

    test('reject a rule with both a container and conditions', async () => {
      const { status, body } = await give(owner, {
        rules: [ruleOf(owner, { container: '/pci/', conditions: [condition] })],
      });
      expect(status).toBe(400);
      expect(Object.keys(body.errors)).toEqual([
        `rules.0.${owner === 'session' ? 'container' : 'conditions'}`,
      ]);
    });

    test('of public keys and sessions exclude permissions without the trait browser, or session for sessions', async () => {
      const mayHoldAll = owner === 'private' || owner === 'management';
      for (const permission of builtIn) {
        const destinations = permission === 'token:use' ? [crypto.randomUUID()] : undefined;
        const byRule = { rules: [ruleOf(owner, { permissions: ['token:read', permission], destinations })] };
        const bySession = owner === 'session' && hasTrait(permission, 'session');
        if (mayHoldAll || bySession || hasTrait(permission, 'browser')) {
          if (destinations) await expectRefused(owner, { permissions: [permission] }, ['permissions.0']);
          else await expectTaken(owner, { permissions: [permission] });
          await expectTaken(owner, byRule);
        } else {
          await expectRefused(owner, { permissions: [permission] }, ['permissions.0']);
          await expectRefused(owner, byRule, ['rules.0.permissions.1']);
        }
      }
    });
  });

  describe.each(['private', 'public', 'management'] as const)('of a %s application', (owner) => {
    test('reject conditions', async () => {
      for (const conditions of [[condition], []]) {
        await expectRefused(owner, { rules: [ruleOf(owner, { conditions })] }, ['rules.0.conditions']);
      }
    });

    test.each(goodContainers)('store the container %p unchanged', async (container) => {
      const { rules } = await expectTaken(owner, { rules: [ruleOf(owner, { container })] });
      expect(rules[0].container).toBe(container);
    });

    test.each(badContainers)('reject the container %p', async (container) => {
      await expectRefused(owner, { rules: [ruleOf(owner, { container })] }, ['rules.0.container']);
    });

    test('are returned without duplicates and nulls, in the given order', async () => {
      const first = ruleOf(owner, { priority: 2, permissions: ['token:read', 'a:b', 'token:read'] });
      const second = ruleOf(owner, { priority: 1, description: null, conditions: null });
      const body = await expectTaken(owner, {
        permissions: ['b:c', 'token:read', 'b:c'],
        rules: [first, second, first],
      });
      expect(body.permissions).toEqual(['b:c', 'token:read']);
      expect(body.rules).toEqual([{ ...first, permissions: ['token:read', 'a:b'] }, ruleOf(owner)]);
    });
  });

  test.each(['public', 'session'] as const)(
    'an error about a permission that a %s cannot hold has its index in the request, counting duplicates',
    async (owner) => {
      const held = ruleOf(owner, { permissions: ['token:read', 'token:read'] });
      const beyond = ruleOf(owner, { permissions: ['a:b', 'a:b', 'a:c', 'session:authorize'] });
      const given = {
        permissions: ['token:read', 'token:read', 'application:create'],
        rules: [held, held, { ...rule, permissions: ['a:b'] }, beyond],
      };
      const missing = owner === 'session' ? 'conditions' : 'container';
      await expectRefused(owner, given, ['permissions.2', 'rules.3.permissions.3', `rules.2.${missing}`]);
    },
  );

  test('only rules of management applications may omit the container', async () => {
    await expectTaken('management', { rules: [rule] });
    for (const owner of ['private', 'public'] as const) {
      await expectRefused(owner, { rules: [rule] }, ['rules.0.container']);
      await expectRefused(owner, { rules: [{ ...rule, container: null }] }, ['rules.0.container']);
    }
  });

  test('a session rule requires conditions and rejects a container', async () => {
    await expectRefused('session', { rules: [rule] }, ['rules.0.conditions']);
    await expectRefused('session', { rules: [{ ...rule, conditions: null }] }, ['rules.0.conditions']);
    await expectRefused('session', { rules: [{ ...rule, conditions: [] }] }, ['rules.0.conditions']);
    await expectRefused('session', { rules: [{ ...rule, container: '/pci/' }] }, ['rules.0.container']);
  });

  test.each(badConditions)('a condition with %s is rejected', async (_what, part, given) => {
    const rules = [ruleOf('session', { conditions: [condition, given] })];
    await expectRefused('session', { rules }, [`rules.0.conditions.1${part}`]);
  });

  test('conditions compare id or container, exactly or by prefix', async () => {
    const conditions = ['id', 'container'].flatMap((attribute) =>
      ['starts_with', 'equals'].map((operator) => ({ attribute, operator, value: 'pci' })),
    );
    await expectTaken('session', { rules: [ruleOf('session', { conditions })] });
  });
});
