/** `order=oldest` returns the entries of every list in reverse, with the same filters, pages and cursors. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const containers = ['/a/', '/a/b/', '/hidden/', '/c/'];
const requests = [{ method: 'POST', path: '/v1/charges' }];

describe.each(databases)('lists in both orders on %s', async (_, database) => {
  const server = await openTestServer(database, {
    SALLYPORT_RATE_PER_KEY: '0',
    SALLYPORT_RATE_PER_ADDRESS: '0',
    SALLYPORT_TOKEN_BYTES_PER_MINUTE: '0',
    SALLYPORT_SESSIONS_PER_MINUTE: '0',
    SALLYPORT_PENDING_SESSIONS: '0',
  });
  const { key } = await server.tenant();
  const get = (path: string, as = key) => server.call('GET', path, { key: as });
  const idsOf = (data: { id?: string; name: string }[]) => data.map(({ id, name }) => id ?? name);
  const web = await server.application(key, { type: 'public', permissions: ['mine:x'] });
  const create = (path: string, body: object, as = key) => server.call('POST', path, { key: as, body });
  const middle = server.clock.now() + 15;
  const names: string[] = [];
  for (let n = 0; n < 30; n++) {
    server.clock.advance(1);
    const type = n % 3 ? 'card' : 'token';
    const metadata = { odd: String(n % 2) };
    await create('/tokens', { id: `t-${n}`, type, container: containers[n % 4], data: 'x', metadata });
    if (n < 12) await server.application(key, { name: `app ${n % 2}` });
    names.push(`d-${n}`);
    if (n < 12) await create('/destinations', { name: `d-${n}`, origin: 'https://api.example', requests });
    const { body } = await server.call('POST', '/sessions', { key: web.key });
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: n % 2 ? '/a/' : '/c/' }];
    const grants = { rules: [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions }] };
    if (n < 12) await create('/sessions/authorize', { nonce: body.nonce, ...grants });
  }
  const reader = await server.application(key, {
    permissions: [],
    rules: [{ priority: 1, transform: 'reveal', permissions: ['token:read'], container: '/a/' }],
  });
  const used = names.slice(0, 12);
  const uses = { container: '/a/', permissions: ['token:use'], destinations: used };
  const agent = await server.application(key, {
    permissions: [],
    rules: [{ priority: 1, transform: 'redact', ...uses }],
  });
  const time = new Date(middle).toISOString();

  const lists: [path: string, as: string][] = [
    ['/tokens?size=7', key],
    ['/tokens?size=7', reader.key],
    ['/tokens?size=4&type=card&container=/a/', reader.key],
    ['/tokens?size=3&metadata[odd]=1&type=card', key],
    ['/tokens?size=5&id=t-1,t-20,t-7,t-2&type=card', key],
    [`/tokens?size=6&created_after=${time}`, key],
    [`/tokens?size=6&created_before=${time}`, reader.key],
    ['/applications?size=5', key],
    ['/applications?size=2&name=APP+1', key],
    ['/sessions?size=7', key],
    ['/sessions?size=4&state=active', key],
    ['/sessions?size=4&container=/a/', key],
    ['/destinations?size=5', key],
    ['/proxy?size=5', agent.key],
  ];

  /** All entries, by cursor and by page number. */
  async function read(path: string, as: string) {
    const [byCursor, byNumber]: string[][] = [[], []];
    let start = '';
    do {
      const { body } = await get(`${path}${start}`, as);
      byCursor?.push(...idsOf(body.data));
      start = body.pagination.next && `&start=${body.pagination.next}`;
    } while (start);
    for (let page = 1, more = !path.includes('/sessions?size=4&container'); more; page++) {
      const { body } = await get(`${path}&page=${page}`, as);
      byNumber?.push(...idsOf(body.data));
      more = page < body.pagination.total_pages;
    }
    return { byCursor, byNumber };
  }

  test.each(lists)('%s', async (path, as) => {
    const newest = await read(path, as);
    const oldest = await read(`${path}&order=oldest`, as);
    expect(newest.byCursor?.length).toBeGreaterThan(2);
    expect(newest).toEqual(await read(`${path}&order=newest`, as));
    expect(oldest.byCursor).toEqual(newest.byCursor!.toReversed());
    expect(oldest.byNumber).toEqual(newest.byNumber!.toReversed());
  });

  test.each(lists)('a cursor of %s cannot be used with the other order', async (path, as) => {
    const small = path.replace(/size=\d/, 'size=1');
    const cursors = { newest: await get(small, as), oldest: await get(`${small}&order=oldest`, as) };
    for (const [mine, other] of [
      ['newest', 'oldest'],
      ['oldest', 'newest'],
    ] as const) {
      const { next } = cursors[mine].body.pagination;
      const { status, body } = await get(`${small}&order=${other}&start=${next}`, as);
      const errors = { start: ['is a cursor of the other `order`: send the `order` of its list'] };
      expect([status, body.errors]).toEqual([400, errors]);
    }
    const { next } = cursors.oldest.body.pagination;
    expect((await get(`${small}&start=${next}`, as)).status).toBe(400);
  });

  const [plain, marked] = ['AZfzwloefECdKz-OahtMXQ', 'AQGX88JaHnxAnSs_jmobTF0'];
  test.each([
    ['/tokens?order=asc', 'order'],
    ['/tokens?order=', 'order'],
    ['/tokens?order=OLDEST', 'order'],
    ['/tokens?order=oldest&order=oldest', 'order'],
    ['/tokens?order=oldest&order=newest', 'order'],
    ['/tokens?order[]=oldest', 'order[]'],
    ['/tokens?start=', 'start'],
    ['/tokens?order=oldest&start=', 'start'],
    [`/tokens?order=oldest&start=${marked}&page=1`, 'start'],
    [`/tokens?order=oldest&start=${marked}=`, 'start'],
    [`/tokens?order=oldest&start=${marked}A`, 'start'],
    [`/tokens?order=oldest&start=Ag${marked.slice(2)}`, 'start'],
    [`/tokens?order=oldest&start=AQ${marked}`, 'start'],
    [`/tokens?order=oldest&start=${marked.slice(0, -1)}1`, 'start'],
    [`/tokens?order=oldest&start=${plain}`, 'start'],
    [`/tokens?start=${marked}&start=${plain}`, 'start'],
    [`/logs?start=${marked}`, 'start'],
    ['/logs?order=oldest', 'order'],
    [`/access/advice?start=${marked}`, 'start'],
    ['/access/advice?order=oldest', 'order'],
    ['/access/who?container=/a/&order=oldest', 'order'],
  ])('%s is rejected', async (path, part) => {
    const { status, body } = await get(path);
    expect([status, Object.keys(body.errors)]).toEqual([400, [part]]);
  });

  test('a cursor of deletions cannot be one of the oldest tokens', async () => {
    const answer = await server.call('DELETE', `/tokens?container=/c/&start=${marked}`, { key });
    expect(answer.body.errors).toEqual({ start: ['is a cursor of a list with `order=oldest`'] });
    expect((await get(`/tokens?order=oldest&start=${marked}`)).status).toBe(200);
  });

  test('with the oldest first, entries that are created meanwhile come last, and deleted ones skip none', async () => {
    const { key } = await server.tenant();
    const add = (id: string) => create('/tokens', { id, data: 1 }, key);
    for (const id of ['one', 'two', 'three', 'four']) await add(id);
    const first = await get('/tokens?size=2&order=oldest', key);
    await add('five');
    await server.call('DELETE', '/tokens/two', { key });
    const start = `&start=${first.body.pagination.next}`;
    const rest = await get(`/tokens?size=100&order=oldest${start}`, key);
    expect(idsOf([...first.body.data, ...rest.body.data])).toEqual(['one', 'two', 'three', 'four', 'five']);
    await add('six');
    expect(idsOf((await get(`/tokens?order=oldest${start}`, key)).body.data).at(-1)).toBe('six');
    const numbered = await get('/tokens?size=3&page=2&order=oldest', key);
    expect(idsOf(numbered.body.data)).toEqual(['five', 'six']);
  });

  test('a page of the oldest tokens is limited by bytes, too', async () => {
    const permissions = ['token:read', 'token:create'];
    const rules = [{ priority: 1, transform: 'reveal', permissions, container: '/' }];
    const { key } = await server.application((await server.tenant()).key, { permissions: [], rules });
    const data = 'x'.repeat(1024 * 1024 - 300);
    const ids = Array.from({ length: 10 }, (_, n) => `large-${n}`);
    for (const id of ids) await create('/tokens', { id, data }, key);
    const first = (await get('/tokens?size=100&order=oldest', key)).body;
    const second = (await get(`/tokens?size=100&order=oldest&start=${first.pagination.next}`, key)).body;
    expect([first, second].map(({ data }) => idsOf(data))).toEqual([ids.slice(0, 7), ids.slice(7)]);
  });
});
