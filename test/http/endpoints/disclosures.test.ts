/** Responses with token data and their audit entries. */
import { describe, expect, test } from 'bun:test';
import { disclosuresOf } from '../../../src/audit/trail.ts';
import { compilePolicy, decideUnder } from '../../../src/domain/policy.ts';
import { failInserts } from '../../support/database.ts';
import { grants } from '../../support/grants.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const reveal = {
  priority: 1,
  container: '/cards/',
  transform: 'reveal',
  permissions: ['token:create', 'token:read', 'token:update'],
  description: 'support desk',
};
const mask = { ...reveal, priority: 2, container: '/notes/', transform: 'mask', description: undefined };
const plaintext = 'plaintext-4242';

test('a disclosure names the rule only if the same rule of the same owner decided for all its tokens', () => {
  const reveals = (container: string) => ({ container, transform: 'reveal' as const });
  const own = compilePolicy(grants(reveals('/a/'), reveals('/b/'), { container: '/c/', transform: 'mask' }));
  const above = compilePolicy(grants({ container: '/a/1/', transform: 'mask' }, reveals('/')));
  const rulesOf = (ceiling: typeof above | undefined, containers: string[], policy = own) => {
    const decided = containers.map((container) => {
      const verdict = decideUnder(policy, ceiling, 'token:read', { id: container, container });
      if (!verdict.allowed) throw new Error(`denied in ${container}`);
      return { token: { id: container, container }, verdict };
    });
    return disclosuresOf({ kind: 'session' }, decided).map(({ tokens, transform, rule }) => [
      transform,
      tokens.map(({ id }) => id),
      rule && `${rule.of} ${rule.rule}`,
    ]);
  };
  expect(rulesOf(undefined, ['/a/', '/a/1/'])).toEqual([['reveal', ['/a/', '/a/1/'], 'session 1']]);
  expect(rulesOf(undefined, ['/a/', '/c/', '/b/'])).toEqual([
    ['reveal', ['/a/', '/b/'], undefined],
    ['mask', ['/c/'], 'session 3'],
  ]);
  expect(rulesOf(above, ['/a/1/', '/c/'])).toEqual([['mask', ['/a/1/', '/c/'], undefined]]);
  // The first by the permissions of the session, the second by those of its authorizer.
  const [session, authorizer] = ['/b/', '/a/'].map((container) =>
    compilePolicy(grants('token:read', reveals(container))),
  );
  expect(rulesOf(authorizer, ['/a/', '/b/'], session)).toEqual([['mask', ['/a/', '/b/'], undefined]]);
  expect(rulesOf(authorizer, ['/b/'], session)).toEqual([['mask', ['/b/'], 'authorizer permissions']]);
});

