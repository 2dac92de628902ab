/** Who is in quarantine × on which node × which operation → the outcome. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { type ApiResponse, databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

type Json = ApiResponse['body'];
interface Holder {
  readonly id: string;
  readonly key: string;
}
interface Suspect extends Holder {
  readonly type: 'application' | 'session' | 'delegation';
  /** What is put into quarantine. */
  readonly path: string;
  /** Whose quarantine it is, as reviews say. */
  readonly named: { readonly type: string; readonly id: string; readonly name: string };
  readonly limitedBy?: string;
}

const card = { id: 'card-42', container: '/cards/' };
const data = { number: '4242' };
const permissions = ['token:read', 'token:create', 'token:update', 'token:delete'];
const rule = { priority: 1, transform: 'reveal', permissions };
const rules = [{ ...rule, container: '/cards/' }];
const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
const changes: [operation: string, method: string, path: string, body?: object][] = [
  ['token.create', 'POST', '/tokens', { container: '/cards/', data: 'x' }],
  ['token.update', 'PATCH', '/tokens/card-42', { metadata: {} }],
  ['token.delete', 'DELETE', '/tokens/card-42'],
];

describe.each(databases)('quarantine on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const other = await openTestServer(server.config.databaseUrl);
  const nodes = [other, server];
  let key: string;
  let web: Holder;
  beforeEach(async () => {
    ({ key } = await server.tenant());
    web = await server.application(key, { name: 'web', type: 'public', permissions: ['token:create'] });
    await done('POST', '/tokens', { ...card, data });
  });

  const send = (method: string, path: string, body?: object, as = key, node = server) =>
    node.call(method, path, { key: as, body });
  async function done(...request: Parameters<typeof send>): Promise<Json> {
    const { status, body } = await send(...request);
    expect([request[1], status < 300]).toEqual([request[1], true]);
    return body;
  }
  const newDesk = (held: string[] = []): Promise<Holder> =>
    server.application(key, { name: 'desk', permissions: held, rules });
  const begin = () => done('POST', '/sessions', undefined, web.key);

  async function session(authorizer = key): Promise<Holder> {
    const { nonce, session_key } = await begin();
    await done('POST', '/sessions/authorize', { nonce, rules: [{ ...rule, conditions }] }, authorizer);
    const [{ id }] = (await done('GET', '/sessions')).data;
    return { id, key: session_key };
  }
  async function delegation(issuer: Holder): Promise<Holder> {
    const made = await done('POST', '/delegations', { rules: [{ ...rule, conditions }] }, issuer.key);
    const [{ id }] = (await done('GET', '/sessions?kind=delegation')).data;
    return { id, key: made.key };
  }

  const application = ({ id }: Holder, name: string) => ({
    path: `/applications/${id}`,
    named: { type: 'application', id, name },
  });
  const itself = (one: Holder, type: string, name: string) => ({
    path: `/sessions/${one.id}`,
    named: { type, id: one.id, name },
  });
  async function authorizedBy(held: string[], limitedBy?: string): Promise<Suspect> {
    const desk = await newDesk(held);
    const of = application(desk, 'desk');
    return { type: 'session', ...(await session(desk.key)), ...of, ...(limitedBy && { limitedBy }) };
  }

  const suspects: [who: string, blamed: string, make: () => Promise<Suspect>][] = [
    [
      'an application',
      'the application',
      async () => {
        const desk = await newDesk();
        return { ...desk, type: 'application', ...application(desk, 'desk') };
      },
    ],
    [
      'a session',
      'the session',
      async () => {
        const own = await session();
        return { type: 'session', ...own, ...itself(own, 'session', 'web') };
      },
    ],
    [
      'a session, with its application',
      'the application',
      async () => ({ type: 'session', ...(await session()), ...application(web, 'web') }),
    ],
    ['a session, with the authorizer that limits it', 'the authorizer', () => authorizedBy([], 'desk')],
    [
      'a session, with an authorizer that holds session:authorize',
      'the authorizer',
      () => authorizedBy(['session:authorize']),
    ],
    [
      'a session, with an authorizer that holds application:create',
      'the authorizer',
      () => authorizedBy(['application:create']),
    ],
    [
      'a delegation',
      'the delegation',
      async () => {
        const own = await delegation(await newDesk());
        return { type: 'delegation', ...own, ...itself(own, 'delegation', 'desk'), limitedBy: 'desk' };
      },
    ],
    [
      'a delegation, with its application',
      'the application',
      async () => {
        const desk = await newDesk();
        const own = await delegation(desk);
        return { type: 'delegation', ...own, ...application(desk, 'desk'), limitedBy: 'desk' };
      },
    ],
  ];

  /** What the key can read, and the code of a change, on every node. */
  async function access(as: string, sent = [changes[1]!]) {
    const seen: unknown[] = [];
    for (const node of nodes) {
      const one = await done('GET', '/tokens/card-42', undefined, as, node);
      const list = await done('GET', '/tokens?id=card-42', undefined, as, node);
      const codes: unknown[] = [];
      for (const [, method, path, body] of sent) {
        const answer = await send(method, path, body, as, node);
        codes.push(answer.body.code ?? answer.status);
      }
      seen.push([one.data, list.data.map((token: Json) => token.data), codes]);
    }
    return seen;
  }
  const free = Array(2).fill([data, [data], [200]]);
  const suspected = Array(2).fill([undefined, [undefined], changes.map(() => 'quarantined')]);

  /** What decisions, AuthZEN and the access review say about it. */
  async function reports({ id, type, key: credential }: Suspect) {
    const decide = (permission: string) =>
      done('POST', '/decisions', { credential, permission, resource: card, explain: true });
    const [read, update, foreign] = [
      await decide('token:read'),
      await decide('token:update'),
      await decide('invoice:pay'),
    ];
    const evaluation = {
      subject: { type, id },
      action: { name: 'read' },
      resource: { type: 'token', id: card.id },
    };
    const { context } = await done('POST', '/access/v1/evaluation', evaluation);
    const who = async (permission: string) => {
      const { data } = await done('GET', `/access/who?token=card-42&permission=${permission}`);
      return data.find(({ subject }: Json) => subject.id === id);
    };
    const [reader, deleter] = [await who('token:read'), await who('token:delete')];
    return {
      read: [read.allowed, read.transform, read.reason, read.trace[0].transform],
      update: [update.allowed, update.reason, update.missing],
      isForeignAllowed: foreign.allowed,
      evaluated: [context.transform, context.reason],
      reviewed: [reader.transform, reader.quarantine, reader.limited_by?.name, deleter?.transform],
    };
  }

  async function logged(query: string) {
    for (const node of nodes) await node.flush();
    return (await done('GET', `/logs?size=100&${query}`)).data as Json[];
  }

  test.each(suspects)(
    '%s reads without data and changes nothing, on every node, until the release',
    async (_who, blamed, make) => {
      const [suspect, neighbour] = [await make(), await session()];
      const isOfWeb = suspect.path === `/applications/${web.id}`;
      expect(await access(suspect.key)).toEqual(free);
      const before = await reports(suspect);
      expect(before.read.slice(0, 2)).toEqual([true, 'reveal']);
      expect(before.reviewed).toEqual(['reveal', undefined, suspect.limitedBy, 'reveal']);
      const { quarantined_at } = await done('POST', `${suspect.path}/quarantine`);
      expect(quarantined_at).toBe(new Date(server.clock.now()).toISOString());

      expect(await access(suspect.key, changes)).toEqual(suspected);
      if (!isOfWeb) expect(await access(neighbour.key)).toEqual(free);
      const reason = `${blamed} is in quarantine: token:read has the transform redact`;
      expect(await reports(suspect)).toEqual({
        read: [true, 'redact', reason, 'redact'],
        update: [false, `${blamed} is in quarantine: token:update cannot be used`, undefined],
        isForeignAllowed: false,
        evaluated: ['redact', reason],
        reviewed: ['redact', suspect.named, suspect.limitedBy, undefined],
      });
      const denied = await logged(`actor=${suspect.id}&result=denied`);
      expect(new Set(denied.map(({ operation }) => operation))).toEqual(
        new Set(changes.map(([name]) => name)),
      );
      for (const { decision } of denied) expect(decision.reason).toBe(`${blamed} is in quarantine`);
      const [reading] = await logged(`actor=${suspect.id}&operation=token.read`);
      expect(reading).toMatchObject({ decision: { transform: 'redact' }, resource: { ids: ['card-42'] } });

      await done('DELETE', `${suspect.path}/quarantine`);
      expect(await access(suspect.key)).toEqual(free);
      expect(await reports(suspect)).toEqual(before);
    },
  );

  test('an application in quarantine begins and authorizes no sessions, and shows its own rules', async () => {
    const desk = await server.application(key, { permissions: ['application:read'], rules });
    const { nonce } = await begin();
    for (const { id } of [desk, web]) await done('POST', `/applications/${id}/quarantine`);
    for (const [as, path, body] of [
      [desk.key, '/sessions/authorize', { nonce, permissions: ['token:read'] }],
      [web.key, '/sessions', undefined],
    ] as const) {
      const { status, body: answer } = await send('POST', path, body, as, other);
      expect([path, status, answer.code]).toEqual([path, 403, 'quarantined']);
    }
    const denied = await logged('result=denied');
    expect(denied.map(({ operation }) => operation).sort()).toEqual(['session.authorize', 'session.create']);
    expect((await done('GET', '/applications/key', undefined, desk.key)).rules[0].transform).toBe('reveal');
  });

  test('permissions to read can be used without a rule, and get the transform redact', async () => {
    const held = ['application:read', 'decision:create'];
    const desk = await server.application(key, {
      permissions: held,
      rules: [{ ...rules[0], permissions: ['invoice:read', 'invoice:pay'] }],
    });
    await done('POST', `/applications/${desk.id}/quarantine`);
    const decide = (permission: string) =>
      done('POST', '/decisions', { credential: desk.key, permission, resource: card });
    for (const permission of ['invoice:read', 'application:read'])
      expect(await decide(permission)).toMatchObject({ allowed: true, transform: 'redact' });
    const { allowed, reason, missing } = await decide('invoice:pay');
    expect([allowed, missing]).toEqual([false, undefined]);
    expect(reason).toBe('the application is in quarantine: invoice:pay cannot be used');
  });

  test.each([
    ['an application', 'application', async () => `/applications/${(await newDesk()).id}`],
    ['a session', 'session', async () => `/sessions/${(await session()).id}`],
  ])('the quarantine of %s is recorded once, and a release twice is none', async (_who, noun, make) => {
    const path = await make();
    const entity = path.split('/')[2];
    const first = await done('POST', `${path}/quarantine`);
    server.clock.advance(1000);
    expect(await done('POST', `${path}/quarantine`)).toEqual(first);
    const listed = async () => (await done('GET', `/${noun}s?id=${entity}`, undefined, key, other)).data;
    expect(await listed()).toEqual([first]);
    for (let time = 0; time < 2; time++)
      expect((await send('DELETE', `${path}/quarantine`)).status).toBe(204);
    const { quarantined_at, ...released } = first;
    expect(await listed()).toEqual([
      noun === 'session' ? released : expect.not.objectContaining({ quarantined_at: expect.anything() }),
    ]);
    const recorded = (await logged(`entity=${entity}&result=success`))
      .filter(({ difference }) => difference?.quarantined_at)
      .map(({ operation, difference }) => [operation, difference.quarantined_at]);
    expect(recorded).toEqual([
      [`${noun}.release`, { from: quarantined_at }],
      [`${noun}.quarantine`, { to: quarantined_at }],
    ]);
  });

  test('an update does not end the quarantine of an application, and cannot change its time', async () => {
    const path = `/applications/${(await newDesk()).id}`;
    const { quarantined_at, ...first } = await done('POST', `${path}/quarantine`);
    const updated = await done('PUT', path, { ...first, quarantined_at, name: 'help desk' });
    expect(updated.quarantined_at).toBe(quarantined_at);
    const changed = { ...first, quarantined_at: new Date(0).toISOString() };
    expect((await send('PUT', path, changed)).status).toBe(400);
  });

  test('the quarantine of an application needs every management permission that it has', async () => {
    const deputy = await server.application(key, { permissions: ['application:update'] });
    const auditor = await server.application(key, { permissions: ['log:read'] });
    const plain = await newDesk();
    for (const method of ['POST', 'DELETE']) {
      const refused = await send(method, `/applications/${auditor.id}/quarantine`, undefined, deputy.key);
      expect([refused.status, refused.body.code]).toEqual([403, 'grant_not_held']);
      await done(method, `/applications/${plain.id}/quarantine`, undefined, deputy.key);
    }
  });

  test.each(['deleted', 'expired'])('a session stays redacted after its authorizer is %s', async (how) => {
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const desk = await server.application(key, { permissions: ['session:authorize'], expires_at });
    const [suspect, neighbour] = [await session(desk.key), await session()];
    await done('POST', `/applications/${desk.id}/quarantine`);
    if (how === 'deleted') await done('DELETE', `/applications/${desk.id}`);
    else for (const node of nodes) node.clock.advance(60_000);
    expect(await access(suspect.key, changes)).toEqual(suspected);
    await server.flush();
    expect((await done('GET', `/sessions?id=${suspect.id}`)).data[0].quarantined_at).toBeString();
    expect(await access(suspect.key, changes)).toEqual(suspected);
    expect(await access(neighbour.key)).toEqual(free);
    await done('DELETE', `/sessions/${suspect.id}/quarantine`);
    expect(await access(suspect.key)).toEqual(free);
  });

  test('a pending session stays in quarantine when it is authorized', async () => {
    const { nonce, session_key } = await begin();
    const [{ id }] = (await done('GET', '/sessions')).data;
    expect((await done('POST', `/sessions/${id}/quarantine`)).state).toBe('pending');
    await done('POST', '/sessions/authorize', { nonce, rules: [{ ...rule, conditions }] });
    expect(await access(session_key, changes)).toEqual(suspected);
  });

  test('ended and expired sessions get 404', async () => {
    const [ended, expired] = [await session(), await session()];
    await done('DELETE', `/sessions/${ended.id}`);
    expect((await send('POST', `/sessions/${ended.id}/quarantine`)).status).toBe(404);
    server.clock.advance(180_000);
    expect((await send('POST', `/sessions/${expired.id}/quarantine`)).status).toBe(404);
  });
});
