/** Every 403 says which permission is missing, and why it is. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { routes } from '../../src/http/routes.ts';
import { databases, openWorld, type World } from '../support/world.ts';

const read = 'token:read';
const card = { id: 'card-42', container: '/customers/42/' };
const rule = { priority: 1, container: '/customers/', transform: 'reveal', permissions: [read] };

describe.each(databases)('refusals on %s', (_, database) => {
  let world: World;
  let management: string;
  let tenant: string;

  beforeAll(async () => {
    world = await openWorld(database);
    ({ key: management, id: tenant } = await world.tenant());
  });
  afterAll(() => world.close());

  async function decision(credential: string, permission: string, resource: object, key = management) {
    const body = { credential, permission, resource };
    return (await world.call('POST', '/decisions', { key, body })).body;
  }

  test('asking for a decision needs decision:create, and is about credentials of the same tenant alone', async () => {
    const other = await world.application(management, { permissions: [read] });
    const refused = await decision(management, read, card, other.key);
    expect(refused).toMatchObject({
      status: 403,
      detail:
        'This needs the permission decision:create: this Application has decision:create neither among its permissions nor in a rule.',
    });
    const { key: foreign } = await world.tenant();
    expect((await decision(management, 'decision:create', {}, foreign)).allowed).toBe(false);
    expect((await decision(management, 'decision:create', {}, management)).allowed).toBe(true);
  });

  test('a refusal of the service gives the reason that a decision gives', async () => {
    await world.call('POST', '/tokens', { key: management, body: { ...card, data: 'secret' } });
    const desk = await world.application(management, {
      permissions: [],
      rules: [
        { ...rule, container: '/pci/', permissions: [read, 'token:update', 'token:delete'] },
        { ...rule, permissions: ['token:create'], priority: 2 },
      ],
    });
    for (const [method, permission, path, body] of [
      ['GET', read, '/tokens/card-42', undefined],
      ['PATCH', 'token:update', '/tokens/card-42', { type: 'card' }],
      ['DELETE', 'token:delete', '/tokens/card-42', undefined],
    ] as const) {
      const { reason } = await decision(desk.key, permission, card);
      expect(reason).toBe(`rule 2 matches but grants token:create, not ${permission}`);
      const refused = await world.call(method, path, { key: desk.key, body });
      expect(refused.status).toBe(403);
      expect(refused.body.detail).toBe(`This needs the permission ${permission}: ${reason}.`);
    }
    const elsewhere = { ...card, container: '/general/' };
    const { reason } = await decision(desk.key, 'token:create', elsewhere);
    const refused = await world.call('POST', '/tokens', { key: desk.key, body: { ...elsewhere, data: 1 } });
    expect(refused.body.detail).toBe(`This needs the permission token:create: ${reason}.`);
  });

  test('every operation that needs a permission names it, and why it is not there', async () => {
    const idle = await world.application(management, { permissions: ['nothing:much'] });
    const guarded = routes.filter((route) => route.kind !== 'open' && route.permission);
    expect(guarded.length).toBeGreaterThan(10);
    for (const route of guarded) {
      if (route.kind === 'open' || !route.permission) continue;
      const path = route.path.replace(':id', tenant);
      const { status, body } = await world.call(route.method, path, { key: idle.key });
      expect(status).toBe(403);
      expect(body.detail).toBe(
        `This needs the permission ${route.permission}: this Application has ${route.permission} neither among its permissions nor in a rule.`,
      );
    }
  });
});
