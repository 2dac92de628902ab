/** A 403 names the missing permission, and the reason if that reveals nothing. */
import { describe, expect, test } from 'bun:test';
import { routes } from '../../../src/http/routes.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const read = 'token:read';
const card = { id: 'card-42', container: '/customers/42/' };
const rule = { priority: 1, container: '/customers/', transform: 'reveal', permissions: [read] };

describe.each(databases)('denials on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key: management, id: tenant } = await server.tenant();

  async function decision(credential: string, permission: string, resource: object, key = management) {
    const body = { credential, permission, resource };
    return (await server.call('POST', '/decisions', { key, body })).body;
  }

  test('a decision requires decision:create, and is denied for credentials of another tenant', async () => {
    const other = await server.application(management, { permissions: [read] });
    const rejected = await decision(management, read, card, other.key);
    expect(rejected).toMatchObject({
      status: 403,
      detail:
        'You need the permission `decision:create`: this application does not have decision:create in its permissions or rules.',
    });
    const { key: foreign } = await server.tenant();
    expect((await decision(management, 'decision:create', {}, foreign)).allowed).toBe(false);
    expect((await decision(management, 'decision:create', {}, management)).allowed).toBe(true);
  });

  test('a denial for a stored token is the same sentence for all rules and containers', async () => {
    const containers = ['/customers/42/', '/pci/', '/p/', '/elsewhere/'];
    for (const [at, container] of containers.entries())
      await server.call('POST', '/tokens', {
        key: management,
        body: { id: `hidden-${at}`, container, data: 1 },
      });
    const all = [read, 'token:update', 'token:delete'];
    const key = async (rules: object[]) =>
      (await server.application(management, { permissions: [], rules })).key;
    const keys = [
      await key([{ ...rule, container: '/other/', permissions: all }]),
      await key([
        { ...rule, container: '/pci/high/', permissions: all },
        { ...rule, permissions: ['token:create'] },
      ]),
    ];
    const wide = await key([{ ...rule, container: '/other/', permissions: all, description: 'secret' }]);
    const web = await server.application(management, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, permissions: all };
    await server.call('POST', '/sessions/authorize', { key: wide, body: grant });
    keys.push(body.session_key);

    for (const [method, permission, patch] of [
      ['GET', read, undefined],
      ['PATCH', 'token:update', { container: '/other/' }],
      ['DELETE', 'token:delete', undefined],
    ] as const) {
      const answers = new Set<string>();
      for (const key of keys)
        for (const at of containers.keys()) {
          const { body } = await server.call(method, `/tokens/hidden-${at}`, { key, body: patch });
          const { instance: _, request_id: __, explanation: ___, ...rest } = body;
          answers.add(JSON.stringify(rest));
        }
      expect([...answers].map((text) => JSON.parse(text))).toEqual([
        expect.objectContaining({ status: 403, detail: `You cannot use \`${permission}\` on this token.` }),
      ]);
    }
  });

  test('a denial for a container in the request has the same reason as a decision', async () => {
    const desk = await server.application(management, {
      permissions: [],
      rules: [{ ...rule, permissions: ['token:create'] }],
    });
    const elsewhere = { id: 'new-1', container: '/general/' };
    const { reason, missing } = await decision(desk.key, 'token:create', elsewhere);
    expect(reason).toBe(
      'rule 1 grants token:create but does not match: container /general/ is not in /customers/',
    );
    expect(missing).toEqual({ permission: 'token:create', container: '/general/' });
    const rejected = await server.call('POST', '/tokens', { key: desk.key, body: { ...elsewhere, data: 1 } });
    expect(rejected.body.detail).toBe(`You need the permission \`token:create\`: ${reason}.`);
  });

  test('every operation names its missing permission and the reason', async () => {
    const idle = await server.application(management, { permissions: ['nothing:much'] });
    const guarded = routes.filter((route) => route.kind !== 'open' && route.permission);
    expect(guarded.length).toBeGreaterThan(10);
    for (const route of guarded) {
      if (route.kind === 'open' || !route.permission) continue;
      const path = route.path.replace(':id', tenant);
      const { status, body } = await server.call(route.method, path, { key: idle.key });
      expect(status).toBe(403);
      const places = route.permission === 'token:use' ? 'rules' : 'permissions or rules';
      expect(body.detail).toBe(
        `You need the permission \`${route.permission}\`: this application does not have ${route.permission} in its ${places}.`,
      );
    }
  });
});
