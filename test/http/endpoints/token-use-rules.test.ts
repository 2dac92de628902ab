/** Rules that grant `token:use`: which destinations they name, and who decides. */
import { describe, expect, test } from 'bun:test';
import { tokenUseRule } from '../../support/destination-receiver.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('rules with destinations on %s', async (_, database) => {
  const server = await openTestServer(database);

  const call = (method: string, path: string, body?: unknown, as = key) =>
    server.call(method, path, { key: as, body });

  const { key } = await server.tenant();
  const payments = await destination('payments');
  const mail = await destination('mail');
  async function destination(name: string): Promise<string> {
    const body = { name, origin: 'https://api.example', requests: [{ method: 'POST', path: '/' }] };
    return (await call('POST', '/destinations', body)).body.id;
  }
  const use = (destinations: string[], fields: object = {}) => ({
    ...tokenUseRule('/cards/', destinations),
    ...fields,
  });
  const decide = async (credential: string, name: string, resource: object = { container: '/cards/1/' }) => {
    const body = { credential, permission: 'token:use', resource: { ...resource, destination: name } };
    return (await call('POST', '/decisions', body)).body;
  };

  test('a rule grants token:use only for the destinations that it names, by name or id', async () => {
    const { key: backend } = await server.application(key, { rules: [use([payments])] });
    expect(await decide(backend, 'payments')).toMatchObject({ allowed: true, rule: { rule: 1 } });
    expect((await decide(backend, payments.toUpperCase())).allowed).toBe(true);
    expect(await decide(backend, 'mail')).toMatchObject({
      allowed: false,
      missing: { permission: 'token:use', container: '/cards/1/', destination: mail },
    });
    expect((await decide(backend, 'unknown')).allowed).toBe(false);
    expect((await decide(backend, 'payments', { container: '/other/' })).allowed).toBe(false);
    const without = { credential: backend, permission: 'token:use', resource: { container: '/cards/' } };
    expect((await call('POST', '/decisions', without)).body).toMatchObject({
      allowed: false,
      reason:
        'rule 1 grants token:use but does not match: no destination was given to compare with its destinations',
    });
  });

  test('token:use without a rule is rejected, because it would grant nothing', async () => {
    const grants = { permissions: ['token:read', 'token:use'] };
    const body = { name: 'a', type: 'private', ...grants };
    const errors = { 'permissions.1': ['token:use needs a rule, which names destinations'] };
    expect((await call('POST', '/applications', body)).body.errors).toEqual(errors);
    const web = await server.application(key, { type: 'public', permissions: ['token:read'] });
    const { nonce } = (await call('POST', '/sessions', undefined, web.key)).body;
    expect((await call('POST', '/sessions/authorize', { nonce, ...grants })).body.errors).toEqual(errors);
    expect((await decide(key, 'payments')).allowed).toBe(false);
  });

  test('a rule is written with names of destinations, and has their ids', async () => {
    const rules = [use(['Payments', mail, payments])];
    const stored = [expect.objectContaining({ destinations: [payments, mail] })];
    const { key: backend, id, ...created } = await server.application(key, { rules });
    expect(created.rules).toEqual(stored);
    const updated = await call('PUT', `/applications/${id}`, { name: 'a', rules });
    expect(updated.body.rules).toEqual(stored);
    const session = await sessionOf(backend, ['payments', 'mail']);
    expect((await decide(session, 'mail')).allowed).toBe(true);
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
    const given = { rules: [use(['payments', 'none'], { container: undefined, conditions })] };
    const refused = await call('POST', '/delegations', given, backend);
    expect(refused.body.errors).toEqual({ 'rules.0.destinations.1': ['is not the name of a destination'] });
  });

  test('a deleted destination matches nothing, also if its name is created again', async () => {
    const first = await destination('again');
    const { key: backend } = await server.application(key, { rules: [use([first])] });
    expect((await decide(backend, 'again')).allowed).toBe(true);
    await call('DELETE', `/destinations/${first}`);
    expect((await decide(backend, first)).allowed).toBe(false);
    await destination('again');
    expect((await decide(backend, 'again')).allowed).toBe(false);
  });

  const anyId = crypto.randomUUID();
  test.each<[string, string, object]>([
    ['token:use without destinations', 'rules.0.destinations', use([], { destinations: undefined })],
    ['no destination', 'rules.0.destinations', use([])],
    ['destinations without token:use', 'rules.0.destinations', use([anyId], { permissions: ['token:read'] })],
    ['an unknown name', 'rules.0.destinations.0', use(['none'])],
  ])('a rule with %s is rejected', async (_, field, rule) => {
    const body = { name: 'a', type: 'private', rules: [rule] };
    expect(Object.keys((await call('POST', '/applications', body)).body.errors)).toEqual([field]);
  });

  test('a public application cannot hold token:use, and its sessions can', async () => {
    for (const grants of [{ permissions: ['token:use'] }, { rules: [use([payments])] }]) {
      const body = { name: 'web', type: 'public', ...grants };
      expect((await call('POST', '/applications', body)).status).toBe(400);
    }
    const session = await sessionOf(key, [payments]);
    expect((await decide(session, 'payments')).allowed).toBe(true);
    expect((await decide(session, 'mail')).allowed).toBe(false);
  });

  async function sessionOf(authorizer: string, destinations: string[]): Promise<string> {
    const web = await server.application(key, { type: 'public', permissions: ['token:read'] });
    const { body } = await call('POST', '/sessions', undefined, web.key);
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
    const rules = [use(destinations, { container: undefined, conditions })];
    const grant = { nonce: body.nonce, rules };
    expect((await call('POST', '/sessions/authorize', grant, authorizer)).status).toBe(204);
    return body.session_key;
  }

  test('a session reaches only destinations that its authorizer reaches now', async () => {
    const { key: backend, id } = await server.application(key, { rules: [use([payments])] });
    const session = await sessionOf(backend, [payments, mail]);
    expect((await decide(session, 'payments')).allowed).toBe(true);
    expect((await decide(session, 'mail')).allowed).toBe(false);
    await call('PUT', `/applications/${id}`, { name: 'a', rules: [use([mail])] });
    expect((await decide(session, 'payments')).allowed).toBe(false);
    expect((await decide(session, 'mail')).allowed).toBe(true);
    await call('POST', `/applications/${id}/quarantine`);
    expect((await decide(session, 'mail')).allowed).toBe(false);
  });

  test('moving a token to where the caller reaches more destinations needs reveal', async () => {
    const update = { permissions: ['token:update'], transform: 'mask', priority: 9, container: '/' };
    const rules = [use([payments]), use([payments, mail], { container: '/both/' }), update];
    const { key: backend } = await server.application(key, { rules });
    const move = async (from: string, to: string, as = backend) => {
      const { body } = await call('POST', '/tokens', { container: from, data: 'x' });
      return (await call('PATCH', `/tokens/${body.id}`, { container: to }, as)).body.code;
    };
    expect(await move('/none/', '/cards/')).toBe('reveal_required');
    expect(await move('/cards/', '/both/')).toBe('reveal_required');
    expect(await move('/both/', '/cards/')).toBe(undefined);
    expect(await move('/cards/', '/none/')).toBe(undefined);
    const reveals = { rules: [...rules.slice(0, 2), { ...update, transform: 'reveal' }] };
    expect(await move('/none/', '/cards/', (await server.application(key, reveals)).key)).toBe(undefined);
  });

  test('an access review lists who can use tokens at a destination', async () => {
    const { key: own } = await server.tenant();
    const there = { name: 'there', origin: 'https://api.example', requests: [{ method: 'POST', path: '/' }] };
    const { id } = (await call('POST', '/destinations', there, own)).body;
    const user = await server.application(own, { rules: [use([id])] });
    await server.application(own, { rules: [use([crypto.randomUUID()])] });
    const who = async (query: string) =>
      call('GET', `/access/who?container=/cards/&${query}`, undefined, own);
    const { body } = await who('permission=token:use&destination=there');
    expect(body.data.map((entry: { subject: { id: string } }) => entry.subject.id)).toEqual([user.id]);
    expect((await who('permission=token:use')).body.errors).toHaveProperty('destination');
    expect((await who('destination=there')).body.errors).toHaveProperty('destination');
    expect((await who('permission=token:use&destination=gone')).status).toBe(404);
  });

  test('AuthZEN takes the destination in the properties of the resource', async () => {
    const { key: backend, id } = await server.application(key, { rules: [use([payments])] });
    const evaluate = async (properties: object) => {
      const resource = { type: 'token', id: 'any', properties: { container: '/cards/', ...properties } };
      const body = { subject: { type: 'application', id }, action: { name: 'use' }, resource };
      return (await call('POST', '/access/v1/evaluation', body)).body.decision;
    };
    expect(await evaluate({ destination: 'payments' })).toBe(true);
    expect(await evaluate({ destination: 'mail' })).toBe(false);
    expect(await evaluate({})).toBe(false);
    expect(backend).toBeDefined();
  });
});
