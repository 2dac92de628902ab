/** What AuthZEN answers reveal about subjects whose key the caller does not send. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../../support/test-server.ts';

const rule = (container: string, transform: string, ...permissions: string[]) => ({
  priority: 1,
  container,
  transform,
  permissions,
});

describe.each(databases)('the rules of an AuthZEN subject on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key } = await server.tenant();
  const token = { id: 'card-42', container: '/customers/42/', data: 'secret' };
  expect((await server.call('POST', '/tokens', { key, body: token })).status).toBe(201);
  const rules = {
    all: [rule('/', 'mask', 'token:read', 'invoice:read')],
    customers: [{ ...rule('/customers/', 'mask', 'token:read', 'invoice:read'), description: 'For support' }],
    customer: [rule('/customers/42/', 'mask', 'token:read', 'invoice:read')],
    revealed: [rule('/customers/42/', 'reveal', 'token:read')],
    elsewhere: [rule('/elsewhere/', 'mask', 'token:read')],
    other: [rule('/customers/42/', 'mask', 'token:delete')],
    suspect: [rule('/customers/', 'reveal', 'token:read', 'token:delete')],
  };
  const subjects: { type: string; id: string }[] = [{ type: 'user', id: 'unknown' }];
  for (const [name, some] of Object.entries(rules)) {
    const { id } = await server.application(key, { name, permissions: undefined, rules: some });
    subjects.push({ type: 'user', id: name }, { type: 'application', id });
    if (name === 'suspect') await server.call('POST', `/applications/${id}/quarantine`, { key });
  }
  const authorizer = await server.application(key, { permissions: undefined, rules: rules.customers });
  const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
  for (const value of ['/customers/', '/customers/42/']) {
    const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value }];
    const granted = [{ priority: 1, conditions, transform: 'reveal', permissions: ['token:read'] }];
    const body = { nonce, rules: granted };
    expect((await server.call('POST', '/sessions/authorize', { key: authorizer.key, body })).status).toBe(
      204,
    );
  }
  const { data } = (await server.call('GET', '/sessions', { key })).body;
  subjects.push(...data.map(({ id }: { id: string }) => ({ type: 'session', id })));

  const resources = [
    { type: 'token', id: 'card-42' },
    { type: 'token', id: 'other', properties: { container: '/customers/42/' } },
    { type: 'token', id: 'other' },
    { type: 'invoice', id: '7', properties: { container: '/customers/42/7/' } },
  ];
  const ask = async (caller: string, subject: object, resource: object, name = 'read') =>
    (
      await server.call('POST', '/access/v1/evaluation', {
        key: caller,
        body: { subject, action: { name }, resource },
      })
    ).body;

  test('no answer to a caller with decision:create alone depends on them, except decision and transform', async () => {
    const permissions = ['decision:create', 'token:read'];
    for (const held of [permissions.slice(0, 1), permissions]) {
      const caller = await server.application(key, { permissions: held });
      const answers = new Set<string>();
      for (const subject of subjects)
        for (const resource of resources)
          for (const name of ['read', 'delete'])
            answers.add(JSON.stringify(await ask(caller.key, subject, resource, name)));
      const granted = 'the subject has access to this resource';
      const allowed = (transform: string) => ({ decision: true, context: { reason: granted, transform } });
      const reason = 'the subject is unknown or has no access to this resource';
      const expected = [
        { decision: false, context: { reason } },
        ...['mask', 'reveal', 'redact'].map(allowed),
      ];
      expect([...answers].sort()).toEqual(expected.map((answer) => JSON.stringify(answer)).sort());
    }
  });

  test.each([['access:review'], ['application:read']])('a caller with %s sees them', async (permission) => {
    const caller = await server.application(key, { permissions: ['decision:create', permission] });
    const [, container] = resources as [object, object];
    expect(await ask(caller.key, { type: 'user', id: 'customers' }, container)).toEqual({
      decision: true,
      context: {
        transform: 'mask',
        rule: { of: 'application', rule: 1, description: 'For support' },
        reason: expect.stringContaining('/customers/'),
      },
    });
    const denied = await ask(caller.key, { type: 'user', id: 'elsewhere' }, container);
    expect(denied.context.missing).toEqual({ permission: 'token:read', container: '/customers/42/' });
    expect((await ask(caller.key, { type: 'user', id: 'unknown' }, container)).context.reason).toBe(
      'the subject is unknown, or its name is not unique',
    );
  });

  test('an invalid key does not tell which tokens exist, and of which type they are', async () => {
    await server.call('POST', '/tokens', { key, body: { id: 'stored-card', type: 'card', data: 1 } });
    const web = await server.application(key, { type: 'public', permissions: ['decision:create'] });
    const subject = { type: 'user', id: 'x', properties: { credential: 'no key' } };
    const about = (type: string, id: string) => ask(web.key, subject, { type, id });
    const unknown = await about('token', 'not-stored');
    expect(await about('token', 'stored-card')).toEqual(unknown);
    expect(await about('card', 'stored-card')).toEqual(await about('card', 'not-stored'));
  });

  test('a caller sees its own, by id or name', async () => {
    const name = 'curious';
    const own = await server.application(key, { name, permissions: ['decision:create', 'token:read'] });
    for (const subject of [
      { type: 'application', id: own.id },
      { type: 'user', id: name },
    ])
      expect((await ask(own.key, subject, resources[1] as object)).context.rule).toEqual({
        of: 'application',
        rule: 'permissions',
      });
  });

  test.each([['subject'], ['resource'], ['action']])('a %s search needs access:review', async (entity) => {
    const caller = await server.application(key, { permissions: ['decision:create', 'application:read'] });
    const body = { subject: subjects[1], action: { name: 'read' }, resource: resources[0] };
    const { status } = await server.call('POST', `/access/v1/search/${entity}`, { key: caller.key, body });
    expect(status).toBe(403);
  });
});
