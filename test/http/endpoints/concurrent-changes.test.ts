/** ETag and If-Match: a change that is based on an old version changes nothing. */
import { describe, expect, test } from 'bun:test';
import { type ApiResponse, databases, manyConnections, openTestServer } from '../../support/test-server.ts';

type Body = ApiResponse['body'];

const update = { name: 'mine', permissions: ['mine:x'] };
const container = '/pci/';

describe.each(databases)('concurrent changes on %s', async (_, database) => {
  const server = await openTestServer(database, manyConnections);
  const key = (await server.tenant()).key;

  const call = (method: string, path: string, body?: unknown, headers = {}, as = key) =>
    server.call(method, path, { key: as, body, headers });
  const read = (path: string) => call('GET', path);
  const etagOf = ({ headers }: ApiResponse) => headers.get('etag') as string;
  const currentEtag = async (path: string) => etagOf(await read(path));

  const application = async () => `/applications/${(await server.application(key)).id}`;
  async function token(fields: Body = {}) {
    const { status, body } = await call('POST', '/tokens', { data: { pan: '4242' }, container, ...fields });
    expect(status).toBe(201);
    return `/tokens/${body.id}`;
  }

  const anotherDestination = () => ({
    name: crypto.randomUUID().slice(0, 8),
    requests: [{ method: 'GET', path: '/' }],
  });
  const destination = async () => {
    const body = { ...anotherDestination(), origin: 'https://api.example' };
    return `/destinations/${(await call('POST', '/destinations', body)).body.id}`;
  };

  const changes: [string, () => Promise<string>, (path: string, headers: object) => Promise<ApiResponse>][] =
    [
      ['PUT of an application', application, (path, headers) => call('PUT', path, update, headers)],
      ['DELETE of an application', application, (path, headers) => call('DELETE', path, undefined, headers)],
      ['regenerate', application, (path, headers) => call('POST', `${path}/regenerate`, {}, headers)],
      ['quarantine', application, (path, headers) => call('POST', `${path}/quarantine`, {}, headers)],
      [
        'release',
        async () => {
          const path = await application();
          await call('POST', `${path}/quarantine`);
          return path;
        },
        (path, headers) => call('DELETE', `${path}/quarantine`, undefined, headers),
      ],
      ['PATCH of a token', () => token(), (path, headers) => call('PATCH', path, { type: 'card' }, headers)],
      ['DELETE of a token', () => token(), (path, headers) => call('DELETE', path, undefined, headers)],
      [
        'PUT of a destination',
        destination,
        (path, headers) => call('PUT', path, anotherDestination(), headers),
      ],
      ['DELETE of a destination', destination, (path, headers) => call('DELETE', path, undefined, headers)],
    ];

  test.each(changes)('%s succeeds once for each version that was read', async (_, make, change) => {
    const path = await make();
    const first = await read(path);
    const again = path.startsWith('/tokens')
      ? await call('PATCH', path, { metadata: { by: 'someone else' } })
      : path.startsWith('/destinations')
        ? await call('PUT', path, anotherDestination())
        : await call('PUT', path, { name: 'someone else', permissions: ['token:read'] });
    expect(etagOf(again)).not.toBe(etagOf(first));
    const before = await read(path);
    expect(etagOf(before)).toBe(etagOf(again));
    const { status, body } = await change(path, { 'If-Match': etagOf(first) });
    expect([status, body.code]).toEqual([412, 'changed_meanwhile']);
    expect(await read(path)).toMatchObject({ status: 200, body: before.body });
    expect((await change(path, { 'If-Match': etagOf(before) })).status).toBeLessThan(300);
    const after = await read(path);
    if (after.status === 200) expect(etagOf(after)).not.toBe(etagOf(before));
    else expect(after.status).toBe(404);
  });

  test.each(changes)('%s without If-Match always succeeds', async (_, make, change) => {
    expect((await change(await make(), {})).status).toBeLessThan(300);
  });

  test('every response with an application has its ETag, which use of the application leaves unchanged', async () => {
    const created = await call('POST', '/applications', {
      name: 'reader',
      type: 'management',
      permissions: ['application:read', 'application:update'],
    });
    const { id, key: own } = created.body;
    const path = `/applications/${id}`;
    expect(etagOf(created)).toMatch(/^"[!#-~]+"$/);
    server.clock.advance(60_000);
    await call('GET', '/applications', undefined, {}, own);
    await server.flush();
    const used = await read(path);
    expect(used.body.last_used_at).toBeDefined();
    expect(etagOf(used)).toBe(etagOf(created));
    const seen = new Set<string>([etagOf(created)]);
    for (const [method, at, body] of [
      ['PUT', path, { ...update, permissions: ['application:read'] }],
      ['PUT', path, { ...update, permissions: ['application:read'] }],
      ['POST', `${path}/quarantine`],
      ['POST', `${path}/regenerate`],
    ] as const) {
      const changed = await call(method, at, body);
      expect(await currentEtag(path)).toBe(etagOf(changed));
      expect(seen).not.toContain(etagOf(changed));
      seen.add(etagOf(changed));
      if (changed.body.key)
        expect(etagOf(await call('GET', '/applications/key', undefined, {}, changed.body.key))).toBe(
          etagOf(changed),
        );
    }
    const unchanged = await call('POST', `${path}/quarantine`);
    expect(seen).toContain(etagOf(unchanged));
  });

  test('the ETag of a token is the same for every caller and transform, and differs after any change', async () => {
    const path = await token({ mask: '{{ data.pan | reveal_last: 2 }}' });
    const readers = await Promise.all(
      ['reveal', 'mask', 'redact'].map((transform) =>
        server.application(key, {
          permissions: [],
          rules: [{ priority: 1, container, transform, permissions: ['token:read'] }],
        }),
      ),
    );
    const etags = async () =>
      new Set(
        (await Promise.all(readers.map((one) => call('GET', path, undefined, {}, one.key)))).map(etagOf),
      );
    expect((await etags()).size).toBe(1);
    const seen = await etags();
    for (const patch of [
      { metadata: { a: 'b' } },
      { metadata: { a: 'b' } },
      { data: 'new', mask: null },
      { type: 'card' },
    ]) {
      const changed = await call('PATCH', path, patch);
      expect(await etags()).toEqual(new Set([etagOf(changed)]));
      expect(seen).not.toContain(etagOf(changed));
      seen.add(etagOf(changed));
    }
  });

  test('a token that was deleted and created again has another ETag', async () => {
    const path = await token({ id: 'again' });
    const first = await currentEtag(path);
    await call('DELETE', path);
    await token({ id: 'again' });
    expect((await call('PATCH', path, { type: 'card' }, { 'If-Match': first })).status).toBe(412);
  });

  test('a caller without access gets 403 or 404, not 412', async () => {
    const [app, card] = [await application(), await token()];
    const stale = { 'If-Match': '"old"' };
    const weak = await server.application(key, {
      type: 'management',
      permissions: ['application:update'],
      rules: [{ priority: 1, container: '/other/', transform: 'reveal', permissions: ['token:update'] }],
    });
    const admin = `/applications/${(await server.application(key, { type: 'management', permissions: ['log:read'] })).id}`;
    const missing = '/applications/0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
    const statuses = await Promise.all([
      call('DELETE', app, undefined, stale, weak.key),
      call('PUT', admin, update, stale, weak.key),
      call('POST', `${admin}/regenerate`, {}, stale, weak.key),
      call('POST', `${admin}/quarantine`, {}, stale, weak.key),
      call('PATCH', card, { type: 'card' }, stale, weak.key),
      call('PUT', missing, update, stale),
      call('DELETE', '/tokens/missing', undefined, { 'If-Match': '*' }),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403, 404, 404]);
  });

  test('a fetched application with an old modified_at gets 412 instead of a validation error', async () => {
    const path = await application();
    await call('PUT', path, update);
    const fetched = await read(path);
    await call('PUT', path, update);
    const stale = await call('PUT', path, fetched.body, { 'If-Match': etagOf(fetched) });
    expect([stale.status, stale.body.code]).toEqual([412, 'changed_meanwhile']);
    expect((await call('PUT', path, fetched.body)).status).toBe(400);
  });

  test('a replay comes before If-Match, and has the ETag of the first response', async () => {
    for (const [path, change] of [
      [await application(), (at: string, headers: object) => call('PUT', at, update, headers)],
      [await token(), (at: string, headers: object) => call('PATCH', at, { type: 'card' }, headers)],
    ] as const) {
      const headers = { 'If-Match': await currentEtag(path), 'Idempotency-Key': path };
      const first = await change(path, headers);
      const again = await change(path, headers);
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true']);
      expect(etagOf(again)).toBe(etagOf(first));
      expect(await currentEtag(path)).toBe(etagOf(first));
    }
  });

  test('a preview of an update checks If-Match', async () => {
    const path = await application();
    const preview = (etag: string) => call('PUT', `${path}?dry_run=true`, update, { 'If-Match': etag });
    expect((await preview(await currentEtag(path))).status).toBe(200);
    expect((await preview('"old"')).status).toBe(412);
  });

  test.each<[string, (etag: string) => string, number]>([
    ['*', () => '*', 200],
    ['a list with the current version', (etag) => `"old", ${etag}`, 200],
    ['a list with empty elements', (etag) => `, "old",,${etag} ,`, 200],
    ['a list of other versions', () => '"old", "older,with,commas"', 412],
    ['a weak tag', (etag) => `W/${etag}`, 412],
    ['an empty tag', () => '""', 412],
    ['a text without quotes', (etag) => etag.slice(1, -1), 400],
    ['an unfinished tag', (etag) => etag.slice(0, -1), 400],
    ['tags without a comma', (etag) => `${etag} ${etag}`, 400],
    ['* in a list', (etag) => `*, ${etag}`, 400],
    ['only a comma', () => ',', 400],
    ['nothing', () => '', 400],
  ])('If-Match with %s', async (_, header, expected) => {
    const path = await application();
    const { status, body } = await call('PUT', path, update, { 'If-Match': header(await currentEtag(path)) });
    expect(status).toBe(expected);
    if (status === 400) expect(body.errors['if-match'][0]).toStartWith('must be * or a list');
  });

  test('If-None-Match is ignored', async () => {
    for (const path of [await application(), await token()]) {
      const headers = { 'If-None-Match': await currentEtag(path) };
      expect((await call('GET', path, undefined, headers)).status).toBe(200);
    }
  });
});
