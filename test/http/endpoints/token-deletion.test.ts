/** `DELETE /tokens?container=…`: deletes what is below a container. */
import { describe, expect, test } from 'bun:test';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { apiShell } from '../../support/shell.ts';
import { databases, manyConnections, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const all = ['token:create', 'token:read', 'token:update', 'token:delete'];
const rule = (container: string, more = {}) => ({
  priority: 1,
  container,
  transform: 'redact',
  permissions: ['token:delete'],
  ...more,
});
const when = (...conditions: [attribute: string, operator: string, value: string][]) => ({
  priority: 1,
  transform: 'redact',
  permissions: ['token:delete'],
  conditions: conditions.map(([attribute, operator, value]) => ({ attribute, operator, value })),
});

describe.each(databases)('deletion below a container on %s', async (_, database) => {
  const server = await openTestServer(database, manyConnections);

  const remove = (key: string, query: string, headers = {}) =>
    server.call('DELETE', `/tokens?${query}`, { key, headers });
  const idsOf = async (key: string) => {
    const { body } = await server.call('GET', '/tokens?size=100', { key });
    return body.data.map(({ id }: { id: string }) => id).sort() as string[];
  };
  const create = async (key: string, ...tokens: object[]) => {
    for (let at = 0; at < tokens.length; at += 100) {
      server.clock.advance(60_000);
      const body = { tokens: tokens.slice(at, at + 100) };
      expect((await server.call('POST', '/tokens/batch', { key, body })).status).toBe(201);
    }
  };
  const many = (count: number, fields: object, prefix = 't') =>
    Array.from({ length: count }, (_, at) => ({ id: `${prefix}-${at}`, data: at, ...fields }));
  const entries = async (key: string, query = '') =>
    (await server.call('GET', `/logs?operation=token.delete${query}`, { key })).body.data;
  const session = async (owner: string, authorizer: string, ...rules: object[]) => {
    const web = await server.application(owner, { type: 'public' });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, rules };
    const { status } = await server.call('POST', '/sessions/authorize', { key: authorizer, body: grant });
    expect(status).toBe(204);
    return body.session_key as string;
  };
  /** Deletes everything, and returns the numbers of all requests. */
  const removeAll = async (key: string, container: string) => {
    const counts: number[] = [];
    for (let start = ''; ; ) {
      const { status, body } = await remove(key, `container=${container}${start}`);
      expect(status).toBe(200);
      counts.push(body.deleted);
      if (body.next === undefined) return counts;
      start = `&start=${body.next}`;
    }
  };

  test('deletes the tokens in the container and below it, with all that is stored for them', async () => {
    const { id: tenant, key } = await server.tenant();
    const { id, key: own } = await server.application(key, { permissions: [...all, 'token:search'] });
    const tables = ['tokens', 'token_contents', 'token_containers', 'token_metadata', 'token_search'];
    const rows = async () => {
      const count = (table: string) =>
        runSql<{ rows: number }>(server.config.databaseUrl, `select count(*) as rows from ${table}`);
      return Promise.all(tables.map(async (table) => Number((await count(table))[0]?.rows)));
    };
    const before = await rows();
    const search = { pan: '{{ data }}' };
    const more = { metadata: { a: 'b' }, search };
    const expires_at = new Date(server.clock.now() + 180_000).toISOString();
    await create(
      own,
      { id: 'own', container: '/Customers/42/', data: '1', ...more },
      { id: 'below', container: '/customers/42/cards/old/', data: '2', ...more },
      { id: 'used', container: '/customers/42/', data: '3', max_uses: 1 },
      { id: 'expired', container: '/customers/42/', data: '4', expires_at },
      { id: 'sibling', container: '/customers/420/', data: '5', ...more },
      { id: 'above', container: '/customers/', data: '6' },
    );
    server.clock.advance(180_000);
    const { status, body } = await remove(own, 'container=customers/42');
    expect([status, body]).toEqual([200, { deleted: 3 }]);
    expect(await idsOf(own)).toEqual(['above', 'sibling']);
    for (const id of ['own', 'below', 'used'])
      expect((await server.call('GET', `/tokens/${id}`, { key: own })).status).toBe(404);
    const found = await server.call('POST', '/tokens/search', {
      key: own,
      body: { equals: { pan: '2' } },
    });
    expect(found.body.data).toEqual([]);
    const listed = await server.call('GET', '/tokens?metadata[a]=b', { key: own });
    expect(listed.body.data).toHaveLength(1);
    expect((await remove(own, 'container=/customers/42/')).body).toEqual({ deleted: 0 });
    // The expired token counts until the sweep.
    expect((await server.app.store.tokens.storageUsed(tenant, id)).tokens).toBe(3);
    await create(own, { id: 'own', container: '/customers/42/', data: 'new' });
    expect((await remove(own, 'container=/customers/')).body).toEqual({ deleted: 3 });
    expect((await server.app.store.tokens.storageUsed(tenant, id)).tokens).toBe(1);
    // Of the expired token, which has no metadata and two containers.
    expect(await rows()).toEqual(before.map((count, at) => count + ([1, 1, 2, 0, 0][at] as number)));
  });

  test('the container is required and not the root, and nothing else is accepted', async () => {
    const { key } = await server.tenant();
    await create(key, { id: 'kept', container: '/a/', data: 1 });
    const queries = ['', 'container=', 'container=/', 'container=//', 'container=/a//b/', 'container=/a/../'];
    for (const query of [
      ...queries,
      'container=/a/&container=/b/',
      'container=/a/&start=x',
      'container=/a/&page=1',
      'container=/a/&size=10',
      'container=/a/&id=kept',
      'container=/a/&type=card',
      'container=%2F',
      'start=AZfzwloefECdKz-OahtMXQ',
    ]) {
      const { status, body } = await remove(key, query);
      expect([query, status, body.code]).toEqual([query, 400, 'validation_failed']);
    }
    expect(await idsOf(key)).toEqual(['kept']);
  });

  const tokens = ['/a/', '/a/b/', '/a/b/c/', '/a-b/', '/b/'].flatMap((container) =>
    ['x', 'y'].map((name) => ({ id: `${name}${container.replaceAll('/', '.')}`, container, data: 1 })),
  );
  const anywhere = when(['container', 'starts_with', '/']);
  const cases: [name: string, own: object[], above: object[] | undefined][] = [
    ['a rule for the container', [rule('/a/')], undefined],
    ['a rule below it', [rule('/a/b/')], undefined],
    ['rules beside it', [rule('/b/'), rule('/a-b/')], undefined],
    [
      'a rule that requires a purpose',
      [rule('/a/', { transform: 'reveal', require_purpose: true })],
      undefined,
    ],
    [
      'a rule without the permission that comes first',
      [rule('/a/b/', { permissions: ['token:read'] }), rule('/a/', { priority: 2 })],
      undefined,
    ],
    ['a session for one container', [when(['container', 'equals', '/a/b/'])], [rule('/')]],
    ['a session for ids', [when(['id', 'starts_with', 'x'])], [rule('/')]],
    ['a session for one id', [when(['id', 'equals', 'x.a.b.'])], [rule('/')]],
    [
      'a session for ids in a container',
      [when(['id', 'starts_with', 'x'], ['container', 'starts_with', '/a/b/'])],
      [rule('/')],
    ],
    ['a session below its authorizer', [anywhere], [rule('/a/b/')]],
    [
      'a session beside its authorizer',
      [when(['container', 'starts_with', '/a/']), when(['container', 'equals', '/b/'])],
      [rule('/b/')],
    ],
    [
      'a session whose scopes and those of its authorizer are many',
      Array.from({ length: 50 }, (_, at) => when(['id', 'starts_with', at ? `n${at}` : 'x'])),
      Array.from({ length: 50 }, (_, at) => rule(at ? `/a/n${at}/` : '/a/b/')),
    ],
  ];

  test.each(cases)('%s: each token is decided as its deletion by id is', async (_, own, above) => {
    const outcomes = [];
    for (const inBulk of [true, false]) {
      const { key } = await server.tenant();
      await create(key, ...tokens);
      const application = await server.application(key, { permissions: [], rules: above ?? own });
      const caller = above ? await session(key, application.key, ...own) : application.key;
      const deleted = inBulk
        ? (await removeAll(caller, '/a/')).reduce((sum, count) => sum + count, 0)
        : undefined;
      if (!inBulk)
        for (const { id, container } of tokens)
          if (container.startsWith('/a/')) await server.call('DELETE', `/tokens/${id}`, { key: caller });
      const kept = await idsOf(key);
      if (inBulk) expect(deleted).toBe(tokens.length - kept.length);
      outcomes.push(kept);
    }
    expect(outcomes[0]).toEqual(outcomes[1] as string[]);
  });

  test('the response is the same with and without tokens that the caller may not delete', async () => {
    const replies = [];
    for (const hidden of [0, 30]) {
      const { key } = await server.tenant();
      await create(key, { id: 'own', container: '/a/b/', data: 1 }, ...many(hidden, { container: '/a/c/' }));
      const { key: limited } = await server.application(key, { permissions: [], rules: [rule('/a/b/')] });
      for (const container of ['/a/', '/a/', '/a/c/', '/none/'])
        replies.push([hidden, (await remove(limited, `container=${container}`)).body]);
      expect(await idsOf(key)).toHaveLength(hidden);
      const [, ...others] = await entries(key);
      expect(JSON.stringify(others)).not.toContain('t-');
    }
    expect(replies.slice(4).map(([, body]) => body)).toEqual(replies.slice(0, 4).map(([, body]) => body));
  });

  test('tokens of another tenant stay, also with its cursor', async () => {
    const [one, other] = [await server.tenant(), await server.tenant()];
    for (const { key } of [one, other]) await create(key, ...many(3, { container: '/a/' }));
    const { body } = await server.call('GET', '/tokens?size=1', { key: other.key });
    const { next } = body.pagination;
    expect((await remove(one.key, `container=/a/&start=${next}`)).status).toBe(200);
    expect((await remove(one.key, 'container=/a/')).status).toBe(200);
    expect(await idsOf(one.key)).toEqual([]);
    expect(await idsOf(other.key)).toHaveLength(3);
  });

  test('without the permission it is 403, and in quarantine too', async () => {
    const { key } = await server.tenant();
    await create(key, ...many(2, { container: '/a/' }));
    const none = await server.application(key, { permissions: ['token:read', 'token:update'] });
    const denied = await remove(none.key, 'container=/a/');
    expect([denied.status, denied.body.code]).toEqual([403, 'permission_missing']);
    const suspect = await server.application(key, { permissions: all });
    const limited = await session(key, suspect.key, when(['container', 'starts_with', '/a/']));
    await server.call('POST', `/applications/${suspect.id}/quarantine`, { key });
    for (const caller of [suspect.key, limited]) {
      const refused = await remove(caller, 'container=/a/');
      expect([refused.status, refused.body.code]).toEqual([403, 'quarantined']);
    }
    expect(await idsOf(key)).toHaveLength(2);
    await server.call('DELETE', `/applications/${suspect.id}/quarantine`, { key });
    expect((await remove(limited, 'container=/a/')).body.deleted).toBe(2);
  });

  test('a token that is moved after it was found is decided again', async () => {
    const { id: tenant, key } = await server.tenant();
    await create(key, ...many(3, { container: '/a/' }));
    const { store } = server.app;
    const verdict = { allowed: true, transform: 'redact', rule: undefined } as const;
    const visible = { scopes: [{}], exact: true };
    const { seqs } = await store.tokens.find(tenant, {
      visible,
      decide: () => verdict,
      filter: {},
      size: 10,
    });
    await server.call('PATCH', '/tokens/t-1', { key, body: { container: '/safe/' } });
    await server.call('DELETE', '/tokens/t-2', { key });
    const { deleted } = await store.change(tenant, (tx) =>
      tx.tokens.deleteAll(tenant, seqs, ({ container }) => container === '/a/'),
    );
    expect(deleted.map(({ id }) => id)).toEqual(['t-0']);
    expect(await idsOf(key)).toEqual(['t-1']);
  });

  test('concurrent creations, moves and deletions lose no token and count none twice', async () => {
    const { id: tenant, key } = await server.tenant();
    const application = await server.application(key, { permissions: all });
    const own = application.key;
    await create(own, ...many(60, { container: '/a/' }));
    const replies = await Promise.all([
      ...Array.from({ length: 4 }, () => remove(own, 'container=/a/')),
      ...Array.from({ length: 20 }, (_, at) =>
        server.call('PATCH', `/tokens/t-${at * 3}`, { key: own, body: { container: '/safe/' } }),
      ),
      ...Array.from({ length: 20 }, (_, at) =>
        server.call('DELETE', `/tokens/t-${at * 3 + 1}`, { key: own }),
      ),
      ...Array.from({ length: 20 }, (_, at) =>
        server.call('POST', '/tokens', { key: own, body: { id: `n-${at}`, container: '/a/', data: 1 } }),
      ),
    ]);
    const [bulk, moves, singles, created] = [
      replies.slice(0, 4),
      replies.slice(4, 24),
      replies.slice(24, 44),
      replies.slice(44),
    ] as const;
    expect(new Set(bulk.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(created.map(({ status }) => status))).toEqual(new Set([201]));
    const kept = await idsOf(own);
    const moved = moves.flatMap(({ status }, at) => (status === 200 ? [`t-${at * 3}`] : []));
    expect(kept.filter((id) => id.startsWith('t-')).sort()).toEqual(moved.sort());
    const deleted = bulk.reduce((sum, { body }) => sum + body.deleted, 0);
    const single = singles.filter(({ status }) => status === 204).length;
    expect(deleted + single + kept.length).toBe(80);
    expect((await server.app.store.tokens.storageUsed(tenant, application.id)).tokens).toBe(kept.length);
  });

  test('5,000 tokens need several requests, between which others are answered', async () => {
    const { id: tenant, key } = await server.tenant();
    const application = await server.application(key, { permissions: all });
    await create(application.key, ...many(2500, { container: '/a/b/' }, 'x'));
    await create(application.key, ...many(2500, { container: '/a/' }, 'y'), { data: 1, container: '/c/' });
    const { key: own } = await server.application(key, { permissions: ['token:delete'] });
    let isDone = false;
    const others = (async () => {
      let answered = 0;
      for (; !isDone || answered === 0; answered++) {
        const body = { id: `other-${answered}`, container: '/c/', data: 1 };
        expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
        expect((await server.call('GET', `/tokens/other-${answered}`, { key })).status).toBe(200);
        server.clock.advance(1000);
      }
      return answered;
    })();
    const counts = await removeAll(own, '/a/');
    isDone = true;
    await others;
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(5000);
    expect(Math.max(...counts)).toBeLessThanOrEqual(1000);
    expect(counts.length).toBeGreaterThanOrEqual(5);
    const { body } = await server.call('GET', '/tokens?container=/a/', { key });
    expect(body.data).toEqual([]);
    expect((await server.app.store.tokens.storageUsed(tenant, application.id)).tokens).toBe(1);
    const logged = await entries(key, '&size=100');
    const ids = logged.flatMap(({ resource }: { resource?: { ids: string[] } }) => resource?.ids ?? []);
    expect(new Set(ids).size).toBe(5000);
    expect(ids).toHaveLength(5000);
  });

  test('a request deletes at most 8 MiB, and at least one token', async () => {
    const { key } = await server.tenant();
    for (let at = 0; at < 10; at++) {
      const body = { id: `large-${at}`, container: '/a/', data: 'x'.repeat(1_000_000) };
      expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
      server.clock.advance(60_000);
    }
    expect(await removeAll(key, '/a/')).toEqual([8, 2]);
    expect(await idsOf(key)).toEqual([]);
  });

  test('narrower rules apply to the next request, and a limited delegation spends a use for each', async () => {
    const { key } = await server.tenant();
    await create(key, ...many(1500, { container: '/a/' }));
    const backend = await server.application(key, { permissions: [], rules: [rule('/')] });
    const { body: delegation } = await server.call('POST', '/delegations', {
      key: backend.key,
      body: { rules: [when(['container', 'starts_with', '/a/'])], max_uses: 2 },
    });
    const first = await remove(delegation.key, 'container=/a/');
    expect(first.body.deleted).toBeGreaterThan(0);
    const narrower = { name: 'backend', rules: [rule('/b/')] };
    await server.call('PUT', `/applications/${backend.id}`, { key, body: narrower });
    const second = await remove(delegation.key, `container=/a/&start=${first.body.next}`);
    expect([second.status, second.body]).toEqual([200, { deleted: 0 }]);
    expect((await remove(delegation.key, 'container=/a/')).status).toBe(401);
  });

  test('one entry of the audit log names the container and the ids', async () => {
    const { key } = await server.tenant();
    const { id, key: own } = await server.application(key, { permissions: all });
    await create(own, ...many(2, { container: '/a/b/' }), { id: 'u-1', container: '/a/c/', data: 1 });
    await remove(own, 'container=/A', { 'SVC-PURPOSE': 'erasure 42' });
    const [entry, ...others] = await entries(key);
    expect(others).toEqual([]);
    expect(entry).toMatchObject({
      actor: { application_id: id },
      operation: 'token.delete',
      entity: { kind: 'container', id: '/a/' },
      resource: { container: '/a/' },
      purpose: 'erasure 42',
      result: 'success',
    });
    expect(entry.resource.ids.sort()).toEqual(['t-0', 't-1', 'u-1']);
    expect(await entries(key, '&token=u-1')).toHaveLength(1);
    await remove(own, 'container=/a/');
    const [empty] = await entries(key);
    expect(empty).not.toHaveProperty('resource');
  });

  test('the SDK and the command line send requests until everything is deleted', async () => {
    const { key } = await server.tenant();
    const service = new Sallyport({ url: server.url, key });
    await create(key, ...many(2100, { container: '/a/' }), ...many(3, { container: '/b/' }, 'b'));
    const progress: number[] = [];
    const onProgress = (deleted: number) => progress.push(deleted);
    expect(await service.tokens.deleteMany({ container: '/a/' }, { onProgress })).toBe(2100);
    expect(progress.length).toBeGreaterThan(2);
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
    expect(progress.at(-1)).toBe(2100);

    const { call, json } = apiShell(server.url, key);
    for (const args of [[], ['b-0', '--container', '/b/']])
      expect((await call(['tokens', 'delete', ...args, '--yes'])).code).toBe(2);
    const cancelled = await call(['tokens', 'delete', '--container', '/b/'], { answers: ['y'] });
    expect([cancelled.code === 0, await idsOf(key)]).toEqual([false, ['b-0', 'b-1', 'b-2']]);
    expect((await call(['tokens', 'delete', '--container', '/', '--yes'])).code).toBe(4);
    const typed = await call(['tokens', 'delete', '--container', '/b/'], { answers: ['/b/'] });
    expect([typed.code, typed.out.trim()]).toEqual([0, 'deleted 3 tokens']);
    const again = await json(['tokens', 'delete', '--container', '/b/', '--yes']);
    expect(again).toEqual({ container: '/b/', deleted: 0, interrupted: false });
  });
});
