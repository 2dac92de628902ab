import { describe, expect, test } from 'bun:test';
import { unknownKey } from '../../support/keys.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const read = 'token:read';
const card = { id: 'card-42', container: '/customers/42/' };

describe.each(databases)('decisions on %s', async (_, database) => {
  const server = await openTestServer(database);
  const management = (await server.tenant()).key;
  const guard = (await server.application(management, { permissions: ['decision:create'] })).key;

  /** Requests a decision, and checks that the response does not contain the credential. */
  async function ask(credential: string, permission: string, given: object, key = guard) {
    const answer = await server.call('POST', '/decisions', {
      key,
      body: { credential, permission, ...given },
    });
    if (credential.length > 20) expect(JSON.stringify(answer.body)).not.toContain(credential.slice(-43));
    return answer;
  }

  async function decision(credential: string, permission = read, resource: object = card, more = {}) {
    const { status, body } = await ask(credential, permission, { resource, ...more });
    expect(status).toBe(200);
    return body;
  }

  async function openSession(grants?: object, authorizer = management) {
    const web = await server.application(management, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    if (grants) {
      const given = { nonce: body.nonce, ...grants };
      const { status } = await server.call('POST', '/sessions/authorize', { key: authorizer, body: given });
      expect(status).toBe(204);
    }
    return { key: body.session_key as string, nonce: body.nonce as string, web };
  }

  const rule = { priority: 1, container: '/customers/', transform: 'reveal', permissions: [read] };

  const tokenPermissions = ['create', 'read', 'update', 'delete', 'search'].map((name) => `token:${name}`);

  test('a stored token with max_uses is masked, as AuthZEN says it is; another container tells nothing about it', async () => {
    const code = { id: 'code-42', container: '/Customers/42/', data: '123', max_uses: 1 };
    expect((await server.call('POST', '/tokens', { key: management, body: code })).status).toBe(201);
    const desk = await server.application(management, {
      permissions: [],
      rules: [{ ...rule, container: '/' }],
    });
    const transformOf = async (resource: object) => (await decision(desk.key, read, resource)).transform;
    expect(await transformOf({ id: code.id, container: '/customers/42/' })).toBe('mask');
    expect(await transformOf({ id: code.id })).toBe('mask');
    for (const resource of [
      { container: '/customers/42/' },
      { id: 'code-43' },
      { id: code.id, container: '/b/' },
    ])
      expect(await transformOf(resource)).toBe('reveal');
    const recorded = { resources: [{ id: code.id, container: code.container }], record: true };
    const wide = { ...rule, container: '/', permissions: [...tokenPermissions, 'route:get'] };
    const { id, key } = await server.application(management, { permissions: [], rules: [wide] });
    for (const permission of wide.permissions) {
      const [, action] = permission.startsWith('token:') ? permission.split(':') : ['', permission];
      const evaluation = {
        subject: { type: 'application', id },
        action: { name: action },
        resource: { type: 'token', id: code.id },
      };
      const authZen = await server.call('POST', '/access/v1/evaluation', {
        key: management,
        body: evaluation,
      });
      const decided = await decision(key, permission, { id: code.id, container: code.container });
      const expected = permission === 'route:get' ? 'reveal' : 'mask';
      expect([permission, decided.transform]).toEqual([permission, expected]);
      expect([permission, authZen.body.context.transform]).toEqual([permission, expected]);
    }
    const { body } = await ask(desk.key, read, recorded, management);
    expect(body.decisions).toMatchObject([{ transform: 'mask' }]);
  });

  test('an allowed decision has transform, principal, reason and rule, and with explain a trace', async () => {
    const desk = await server.application(management, {
      permissions: ['token:create'],
      rules: [{ ...rule, description: 'The desk' }],
    });
    const answer = {
      allowed: true,
      transform: 'reveal',
      principal: { kind: 'application', id: desk.id, application_id: desk.id },
      reason:
        'rule 1 grants token:read with the transform reveal: container /customers/42/ is in /customers/',
      rule: { of: 'application', rule: 1, description: 'The desk' },
    };
    expect(await decision(desk.key)).toEqual(answer);
    expect(await decision(desk.key, read, card, { explain: false })).toEqual(answer);
    expect(await decision(desk.key, read, card, { explain: true })).toEqual({
      ...answer,
      trace: [
        {
          of: 'application',
          rule: 1,
          priority: 1,
          transform: 'reveal',
          grants: true,
          matches: true,
          why: 'container /customers/42/ is in /customers/',
        },
        {
          of: 'application',
          rule: 'permissions',
          transform: 'mask',
          grants: false,
          matches: true,
          why: 'permissions without a rule apply to every resource',
        },
      ],
    });
  });

  test('a denial has the reason and the missing grant, but no transform and no rule', async () => {
    const desk = await server.application(management, { permissions: [], rules: [rule] });
    expect(await decision(desk.key, read, { id: 'card-42', container: '/pci/' })).toEqual({
      allowed: false,
      principal: { kind: 'application', id: desk.id, application_id: desk.id },
      reason: 'rule 1 grants token:read but does not match: container /pci/ is not in /customers/',
      missing: { permission: read, container: '/pci/' },
    });
  });

  test('the principal of a session has its application', async () => {
    const session = await openSession({ permissions: [read] });
    const { principal, allowed, transform, rule } = await decision(session.key);
    expect({ allowed, transform, rule }).toEqual({
      allowed: true,
      transform: 'mask',
      rule: { of: 'session', rule: 'permissions' },
    });
    expect(principal).toEqual({
      kind: 'session',
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      application_id: session.web.id,
    });
    expect(principal.id).not.toBe(session.web.id);
  });

  test('every invalid credential gets the same decision', async () => {
    const old = await server.application(management);
    await server.call('POST', `/applications/${old.id}/regenerate`, { key: management });
    const deleted = await server.application(management);
    await server.call('DELETE', `/applications/${deleted.id}`, { key: management });
    const { key: foreign } = await server.tenant();
    const foreignSession = (
      await server.call('POST', '/sessions', {
        key: (await server.application(foreign, { type: 'public' })).key,
      })
    ).body.session_key;
    const expires_at = new Date(server.clock.now() + 1000).toISOString();
    const expiring = await server.application(management, { expires_at });
    const short = await openSession({ permissions: [read], expires_at });
    const orphan = await openSession({ permissions: [read] });
    await server.call('DELETE', `/applications/${orphan.web.id}`, { key: management });
    const live = await openSession({ permissions: [read] });
    server.clock.advance(1000);

    const bad = [
      ...[unknownKey('pvt'), unknownKey('mgt'), unknownKey('pub'), unknownKey('ses'), unknownKey('non')].map(
        ({ secret }) => secret.reveal(),
      ),
      ...[old.key, deleted.key, foreign, foreignSession, expiring.key, short.key, orphan.key, live.nonce],
      ...[`${live.key.slice(0, -1)}!`, ` ${live.key}`, `${live.key}\n`, live.key.toUpperCase()],
      ...['', ' ', 'junk', '\u0000', '💥', "' or 1=1 --", 'slp_ses_', 'x'.repeat(20_000)],
    ];
    const replies = new Set<string>();
    for (const credential of bad) replies.add(JSON.stringify(await decision(credential)));
    expect([...replies]).toEqual([JSON.stringify({ allowed: false, reason: 'the credential is not valid' })]);
    expect((await decision(live.key)).allowed).toBe(true);
  });

  test('up to 100 resources get the same decisions as alone, in order', async () => {
    const desk = await server.application(management, {
      permissions: [],
      rules: [rule, { ...rule, priority: 2, container: '/pci/', transform: 'redact' }],
    });
    const resources = Array.from({ length: 100 }, (_, at) => ({
      id: `t-${at}`,
      container: ['/customers/1/', '/pci/', '/other/'][at % 3],
    }));
    const { body } = await ask(desk.key, read, { resources });
    expect(Object.keys(body)).toEqual(['principal', 'decisions']);
    expect(body.principal.id).toBe(desk.id);
    expect(body.decisions.map((one: { transform?: string }) => one.transform)).toEqual(
      resources.map((_, at) => ['reveal', 'redact', undefined][at % 3]),
    );
    for (const at of [0, 1, 2]) {
      const { principal, ...alone } = await decision(desk.key, read, resources[at]);
      expect(body.decisions[at]).toEqual(alone);
    }
    const invalid = await ask('junk', read, { resources: resources.slice(0, 2) });
    const denied = { allowed: false, reason: 'the credential is not valid' };
    expect(invalid.body).toEqual({ decisions: [denied, denied] });
  });

  test('without a resource, only grants for all resources match', async () => {
    const desk = await server.application(management, { permissions: ['token:create'], rules: [rule] });
    for (const given of [
      {},
      { resource: null },
      { resource: {} },
      { resource: { id: null, container: null } },
    ]) {
      expect((await ask(desk.key, 'token:create', given)).body.allowed).toBe(true);
      expect((await ask(desk.key, read, given)).body).toMatchObject({
        allowed: false,
        reason:
          'rule 1 grants token:read but does not match: no container was given to compare with /customers/',
      });
    }
  });

  test.each([
    ['no credential', 'credential', { credential: undefined }],
    ['a credential that is no string', 'credential', { credential: 7 }],
    ['no permission', 'permission', { permission: undefined }],
    ['a misspelt permission', 'permission', { permission: 'token:reed' }],
    ['a permission that is none', 'permission', { permission: 'everything' }],
    ['a container that is none', 'resource.container', { resource: { container: '//' } }],
    ['an empty id', 'resource.id', { resource: { id: '' } }],
    ['an unknown field of the resource', 'resource.type', { resource: { type: 'card' } }],
    ['an unknown field', 'key', { key: 'x' }],
    ['an explain that is no boolean', 'explain', { explain: 'yes' }],
    ['no resources', 'resources', { resources: [] }],
    ['101 resources', 'resources', { resources: Array(101).fill(card) }],
    ['a resource among resources that is none', 'resources.1', { resources: [card, 'card'] }],
    ['a resource and resources', 'resources', { resource: card, resources: [card] }],
  ])('%s is rejected without repeating the credential', async (_what, part, given) => {
    const credential = unknownKey('ses').secret.reveal();
    const body = { credential, permission: read, ...given };
    const answer = await server.call('POST', '/decisions', { key: guard, body });
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([part]);
    expect(JSON.stringify(answer.body)).not.toContain(credential);
  });

  test('an incomplete body or a wrong content type does not repeat the credential', async () => {
    const credential = unknownKey('pvt').secret.reveal();
    const text = `{"credential":"${credential}","permission":"token:read"`;
    for (const [body, type, status] of [
      [text, 'application/json', 400],
      [`${text}}`, 'text/plain', 415],
      [`${text},"resource":{"id":"${'x'.repeat(70_000)}"}}`, 'application/json', 413],
    ] as const) {
      const answer = await server.call('POST', '/decisions', {
        key: guard,
        body,
        headers: { 'Content-Type': type },
      });
      expect(answer.status).toBe(status);
      expect(JSON.stringify(answer.body)).not.toContain(credential);
    }
    expect(server.logged.join('\n')).not.toContain(credential);
  });

  test('custom permissions are decided by containers and conditions', async () => {
    const service = await server.application(management, {
      permissions: ['report:read'],
      rules: [
        { ...rule, container: '/invoices/', transform: 'redact', permissions: ['invoice:read'] },
        { ...rule, container: '/invoices/2026/', transform: 'mask', permissions: ['invoice:approve'] },
      ],
    });
    const invoice = { id: 'inv-1', container: '/invoices/2027/' };
    expect(await decision(service.key, 'report:read', invoice)).toMatchObject({ allowed: true });
    expect(await decision(service.key, 'invoice:read', invoice)).toMatchObject({ transform: 'redact' });
    expect((await decision(service.key, 'invoice:approve', invoice)).reason).toBe(
      'rule 1 matches but grants invoice:read, not invoice:approve',
    );
    const conditions = [{ attribute: 'id', operator: 'starts_with', value: 'inv-' }];
    const session = await openSession({
      rules: [{ priority: 1, transform: 'reveal', permissions: ['invoice:read'], conditions }],
    });
    expect(await decision(session.key, 'invoice:read', invoice)).toMatchObject({ transform: 'reveal' });
    expect((await decision(session.key, 'invoice:read', { id: 'order-1' })).reason).toBe(
      'rule 1 grants invoice:read but does not match: id order-1 does not start with inv-',
    );
  });

  test('the trace contains the rules of the authorizer, and the reason names it if it decides', async () => {
    const authorizer = await server.application(management, {
      permissions: [],
      rules: [{ ...rule, transform: 'redact', description: 'What the backend may' }],
    });
    const session = await openSession(
      {
        rules: [
          {
            ...rule,
            container: undefined,
            conditions: [{ attribute: 'id', operator: 'starts_with', value: 'card-' }],
          },
        ],
      },
      authorizer.key,
    );
    const narrowed = await decision(session.key, read, card, { explain: true });
    expect(narrowed).toMatchObject({
      allowed: true,
      transform: 'redact',
      reason:
        'this key is limited by its authorizer, whose rule 1 grants token:read with the transform redact: container /customers/42/ is in /customers/',
      rule: { of: 'authorizer', rule: 1, description: 'What the backend may' },
    });
    expect(narrowed.trace.map(({ of, rule }: { of: string; rule: unknown }) => [of, rule])).toEqual([
      ['session', 1],
      ['session', 'permissions'],
      ['authorizer', 1],
      ['authorizer', 'permissions'],
    ]);
    const body = { name: 'x', permissions: ['token:create'] };
    await server.call('PUT', `/applications/${authorizer.id}`, { key: management, body });
    expect((await decision(session.key)).reason).toBe(
      'this key is limited by its authorizer, which does not have token:read in its permissions or rules',
    );
    await server.call('DELETE', `/applications/${authorizer.id}`, { key: management });
    expect((await decision(session.key)).reason).toBe('the credential is not valid');
  });
});
