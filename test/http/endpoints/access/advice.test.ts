/** `GET /access/advice`: unused grants and proposals for smaller ones. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../../support/test-server.ts';

const day = 24 * 60 * 60_000;

describe.each(databases)('the access advisor on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'off' });
  let key: string;
  beforeEach(async () => {
    ({ key } = await server.tenant());
  });

  const advice = (query = '', caller = key) => server.call('GET', `/access/advice?${query}`, { key: caller });

  test('proposes grants that were used in the period, and an update with them works', async () => {
    const rules = [
      { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:update'] },
    ];
    const desk = await server.application(key, { name: 'desk', permissions: ['log:read'], rules });
    const body = { id: 'card-1', container: '/cards/', data: 'x' };
    await server.call('POST', '/tokens', { key, body });
    const update = { key: desk.key, body: { metadata: { a: 'b' } } };
    expect((await server.call('PATCH', '/tokens/card-1', update)).status).toBe(200);
    await server.flush();
    server.clock.advance(10 * day);
    expect((await server.call('GET', '/tokens/card-1', { key: desk.key })).body.data).toBe('x');
    await server.flush();
    const entryFor = async (days: number) =>
      (await advice(`application_id=${desk.id}&days=${days}`)).body.data[0];
    const { application, unused, proposal, since } = await entryFor(5);
    expect(application).toEqual({ id: desk.id, name: 'desk', type: 'private' });
    expect(since).toBe(new Date(server.clock.now() - 5 * day).toISOString());
    expect(unused.map(({ risk, permission }: Record<string, string>) => `${risk} ${permission}`)).toEqual([
      'management log:read',
      'change token:update',
    ]);
    expect(proposal).toEqual({
      permissions: [],
      rules: [{ priority: 1, container: '/cards/', transform: 'reveal', permissions: ['token:read'] }],
    });
    expect((await entryFor(30)).proposal.rules[0].permissions).toEqual(['token:read', 'token:update']);
    expect((await entryFor(30)).since).toBe(desk.created_at);
    const put = { key, body: { name: 'desk', ...proposal } };
    expect((await server.call('PUT', `/applications/${desk.id}`, put)).status).toBe(200);
    expect((await server.call('GET', '/tokens/card-1', { key: desk.key })).body.data).toBe('x');
    expect((await advice(`application_id=${desk.id}&days=5`)).body.data).toEqual([]);
  });

  test('lists all applications in pages', async () => {
    for (let index = 0; index < 5; index++) await server.application(key, { permissions: ['token:read'] });
    const ids: string[] = [];
    for (let next = ''; ; ) {
      const { body } = await advice(`size=2${next && `&start=${next}`}`);
      ids.push(...body.data.map((entry: { application: { id: string } }) => entry.application.id));
      next = body.pagination.next ?? '';
      if (!next) break;
    }
    expect(new Set(ids).size).toBe(6);
  });

  test('a summary has the riskiest grant and the counts of every application, in longer pages', async () => {
    const reveal = { priority: 1, container: '/a/', transform: 'reveal', permissions: ['token:read'] };
    for (let index = 0; index < 5; index++)
      await server.application(key, { permissions: ['token:create', 'log:read'], rules: [reveal] });
    const all = (await advice('size=100')).body.data;
    const pages = [(await advice('size=4&summary=true')).body];
    pages.push((await advice(`size=4&summary=true&start=${pages[0].pagination.next}`)).body);
    const entries = pages.flatMap(({ data }) => data);
    expect(pages.map(({ data }) => data.length)).toEqual([4, 2]);
    expect(pages[1].pagination.next).toBeUndefined();
    expect(entries).toEqual(
      all.map(({ proposal, unused, ...entry }: { proposal: object; unused: object[] }) => ({
        ...entry,
        unused: unused.slice(0, 1),
      })),
    );
    expect(entries[0].counts).toEqual({ management: 1, reveal: 1, change: 1, mask: 0, redact: 0 });
    expect(entries[0].unused[0].risk).toBe('management');
  });

  test('is limited to the tenant, and needs access:review', async () => {
    const desk = await server.application(key, { permissions: ['token:read'] });
    const other = await server.tenant();
    expect((await advice(`application_id=${desk.id}`, other.key)).status).toBe(404);
    const { data } = (await advice('size=100', other.key)).body;
    expect(data.some((entry: { application: { id: string } }) => entry.application.id === desk.id)).toBe(
      false,
    );
    expect((await advice('', desk.key)).status).toBe(403);
    expect((await advice('days=0')).status).toBe(400);
    expect((await advice('application_id=x')).status).toBe(400);
  });
});
