/** How AuthZEN requests map to applications, sessions, permissions and tokens. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { unknownKey } from '../../../support/keys.ts';
import { databases, openTestServer } from '../../../support/test-server.ts';

const [evaluation, evaluations] = ['/access/v1/evaluation', '/access/v1/evaluations'];
const subjects = '/access/v1/search/subject';
const read = { name: 'read' };
const card = { type: 'token', id: 'card-42' };
const rule = { priority: 1, container: '/customers/', transform: 'mask', permissions: ['token:read'] };

describe.each(databases)('AuthZEN on %s', async (_, database) => {
  const server = await openTestServer(database);
  let key: string;
  let desk: { id: string; key: string };

  beforeEach(async () => {
    ({ key } = await server.tenant());
    desk = await server.application(key, { name: 'Support desk', permissions: undefined, rules: [rule] });
    const token = { id: 'card-42', container: '/customers/42/', data: 'secret' };
    expect((await server.call('POST', '/tokens', { key, body: token })).status).toBe(201);
  });

  const ask = async (path: string, body: object, caller = key) =>
    (await server.call('POST', path, { key: caller, body })).body;
  const decide = (subject: object, resource: object = card, action = read, caller = key) =>
    ask(evaluation, { subject, action, resource }, caller);

  async function session(authorizer: string, grants: object) {
    const web = await server.application(key, { type: 'public', permissions: ['decision:create'] });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const granted = { nonce: body.nonce, ...grants };
    await server.call('POST', '/sessions/authorize', { key: authorizer, body: granted });
    const { data } = (await server.call('GET', `/sessions?application_id=${web.id}`, { key })).body;
    return { id: data[0].id as string, key: body.session_key as string, web: web.key as string };
  }

  test('a subject is an application by id or name, or identified by its key', async () => {
    const expected = { decision: true, context: { transform: 'mask', rule: { of: 'application', rule: 1 } } };
    for (const subject of [
      { type: 'application', id: desk.id },
      { type: 'application', id: desk.id.toUpperCase() },
      { type: 'user', id: 'Support desk' },
      { type: 'anything', id: 'any', properties: { credential: desk.key } },
    ])
      expect(await decide(subject)).toMatchObject(expected);
  });

  test('an unknown, foreign, expired or ambiguous subject is denied with one reason', async () => {
    const foreign = await server.application((await server.tenant()).key, { name: 'foreign' });
    await server.application(key, { name: 'twice' });
    await server.application(key, { name: 'twice' });
    const gone = await server.application(key, { name: 'gone' });
    await server.call('DELETE', `/applications/${gone.id}`, { key });
    for (const subject of [
      { type: 'application', id: crypto.randomUUID() },
      { type: 'application', id: 'Support desk' },
      { type: 'session', id: desk.id },
      { type: 'application', id: foreign.id },
      { type: 'user', id: 'foreign' },
      { type: 'user', id: 'twice' },
      { type: 'user', id: 'gone' },
      { type: 'user', id: 'support desk' },
      { type: 'user', id: 'a\u0000b' },
      { type: 'user', id: 'x', properties: { credential: foreign.key } },
      { type: 'user', id: 'Support desk', properties: { credential: unknownKey('pvt').secret.reveal() } },
    ])
      expect(await decide(subject)).toEqual({
        decision: false,
        context: { reason: 'the subject is unknown, or its name is not unique' },
      });
  });

  test('a key in an id is rejected and not repeated', async () => {
    const { status, body } = await server.call('POST', evaluation, {
      key,
      body: { subject: { type: 'application', id: desk.key }, action: read, resource: card },
    });
    expect([status, body.errors]).toEqual([
      400,
      { 'subject.id': ['must not contain a key: send it as properties.credential'] },
    ]);
    expect(JSON.stringify(body)).not.toContain(desk.key);
  });

  test('the permission consists of resource type and action, unless the action has a colon', async () => {
    const permissions = ['invoice:pay', 'invoice:line:read'];
    await server.application(key, { name: 'billing', permissions });
    const invoice = { type: 'invoice', id: '7' };
    const subject = { type: 'user', id: 'billing' };
    expect((await decide(subject, invoice, { name: 'pay' })).decision).toBe(true);
    expect((await decide(subject, invoice, { name: 'invoice:line:read' })).decision).toBe(true);
    expect((await decide(subject, { type: 'x', id: '7' }, { name: 'invoice:pay' })).decision).toBe(true);
    expect(await decide(subject, invoice, { name: 'void' })).toEqual({
      decision: false,
      context: {
        reason: 'this application does not have invoice:void in its permissions or rules',
        missing: { permission: 'invoice:void' },
      },
    });
    expect((await decide(subject, { ...invoice, type: 'Invoice' }, { name: 'PAY' })).decision).toBe(true);
    expect((await decide(subject, invoice, { name: 'Invoice:Pay' })).decision).toBe(false);
    expect((await decide(subject, invoice, { name: 'GET /' })).context).toEqual({
      reason: 'invoice:get / is not the name of a permission',
    });
    const { results } = await ask('/access/v1/search/action', { subject, resource: invoice });
    expect(results).toEqual([{ name: 'invoice:line:read' }, { name: 'pay' }]);
  });

  test('the container of a stored token replaces the one in the request', async () => {
    const subject = { type: 'user', id: 'Support desk' };
    const at = (id: string, container: string) => ({ type: 'token', id, properties: { container } });
    expect((await decide(subject, at('card-42', '/elsewhere/'))).decision).toBe(true);
    const rules = [{ ...rule, container: '/elsewhere/' }];
    await server.application(key, { name: 'elsewhere', permissions: undefined, rules });
    for (const type of ['token', 'Token', 'TOKEN'])
      expect(
        (await decide({ type: 'user', id: 'elsewhere' }, { ...at('card-42', '/elsewhere/'), type })).decision,
      ).toBe(false);
    expect((await decide(subject, at('other', '/Customers/7'))).decision).toBe(true);
    expect(await decide(subject, at('other', '/elsewhere/'))).toMatchObject({
      decision: false,
      context: { missing: { permission: 'token:read', container: '/elsewhere/' } },
    });
    const invalid = { subject, action: read, resource: at('other', 'a//b') };
    const { status } = await server.call('POST', evaluation, { key, body: invalid });
    expect(status).toBe(400);
  });

  test('other properties than credential, proof and container do not change a decision', async () => {
    const properties = { role: 'admin', status: 'archived', ownerID: 'x', soft: 'x', method: 'GET' };
    const subject = { type: 'user', id: 'Support desk' };
    for (const action of [read, { name: 'delete' }]) {
      const plain = await decide(subject, card, action);
      const body = {
        subject: { ...subject, properties },
        action: { ...action, properties: { ...properties, soft: false } },
        resource: { ...card, properties },
        context: properties,
      };
      expect(await ask(evaluation, body)).toEqual(plain);
    }
  });

  test('the container of a token is named only to callers that may read the token', async () => {
    const subject = { type: 'user', id: 'Support desk', properties: { credential: desk.key } };
    const gateway = await server.application(key, { permissions: ['decision:create'] });
    const web = await server.application(key, { type: 'public', permissions: ['decision:create'] });
    const remove = { name: 'delete' };
    expect((await decide(subject, card, remove)).context.missing.container).toBe('/customers/42/');
    for (const caller of [gateway.key, web.key])
      for (const action of [read, remove]) {
        const answer = await decide(subject, card, action, caller);
        expect(answer.decision).toBe(action === read);
        expect(JSON.stringify(answer)).not.toContain('customers');
        expect('rule' in answer.context).toBe(action === read && caller === gateway.key);
      }
  });

  test('a session is limited by its authorizer, and can ask only about itself', async () => {
    const conditions = [{ attribute: 'id', operator: 'equals', value: 'card-42' }];
    const rules = [{ priority: 1, conditions, transform: 'reveal', permissions: ['token:read'] }];
    const limited = await session(desk.key, { rules });
    const own = { type: 'session', id: limited.id };
    expect(await decide(own)).toMatchObject({
      decision: true,
      context: { transform: 'mask', rule: { of: 'authorizer' } },
    });
    const asking = await session(key, { permissions: ['decision:create', 'token:read'] });
    const itself = { type: 'session', id: asking.id };
    expect((await decide(itself, card, read, asking.key)).decision).toBe(true);
    const other = await decide(own, card, read, asking.key);
    expect([other.status, other.code]).toEqual([403, 'permission_missing']);
    await server.call('DELETE', `/sessions/${asking.id}`, { key });
    expect((await decide(itself)).decision).toBe(false);
  });

  test('a public key can ask only about keys that it sends', async () => {
    const page = await server.application(key, { type: 'public', permissions: ['decision:create'] });
    const named = await decide({ type: 'user', id: 'Support desk' }, card, read, page.key);
    expect([named.status, named.code]).toEqual([403, 'permission_missing']);
    const byId = await decide({ type: 'application', id: desk.id }, card, read, page.key);
    expect([byId.status, byId.code]).toEqual([403, 'permission_missing']);
    const sent = { type: 'user', id: 'any', properties: { credential: desk.key } };
    expect((await decide(sent, card, read, page.key)).decision).toBe(true);
  });

  test.each([
    ['execute_all', [true, false, true]],
    ['deny_on_first_deny', [true, false]],
    ['permit_on_first_permit', [true]],
  ])('%s returns the decisions %p', async (evaluations_semantic, expected) => {
    const { evaluations: decisions } = await ask(evaluations, {
      subject: { type: 'user', id: 'Support desk' },
      resource: card,
      options: { evaluations_semantic },
      evaluations: [{ action: read }, { action: { name: 'delete' } }, { action: read }],
    });
    expect(decisions.map(({ decision }: { decision: boolean }) => decision)).toEqual(expected);
  });

  test('an invalid evaluation is denied alone, with its error; more than 100 are rejected', async () => {
    const body = { subject: { type: 'user', id: 'Support desk' }, action: read, resource: card };
    const { evaluations: decisions } = await ask(evaluations, {
      ...body,
      evaluations: [{ resource: { type: 'token' } }, 'x', [], 5, null, {}],
    });
    expect(decisions.map(({ context }: { context: { error?: object } }) => context.error)).toEqual([
      { status: 400, message: 'resource.id is required' },
      ...Array(4).fill({ status: 400, message: 'the evaluation must be an object' }),
      undefined,
    ]);
    const many = { ...body, evaluations: Array(101).fill({}) };
    const { status } = await server.call('POST', evaluations, { key, body: many });
    expect(status).toBe(400);
  });

  test('a default that is not valid is an error of the evaluations that use it', async () => {
    const subject = { type: 'user', id: 'Support desk' };
    const { evaluations: decisions } = await ask(evaluations, {
      subject: { type: 'user' },
      action: read,
      resource: card,
      context: 'x',
      evaluations: [{ subject, context: {} }, { context: {} }, { subject }],
    });
    expect(decisions.map(({ context }: { context: { error?: object } }) => context.error)).toEqual([
      undefined,
      { status: 400, message: 'subject.id is required' },
      { status: 400, message: 'context must be an object' },
    ]);
    expect(decisions.slice(1).map(({ decision }: { decision: boolean }) => decision)).toEqual([false, false]);
    const single = await server.call('POST', evaluations, {
      key,
      body: { subject: { type: 'user' }, action: read },
    });
    expect(Object.keys(single.body.errors)).toEqual(['subject.id', 'resource']);
  });

  test('a bearer key is accepted and named in a 401 only here, and SVC-API-KEY takes precedence', async () => {
    const body = { subject: { type: 'user', id: 'x' }, action: read, resource: card };
    const call = (path: string, headers: Record<string, string>) =>
      server.call('POST', path, { body, headers });
    const bearer = { Authorization: `bearer ${key}` };
    expect((await call(evaluation, bearer)).status).toBe(200);
    const rejected = [
      await call(evaluation, { Authorization: `Basic ${key}` }),
      await call(evaluation, { ...bearer, 'SVC-API-KEY': 'x' }),
      await call('/decisions', bearer),
      await server.call('GET', '/applications', { headers: bearer }),
    ];
    expect(rejected.map(({ status, headers }) => [status, headers.get('www-authenticate')])).toEqual([
      [401, 'ApiKey header="SVC-API-KEY", Bearer'],
      [401, 'ApiKey header="SVC-API-KEY", Bearer'],
      [401, 'ApiKey header="SVC-API-KEY"'],
      [401, 'ApiKey header="SVC-API-KEY"'],
    ]);
  });

  test('names that no permission, type or id can have match nothing', async () => {
    const subject = { type: 'user', id: 'Support desk' };
    for (const odd of ['a\u0000b', '', '%', '"', '\\', '🗝', 'constructor', '__proto__']) {
      const action = { name: odd };
      for (const body of [
        { subject, action, resource: card },
        { subject, action: read, resource: { type: odd, id: odd } },
        { subject: { type: odd, id: odd }, action: read, resource: card },
      ]) {
        expect((await ask(evaluation, body)).decision).toBe(false);
        if (body.subject === subject) expect((await ask(subjects, body)).results).toEqual([]);
        expect((await ask('/access/v1/search/resource', body)).results).toEqual([]);
      }
    }
  });

  test('a page token is valid only for the search that returned it', async () => {
    for (const name of ['a', 'b', 'c']) await server.application(key, { name, rules: [rule] });
    const search = { subject: { type: 'application' }, action: read, resource: card };
    const seen: string[] = [];
    let token = '';
    do {
      const { page, results } = await ask(subjects, { ...search, page: { limit: 2, token } });
      seen.push(...results.map(({ id }: { id: string }) => id));
      token = page.next_token || 'end';
      if (token === 'end') break;
      const { status } = await server.call('POST', subjects, {
        key,
        body: { ...search, action: { name: 'delete' }, page: { token } },
      });
      expect(status).toBe(400);
    } while (seen.length < 20);
    const { data } = (await server.call('GET', '/applications', { key })).body;
    // All applications: the management application holds token:read, too.
    expect(seen).toEqual(data.map(({ id }: { id: string }) => id));
    expect(await ask(subjects, { ...search, page: { limit: 0 } })).toMatchObject({ results: [] });
  });
});
