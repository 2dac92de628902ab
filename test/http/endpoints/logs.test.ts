/** Filters, pagination and `after` of GET /logs. */
import { describe, expect, test } from 'bun:test';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { ada, bob, signInAs } from '../../support/people.ts';
import { databases, openTestServer, startTime } from '../../support/test-server.ts';

const time = (seconds: number) => new Date(startTime + 1000 * seconds).toISOString();

describe.each(databases)('GET /logs on %s', async (_, database) => {
  const server = await openTestServer(database);

  const list = async (query: string) => (await server.call('GET', `/logs?${query}`, { key })).body;

  const { key } = await server.tenant();
  const rules = [{ priority: 1, container: '/Cards/', permissions: ['token:read'], transform: 'reveal' }];
  const desk: { id: string; key: string } = await server.application(key, {
    permissions: ['session:authorize', 'token:read'],
    rules,
  });
  const web = await server.application(key, { type: 'public' });
  const send = async (method: string, path: string, by: string, request: string, body?: object) => {
    server.clock.advance(1000);
    const purpose = request.startsWith('read') ? 'chargeback 4711' : 'chargeback';
    return server.call(method, path, {
      key: by,
      headers: { 'SVC-REQUEST-ID': request, 'SVC-PURPOSE': purpose },
      ...(body && { body }),
    });
  };
  const token = (id: string, container: string) => ({ id, container, data: 'secret' });
  await send('POST', '/tokens', key, 'create-card', token('card-1', '/Cards/high'));
  await send('POST', '/tokens', key, 'create-note', token('note-1', '/notes/'));
  await send('GET', '/tokens/card-1', desk.key, 'read-card');
  await send('GET', '/tokens', desk.key, 'list');
  const { body } = await send('POST', '/sessions', web.key, 'session');
  const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
  const ofSession = [{ priority: 1, conditions, permissions: ['token:read'], transform: 'reveal' }];
  const grant = { nonce: body.nonce, rules: ofSession, subject: 'user:42' };
  expect((await send('POST', '/sessions/authorize', desk.key, 'authorize', grant)).status).toBe(204);
  const session: { id: string; key: string } = { id: '', key: body.session_key };
  await send('GET', '/tokens/card-1', session.key, 'read-by-session');
  await send('DELETE', '/tokens/card-1', desk.key, 'denied');
  await send('DELETE', '/tokens/card-1', session.key, 'denied-session');
  await server.flush();
  const [read] = (await list('request_id=read-by-session')).data;
  session.id = read.actor.id;
  const requests = async (query: string) =>
    (await list(query)).data.map(({ request_id }: { request_id: string }) => request_id);

  test('lists disclosures and denials with their resource and decision', async () => {
    const [read] = (await list('request_id=read-by-session')).data;
    expect(read).toMatchObject({
      actor: { kind: 'session', id: session.id, authorized_by: desk.id, subject: 'user:42' },
      resource: { ids: ['card-1'], container: '/cards/high/' },
      decision: { transform: 'reveal', rule: { of: 'session', rule: 1 } },
    });
    const [denied] = (await list('request_id=denied')).data;
    expect(denied).toMatchObject({
      result: 'denied',
      resource: { ids: ['card-1'] },
      decision: { missing: { permission: 'token:delete' } },
    });
  });

  const reads = ['read-by-session', 'list', 'read-card'];
  test.each<[query: string, expected: string[]]>([
    ['token=card-1&transform=reveal', reads],
    ['token=card-1', ['denied-session', 'denied', ...reads, 'create-card']],
    ['container=/cards/&result=success', [...reads, 'create-card']],
    ['container=/CARDS/high/', ['denied-session', 'denied', ...reads, 'create-card']],
    ['container=/card/', []],
    ['container=/&operation=token.create', ['create-note', 'create-card']],
    ['entity=note-1', ['create-note']],
    ['result=denied', ['denied-session', 'denied']],
    ['request_id=read-card', ['read-card']],
    ['subject=user:42', ['denied-session', 'read-by-session']],
    ['subject=user:42&purpose=chargeback', ['denied-session']],
    ['subject=user:4', []],
    ['purpose=chargeback%204711', ['read-by-session', 'read-card']],
    ['purpose=chargebac', []],
    [`operation=token.read&from=${time(3)}&to=${time(5)}`, ['list', 'read-card']],
    ['token=card-1&operation=token.delete&transform=reveal', []],
  ])('filters by %s', async (query, expected) => {
    expect(await requests(query)).toEqual(expected);
  });

  test('filters by application, with its sessions, and by session', async () => {
    expect(await requests(`actor=${desk.id}`)).toEqual(['denied', 'authorize', 'list', 'read-card']);
    expect(await requests(`actor=${session.id}&transform=reveal`)).toEqual(['read-by-session']);
    const { application_id } = (await list('request_id=read-by-session')).data[0].actor;
    expect(await requests(`actor=${application_id}`)).toEqual([
      'denied-session',
      'read-by-session',
      'session',
    ]);
  });

  test('after returns the later entries, oldest first, page by page', async () => {
    const all = (await list('size=100')).data.toReversed();
    const [first] = all;
    const page = await list(`size=3&after=${first.id}`);
    expect(page.data).toEqual(all.slice(1, 4));
    const next = await list(`size=100&after=${page.pagination.next}`);
    expect(next.data).toEqual(all.slice(4));
    expect(next.pagination.next).toBeUndefined();
    const service = new Sallyport({ url: server.url, key });
    expect((await Array.fromAsync(service.logs.all({ after: first.id, size: 2 }))) as unknown[]).toEqual(
      all.slice(1),
    );
    expect((await Array.fromAsync(service.logs.all({ size: 2 }))).length).toBe(all.length);
  });

  test.each([
    ['after=x', 'after'],
    ['after=01a1df14-1e00-7000-8000-000000000000', 'after'],
    ['container=a//b', 'container'],
    ['transform=hide', 'transform'],
    ['request_id=', 'request_id'],
  ])('%s is rejected', async (query, field) => {
    const { status, body } = await server.call('GET', `/logs?${query}`, { key });
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });

  test('an id finds its entry, pending or sealed, if it matches the other filters', async () => {
    const [pending] = (await list('size=1')).data;
    expect((await list(`id=${pending.id}`)).data).toEqual([pending]);
    // Reading with `after` seals all entries.
    await list(`after=${pending.id}`);
    for (const entry of (await list('size=100')).data)
      expect((await list(`id=${entry.id}&operation=${entry.operation}`)).data).toEqual([entry]);
    expect((await list(`id=${pending.id}&operation=none`)).data).toEqual([]);
    expect((await list(`id=${desk.id}`)).data).toEqual([]);
    const other = await server.tenant();
    const { body } = await server.call('GET', `/logs?id=${pending.id}`, { key: other.key });
    expect(body.data).toEqual([]);
    expect(Object.keys((await list(`id=${pending.id}&after=${pending.id}`)).errors)).toEqual(['after']);
  });

  test('after cannot be combined with start', async () => {
    const { data, pagination } = await list('size=1');
    const { errors } = await list(`after=${data[0].id}&start=${pagination.next}`);
    expect(errors).toEqual({ after: ['cannot be combined with start'] });
  });
});