describe.each(databases)('disclosures on %s', async (_, database) => {
  const server = await openTestServer(database);

  const create = (id: string, container: string, key: string, headers = {}) =>
    server.call('POST', '/tokens', {
      key,
      headers,
      body: { id, container, data: { number: plaintext }, mask: '{{ data.number | reveal_last: 2 }}' },
    });

  const { key: management } = await server.tenant();
  const desk: { id: string; key: string } = await server.application(management, {
    permissions: ['session:authorize'],
    rules: [reveal, mask],
  });
  for (const [id, container] of [
    ['card-1', '/Cards/42/'],
    ['card-2', '/cards/43/a/'],
    ['note-1', '/notes/'],
  ])
    await create(id as string, container as string, management);

  const entriesOf = async (requestId: string) => {
    const { body } = await server.call('GET', '/logs?size=100', { key: management });
    return body.data.filter((entry: { request_id?: string }) => entry.request_id === requestId);
  };

  const named = (id: string, more = {}) => ({ 'SVC-REQUEST-ID': id, ...more });
  const rule = { of: 'application', rule: 1, description: 'support desk' };
  const actor = () => ({ kind: 'application', id: desk.id, application_id: desk.id });

  test('a revealing read has an entry with resource, rule and purpose when its response arrives', async () => {
    const headers = named('read', { 'SVC-PURPOSE': 'ticket 4711' });
    const { body } = await server.call('GET', '/tokens/card-1', { key: desk.key, headers });
    expect(body.data).toEqual({ number: plaintext });
    expect(await entriesOf('read')).toEqual([
      expect.objectContaining({
        actor: actor(),
        operation: 'token.read',
        resource: { ids: ['card-1'], container: '/cards/42/' },
        decision: { transform: 'reveal', rule },
        purpose: 'ticket 4711',
        result: 'success',
      }),
    ]);
  });

  test('the entry of a session names the application that authorized it', async () => {
    const web = await server.application(management, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/42/' }];
    const rules = [{ priority: 1, transform: 'reveal', permissions: ['token:read'], conditions }];
    await server.call('POST', '/sessions/authorize', { key: desk.key, body: { nonce: body.nonce, rules } });
    await server.call('GET', '/tokens/card-1', { key: body.session_key, headers: named('by-session') });
    expect((await entriesOf('by-session')).map(({ actor }: { actor: object }) => actor)).toEqual([
      { kind: 'session', id: expect.any(String), application_id: web.id, authorized_by: desk.id },
    ]);
  });

  test('a list has one entry with the revealed tokens and their common container', async () => {
    const { body } = await server.call('GET', '/tokens', { key: desk.key, headers: named('list') });
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual(['note-1', 'card-2', 'card-1']);
    expect(await entriesOf('list')).toEqual([
      expect.objectContaining({
        operation: 'token.read',
        resource: { ids: ['card-2', 'card-1'], container: '/cards/' },
        decision: { transform: 'reveal', rule },
      }),
    ]);
  });

  test('the entry of a change records the data in its reply', async () => {
    await create('card-3', '/cards/', desk.key, named('create'));
    const decision = { transform: 'reveal', rule };
    expect(await entriesOf('create')).toMatchObject([
      {
        operation: 'token.create',
        entity: { id: 'card-3' },
        resource: { ids: ['card-3'], container: '/cards/' },
        decision,
      },
    ]);
    const patch = { key: desk.key, body: { container: '/cards/9/' }, headers: named('patch') };
    expect((await server.call('PATCH', '/tokens/card-3', patch)).body.data).toEqual({ number: plaintext });
    expect(await entriesOf('patch')).toMatchObject([
      { operation: 'token.update', resource: { ids: ['card-3'], container: '/cards/9/' }, decision },
    ]);
    await server.call('DELETE', '/tokens/card-3', { key: management, headers: named('delete') });
    expect(await entriesOf('delete')).toMatchObject([
      { resource: { ids: ['card-3'], container: '/cards/9/' } },
    ]);
  });

  test('an idempotent replay with plaintext has its own entry, one that is rejected has none', async () => {
    const replayed = (id: string, key = 'create') => named(id, { 'Idempotency-Key': key });
    await create('card-4', '/cards/', desk.key, replayed('first'));
    const again = await create('card-4', '/cards/', desk.key, replayed('again'));
    expect(again.body.data).toEqual({ number: plaintext });
    expect(await entriesOf('again')).toMatchObject([
      { operation: 'token.replay', resource: { ids: ['card-4'] }, decision: { transform: 'reveal', rule } },
    ]);
    const patch = (id: string) =>
      server.call('PATCH', '/tokens/card-4', {
        key: desk.key,
        body: { metadata: { a: 'b' } },
        headers: replayed(id, 'patch'),
      });
    await patch('patched');
    expect((await patch('patched-again')).body.data).toEqual({ number: plaintext });
    expect(await entriesOf('patched-again')).toMatchObject([
      { operation: 'token.replay', decision: { transform: 'reveal', rule } },
    ]);
    const changed = await create('card-4', '/cards/', desk.key, replayed('after-a-change'));
    expect(changed.body.code).toBe('idempotency_outdated');
    expect(await entriesOf('after-a-change')).toEqual([]);
  });

  test('a change that fails because of stored data has an entry about them, other failures have none', async () => {
    const patch = async (id: string, body: object) => {
      const answer = await server.call('PATCH', '/tokens/card-1', {
        key: desk.key,
        body,
        headers: named(id),
      });
      return [answer.status, await entriesOf(id)];
    };
    const told = {
      operation: 'token.read',
      resource: { ids: ['card-1'] },
      decision: { transform: 'reveal', rule },
    };
    expect(await patch('whole', { mask: '{{ data.number }}' })).toMatchObject([400, [told]]);
    const merged = { data: { more: 'x' }, mask: '{{ data.number }}{{ data.more }}' };
    expect(await patch('merged', merged)).toMatchObject([400, [told]]);
    expect(await patch('replaced', { data: '1', mask: '{{ data }}' })).toEqual([400, []]);
    expect(await patch('invalid', { type: '' })).toEqual([400, []]);
  });

  test('masked and redacted reads and HEAD have no entry by default', async () => {
    await server.call('GET', '/tokens/note-1', { key: desk.key });
    await server.call('GET', '/tokens?container=/notes/', { key: desk.key });
    await server.call('HEAD', '/tokens/card-1', { key: desk.key, headers: named('head') });
    await server.flush();
    const { body } = await server.call('GET', '/logs?operation=token.read&size=100', { key: management });
    const transforms = body.data.map(
      (entry: { decision: { transform: string } }) => entry.decision.transform,
    );
    expect(new Set(transforms)).toEqual(new Set(['reveal']));
    expect(await entriesOf('head')).toEqual([]);
  });

  test('if the entry cannot be written, the answer is 503 without plaintext', async () => {
    const replay = () => create('card-5', '/cards/', desk.key, { 'Idempotency-Key': 'later' });
    await replay();
    const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
    const answers = [
      await server.call('GET', '/tokens/card-1', { key: desk.key }),
      await server.call('GET', '/tokens', { key: desk.key }),
      await create('card-6', '/cards/', desk.key),
      await server.call('PATCH', '/tokens/card-1', { key: desk.key, body: { metadata: { a: 'b' } } }),
      await server.call('PATCH', '/tokens/card-1', { key: desk.key, body: { mask: '{{ data.number }}' } }),
      await replay(),
    ];
    const masked = await server.call('GET', '/tokens/note-1', { key: desk.key });
    await allow();
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503, 503]);
    expect(JSON.stringify(answers.map(({ body }) => body))).not.toContain(plaintext);
    expect(masked.status).toBe(200);
  });

  test.each([
    ['is too long', 'x'.repeat(201), 400],
    ['contains a control character', 'tab\there', 400],
    ['contains a key', 'for a key', 400],
    ['is empty', '', 200],
  ])('a request whose purpose %s is checked', async (_name, purpose, expected) => {
    const given = purpose === 'for a key' ? `for ${management}` : purpose;
    const headers = { 'SVC-PURPOSE': given };
    const { status, body } = await server.call('GET', '/tenants/self', { key: management, headers });
    expect(status).toBe(expected);
    expect(Object.keys(body.errors ?? {})).toEqual(expected === 400 ? ['svc-purpose'] : []);
  });

  test('a purpose in UTF-8 is logged as sent', async () => {
    const purpose = Buffer.from('Rückfrage').toString('latin1');
    await server.call('GET', '/tokens/card-1', {
      key: desk.key,
      headers: named('umlaut', { 'SVC-PURPOSE': purpose }),
    });
    expect(await entriesOf('umlaut')).toMatchObject([{ purpose: 'Rückfrage' }]);
  });
});
