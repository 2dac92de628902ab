/** `PUT /applications/{id}?dry_run=true`: what an update would change. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { accessOf } from '../../../../src/domain/access/change.ts';
import { compilePolicy } from '../../../../src/domain/policy.ts';
import { Random, randomContainer, randomGrants } from '../../../support/random-policy.ts';
import { databases, openTestServer } from '../../../support/test-server.ts';

const day = 24 * 60 * 60_000;
const read = (container: string, transform: string, priority = 1) => ({
  priority,
  container,
  transform,
  permissions: ['token:read'],
});

describe.each(databases)('the preview of an update on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'all' });
  let tenant: { id: string; key: string };
  let desk: { id: string; key: string; name: string };
  beforeEach(async () => {
    tenant = await server.tenant();
    const rules = [read('/cards/', 'reveal')];
    desk = await server.application(tenant.key, { name: 'desk', permissions: [], rules });
  });

  const preview = (body: object, query = '', key = tenant.key, id = desk.id) =>
    server.call('PUT', `/applications/${id}?dry_run=true${query}`, { key, body: { name: 'desk', ...body } });

  async function token(id: string, container: string, max_uses?: number): Promise<void> {
    const body = { id, container, data: { number: '4242' }, max_uses };
    expect((await server.call('POST', '/tokens', { key: tenant.key, body })).status).toBe(201);
  }

  async function session(authorizer: string, value = '/cards/', id?: string) {
    const web = await server.application(tenant.key, { name: 'web', type: 'public', permissions: ['a:b'] });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const conditions = [
      { attribute: 'container', operator: 'starts_with', value },
      ...(id === undefined ? [] : [{ attribute: 'id', operator: 'equals', value: id }]),
    ];
    const rules = [{ priority: 1, conditions, transform: 'reveal', permissions: ['token:read'] }];
    const grant = { key: authorizer, body: { nonce: body.nonce, rules } };
    expect((await server.call('POST', '/sessions/authorize', grant)).status).toBe(204);
    return { key: body.session_key as string, application: web.id as string };
  }

  const readToken = async (key: string, id: string) =>
    expect((await server.call('GET', `/tokens/${id}`, { key })).status).toBe(200);

  test('counts sessions, tokens by container and recorded reads, and changes nothing', async () => {
    await token('card-1', '/cards/1/');
    await token('card-2', '/Cards/2/');
    await token('old-1', '/cards/old/1/');
    await token('other', '/general/');
    const limited = await session(desk.key);
    await session(tenant.key);
    for (const id of ['card-1', 'card-1', 'card-2', 'old-1']) await readToken(desk.key, id);
    await readToken(limited.key, 'card-1');
    expect((await server.call('GET', '/tokens', { key: desk.key })).body.data).toHaveLength(3);
    await server.flush();
    const path = `/applications/${desk.id}`;
    const unchanged = (await server.call('GET', path, { key: tenant.key })).body;
    const logged = (await server.call('GET', '/logs?size=100', { key: tenant.key })).body.data.length;

    const { status, body } = await preview({
      rules: [read('/cards/', 'mask'), read('/cards/old/', 'redact')],
    });
    expect(status).toBe(200);
    const [toMask, toRedact] = [
      { permission: 'token:read', from: 'reveal', to: 'mask' },
      { permission: 'token:read', from: 'reveal', to: 'redact' },
    ];
    expect(body.changes).toEqual([
      { ...toMask, container: '/cards/' },
      { ...toRedact, container: '/cards/old/' },
    ]);
    expect(body.sessions).toMatchObject({ count: 1, complete: true });
    expect(body.sessions.data[0]).toMatchObject({
      application: { id: limited.application, name: 'web' },
      ...toRedact,
      container: '/cards/old/',
    });
    expect(body.tokens).toEqual({
      complete: true,
      data: [
        { ...toMask, container: '/cards/', count: 2 },
        { ...toRedact, container: '/cards/old/', count: 1 },
      ],
    });
    // A list of tokens counts as one read. Of the changes of its tokens, the strictest counts.
    expect(body.reads).toEqual({
      since: new Date(server.clock.now() - 30 * day).toISOString(),
      recorded: 'all',
      complete: true,
      undecided: 0,
      data: [
        { ...toMask, count: 4, applications: 2 },
        { ...toRedact, count: 2, applications: 1 },
      ],
    });
    expect((await server.call('GET', path, { key: tenant.key })).body).toEqual(unchanged);
    const entries = (await server.call('GET', '/logs?size=100', { key: tenant.key })).body.data;
    expect(entries).toHaveLength(logged);
  });

  test('reads of ended sessions count, masked reads count by container, and older reads do not', async () => {
    await token('card-1', '/cards/1/');
    const rules = [read('/cards/', 'mask')];
    const clerk = await server.application(tenant.key, { permissions: [], rules });
    await readToken(clerk.key, 'card-1');
    const limited = await session(clerk.key, '/cards/', 'card-1');
    const [{ id }] = (await server.call('GET', '/sessions?state=active', { key: tenant.key })).body.data;
    for (let count = 0; count < 3; count++) await readToken(limited.key, 'card-1');
    await server.call('DELETE', `/sessions/${id}`, { key: tenant.key });
    await server.flush();
    const counts = async (days: number) => {
      const { body } = await preview(
        { rules: [read('/cards/1/', 'redact')] },
        `&days=${days}`,
        tenant.key,
        clerk.id,
      );
      expect(body.sessions.count).toBe(0);
      return body.reads.data;
    };
    const change = { permission: 'token:read', from: 'mask', to: 'redact' };
    expect(await counts(1)).toEqual([{ ...change, count: 4, applications: 2 }]);
    server.clock.advance(2 * day);
    expect(await counts(1)).toEqual([]);
    expect(await counts(3)).toEqual([{ ...change, count: 4, applications: 2 }]);
  });

  const reads = async (rules: object[], id = desk.id) => {
    const { undecided, data } = (await preview({ rules }, '', tenant.key, id)).body.reads;
    return { undecided, data };
  };
  const changed = { permission: 'token:read', count: 1, applications: 1 };

  test('reads of tokens that an entry does not name are undecided where these could change otherwise', async () => {
    const clerk = await server.application(tenant.key, { permissions: [], rules: [read('/cards/', 'mask')] });
    await token('oldest', '/cards/old/');
    for (let count = 0; count < 20; count++) await token(`card-${count}`, '/cards/');
    const list = await server.call('GET', '/tokens?size=100', { key: clerk.key });
    expect(list.body.data).toHaveLength(21);
    await server.flush();
    expect(await reads([read('/cards/', 'mask'), read('/cards/old/', 'redact')], clerk.id)).toEqual({
      undecided: 1,
      data: [],
    });
    expect(await reads([read('/cards/', 'redact')], clerk.id)).toEqual({
      undecided: 0,
      data: [{ ...changed, from: 'mask', to: 'redact' }],
    });
    // The oldest could have max_uses. Then it would not change.
    expect(await reads([read('/cards/', 'reveal')], clerk.id)).toEqual({ undecided: 1, data: [] });
  });

  test('a read that asked for less than the rules allow changes only if it gets even less', async () => {
    await token('card', '/cards/');
    await server.call('GET', '/tokens/card?transform=mask', { key: desk.key });
    await server.flush();
    for (const [to, data] of [
      ['mask', []],
      ['redact', [{ ...changed, from: 'mask', to: 'redact' }]],
    ] as const)
      expect(await reads([read('/cards/', to)])).toEqual({ undecided: 0, data });
  });

  test('masked reads of deleted tokens are undecided where a token with max_uses would change otherwise', async () => {
    const rules = [read('/cards/', 'mask')];
    const clerk = await server.application(tenant.key, { permissions: [], rules });
    for (const [id, max_uses] of [
      ['used', 1],
      ['plain', undefined],
    ] as const) {
      await token(id, `/cards/${id}/`, max_uses);
      await readToken(desk.key, id);
      await readToken(clerk.key, id);
      await server.call('DELETE', `/tokens/${id}`, { key: tenant.key });
    }
    await server.flush();
    const [plain, used] = [
      { ...changed, from: 'reveal' },
      { ...changed, from: 'mask' },
    ];
    expect(await reads([read('/cards/', 'mask')])).toEqual({
      undecided: 0,
      data: [{ ...plain, to: 'mask' }],
    });
    const denied = await reads([read('/other/', 'reveal')]);
    expect(denied).toEqual({
      undecided: 0,
      data: [
        { ...used, to: 'denied' },
        { ...plain, to: 'denied' },
      ],
    });
    expect(await reads([read('/cards/', 'reveal')], clerk.id)).toEqual({ undecided: 2, data: [] });
    // Neither a token with max_uses nor another one changes.
    expect(await reads([read('/cards/', 'mask'), read('/other/', 'mask')], clerk.id)).toEqual({
      undecided: 0,
      data: [],
    });
    await server.call('PUT', `/applications/${desk.id}`, {
      key: tenant.key,
      body: { name: 'desk', rules: [read('/cards/', 'mask')] },
    });
    const redacted = await reads([read('/cards/', 'redact')]);
    expect(redacted).toEqual({ undecided: 0, data: [{ ...used, count: 2, to: 'redact' }] });
  });

  test.each([1, 2])('agrees with decisions about random rules, tokens and reads (seed %d)', async (seed) => {
    const random = new Random(seed);
    const before = randomGrants(random, 'application');
    const after = randomGrants(random, 'application');
    for (const grants of [before, after]) {
      const open = { priority: 9, container: '/', transform: 'reveal' as const, permissions: ['token:read'] };
      const rules = grants.rules.map((rule) => ({ ...rule, container: rule.container ?? '/' }));
      grants.rules = [...rules, { ...open, description: undefined, conditions: undefined }];
    }
    const own = await server.application(tenant.key, before);
    const [old, next] = [compilePolicy(before), compilePolicy(after)];
    const [tokens, reads] = [new Map<string, number>(), new Map<string, number>()];
    const count = (counts: Map<string, number>, [from, to]: readonly string[]) => {
      if (from !== to) counts.set(`${from} to ${to}`, (counts.get(`${from} to ${to}`) ?? 0) + 1);
    };
    for (let index = 0; index < 30; index++) {
      const max_uses = index % 3 === 0 ? 1 : undefined;
      // In different containers, because masked reads of one container are counted together.
      const container = `${randomContainer(random)}${max_uses ? '/limited' : ''}`.replace('//', '/');
      await token(`t.${index}`, container, max_uses);
      const purpose = index % 2 === 0 ? undefined : 'support';
      const headers: Record<string, string> = purpose ? { 'SVC-PURPOSE': purpose } : {};
      await server.call('GET', `/tokens/t.${index}`, { key: own.key, headers });
      const resource = { container, max_uses };
      const access = [old, next].map((policy) => accessOf(policy, undefined, 'token:read', resource));
      count(tokens, access);
      const received = purpose ? 'reveal' : 'mask';
      count(
        reads,
        access.map((one) => (one === 'reveal_with_purpose' ? received : one)),
      );
    }
    await server.flush();
    const { body } = await preview(after, '', tenant.key, own.id);
    const counted = (data: { permission: string; from: string; to: string; count: number }[]) => {
      const sums = new Map<string, number>();
      for (const { permission, from, to, count } of data)
        if (permission === 'token:read')
          sums.set(`${from} to ${to}`, (sums.get(`${from} to ${to}`) ?? 0) + count);
      return sums;
    };
    expect(reads.size).toBeGreaterThan(0);
    expect(counted(body.tokens.data)).toEqual(tokens);
    expect(counted(body.reads.data)).toEqual(reads);
    expect(body.reads.undecided).toBe(0);
  });

  test('needs access:review, and fails like the update', async () => {
    const editor = await server.application(tenant.key, { permissions: ['application:update'] });
    const denied = await preview({ permissions: ['token:read'] }, '', editor.key);
    expect([denied.status, denied.body.code]).toEqual([403, 'permission_missing']);
    const reviewer = await server.application(tenant.key, {
      permissions: ['application:update', 'access:review'],
    });
    const escalation = await preview({ permissions: ['log:read'] }, '', reviewer.key);
    expect([escalation.status, escalation.body.code]).toEqual([403, 'grant_not_held']);
    expect((await preview({ permissions: ['token:read'] }, '', reviewer.key)).status).toBe(200);
    expect((await preview({ permissions: [] })).status).toBe(400);
    expect((await preview({ permissions: ['token:read'] }, '&days=0')).body.errors).toHaveProperty('days');
    const other = await server.tenant();
    expect((await preview({ permissions: ['token:read'] }, '', other.key)).status).toBe(404);
    const body = { name: 'desk', permissions: ['token:read'] };
    const put = (query: string) =>
      server.call('PUT', `/applications/${desk.id}?${query}`, { key: tenant.key, body });
    expect((await put('dry_run=yes')).status).toBe(400);
    expect((await put('days=3')).status).toBe(400);
    expect((await put('dry_run=false')).body.permissions).toEqual(['token:read']);
  });

  test('in quarantine, shows the impact after the release', async () => {
    await session(desk.key);
    await server.call('POST', `/applications/${desk.id}/quarantine`, { key: tenant.key });
    const { body } = await preview({ rules: [read('/cards/', 'mask')] });
    expect(body.quarantined).toBe(true);
    expect(body.changes).toHaveLength(1);
    expect(body.sessions.data).toMatchObject([{ from: 'reveal', to: 'mask' }]);
  });
});
