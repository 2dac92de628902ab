/** A 403 names the missing permission, and the reason if that reveals nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { routes } from '../../../src/http/routes.ts';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

const read = 'token:read';
const card = { id: 'card-42', container: '/customers/42/' };
const rule = { priority: 1, container: '/customers/', transform: 'reveal', permissions: [read] };

describe.each(databases)('denials on %s', (_, database) => {
  let world: TestServer;
  let management: string;
  let tenant: string;

  beforeAll(async () => {
    world = await openTestServer(database);
    ({ key: management, id: tenant } = await world.tenant());
  });
  afterAll(() => world.close());

  async function decision(credential: string, permission: string, resource: object, key = management) {
    const body = { credential, permission, resource };
    return (await world.call('POST', '/decisions', { key, body })).body;
  }

  test('a decision requires decision:create, and is denied for credentials of another tenant', async () => {
    const other = await world.application(management, { permissions: [read] });
    const refused = await decision(management, read, card, other.key);
    expect(refused).toMatchObject({
      status: 403,
      detail:
        'You need the permission `decision:create`: this application does not have decision:create in its permissions or rules.',
    });
    const { key: foreign } = await world.tenant();
    expect((await decision(management, 'decision:create', {}, foreign)).allowed).toBe(false);
    expect((await decision(management, 'decision:create', {}, management)).allowed).toBe(true);
  });

  test('a denial for a stored token is the same sentence for all rules and containers', async () => {
    const containers = ['/customers/42/', '/pci/', '/p/', '/elsewhere/'];
    for (const [at, container] of containers.entries())
      await world.call('POST', '/tokens', {
        key: management,
        body: { id: `hidden-${at}`, container, data: 1 },
      });
    const all = [read, 'token:update', 'token:delete'];
    const key = async (rules: object[]) =>
      (await world.application(management, { permissions: [], rules })).key;
    const keys = [
      await key([{ ...rule, container: '/other/', permissions: all }]),
      await key([
        { ...rule, container: '/pci/high/', permissions: all },
        { ...rule, permissions: ['token:create'] },
      ]),
    ];
    const wide = await key([{ ...rule, container: '/other/', permissions: all, description: 'secret' }]);
    const web = await world.application(management, { type: 'public' });
    const { body } = await world.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, permissions: all };
    await world.call('POST', '/sessions/authorize', { key: wide, body: grant });
    keys.push(body.session_key);

    for (const [method, permission, patch] of [
      ['GET', read, undefined],
      ['PATCH', 'token:update', { container: '/other/' }],
      ['DELETE', 'token:delete', undefined],
    ] as const) {
      const answers = new Set<string>();
      for (const key of keys)
        for (const at of containers.keys()) {
          const { body } = await world.call(method, `/tokens/hidden-${at}`, { key, body: patch });
          const { instance: _, request_id: __, ...rest } = body;
          answers.add(JSON.stringify(rest));
        }
      expect([...answers].map((text) => JSON.parse(text))).toEqual([
        expect.objectContaining({ status: 403, detail: `You cannot use \`${permission}\` on this token.` }),
      ]);
    }
  });

  test('a denial for a container in the request has the same reason as a decision', async () => {
    const desk = await world.application(management, {
      permissions: [],
      rules: [{ ...rule, permissions: ['token:create'] }],
    });
    const elsewhere = { id: 'new-1', container: '/general/' };
    const { reason, missing } = await decision(desk.key, 'token:create', elsewhere);
    expect(reason).toBe(
      'rule 1 grants token:create but does not match: container /general/ is not in /customers/',
    );
    expect(missing).toEqual({ permission: 'token:create', container: '/general/' });
    const refused = await world.call('POST', '/tokens', { key: desk.key, body: { ...elsewhere, data: 1 } });
    expect(refused.body.detail).toBe(`You need the permission \`token:create\`: ${reason}.`);
  });

  test('every operation names its missing permission and the reason', async () => {
    const idle = await world.application(management, { permissions: ['nothing:much'] });
    const guarded = routes.filter((route) => route.kind !== 'open' && route.permission);
    expect(guarded.length).toBeGreaterThan(10);
    for (const route of guarded) {
      if (route.kind === 'open' || !route.permission) continue;
      const path = route.path.replace(':id', tenant);
      const { status, body } = await world.call(route.method, path, { key: idle.key });
      expect(status).toBe(403);
      expect(body.detail).toBe(
        `You need the permission \`${route.permission}\`: this application does not have ${route.permission} in its permissions or rules.`,
      );
    }
  });
});