describe.each(databases)('people in the audit log on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'all' });
  const { key } = await server.tenant();
  const reads = { priority: 1, container: '/open/', permissions: ['token:read'], transform: 'reveal' };
  const permissions = ['token:read', 'token:create'];
  const support = await server.application(key, { type: 'management', permissions, rules: [reads] });
  for (const container of ['/open/', '/hidden/'])
    await server.call('POST', '/tokens', {
      key,
      body: { id: container.slice(1, -1), container, data: 'x' },
    });
  for (const person of [ada, bob, ada]) {
    const signOut = signInAs(server, support.key, person);
    const send = (method: string, path: string, body?: object) =>
      server.call(method, path, {
        key: support.key,
        headers: { 'SVC-REQUEST-ID': `${method.toLowerCase()}-${path.split('/').at(-1)}` },
        ...(body && { body }),
      });
    await send('POST', '/tokens', { container: '/made/', data: person.subject });
    await send('GET', '/tokens/open');
    await send('GET', '/tokens/hidden');
    await send('DELETE', '/tokens/open');
    signOut();
  }
  await server.call('GET', '/tokens/hidden', { key: support.key });
  await server.flush();

  const list = async (query: string) => (await server.call('GET', `/logs?${query}`, { key })).body.data;
  const requests = async (query: string) =>
    (await list(query)).map((entry: { request_id: string; count?: number }) => [
      entry.request_id,
      entry.count ?? 1,
    ]);

  test('every entry of their requests has the person, and aggregated entries count those of one person', async () => {
    const ofAda = await list('person=00u1ada');
    expect(ofAda.map(({ actor }: { actor: object }) => actor)).toEqual(
      Array(6).fill({
        kind: 'application',
        id: expect.any(String),
        application_id: expect.any(String),
        person: ada,
      }),
    );
    const both = [
      ['get-open', 1],
      ['post-tokens', 1],
    ];
    const [denied, masked] = [
      ['delete-open', 2],
      ['get-hidden', 2],
    ] as const;
    expect((await requests('person=00u1ada')).toSorted()).toEqual(
      [denied, masked, ...both, ...both].toSorted(),
    );
    expect((await requests('person=bob@example.com')).toSorted()).toEqual(
      [['delete-open', 1], ['get-hidden', 1], ...both].toSorted(),
    );
    expect(
      (await list('transform=mask&operation=token.read')).filter(
        ({ actor }: { actor: object }) => !('person' in actor),
      ),
    ).toHaveLength(1);
  });

  test('the email finds the same entries as the subject, the name none', async () => {
    expect(await list('person=ada@example.com')).toEqual(await list('person=00u1ada'));
    for (const other of ['Ada%20Lovelace', 'ada', 'ADA@EXAMPLE.COM'])
      expect(await list(`person=${other}`)).toEqual([]);
  });

  test('changes=true leaves reads and denials out, for one person or all', async () => {
    expect(await requests('person=ada@example.com&changes=true')).toEqual([
      ['post-tokens', 1],
      ['post-tokens', 1],
    ]);
    const all = await list('changes=true&size=100');
    expect(all).not.toBeEmpty();
    for (const { operation, result } of all)
      expect([operation, result]).toEqual([expect.stringMatching(/\.(create|update)$/), 'success']);
  });

  test('sealed entries are found by the index, and counted', async () => {
    const [{ id }] = (await list('size=100')).slice(-1);
    // Reading with `after` seals all entries.
    expect(await list(`after=${id}&person=00u1ada`)).toHaveLength(6);
    const { body } = await server.call('GET', '/logs/counts?person=ada@example.com&denials=true', { key });
    expect([body.totals, body.denials.total]).toEqual([{ success: 5, denied: 1, failed: 0 }, 2]);
  });
});
