import { describe, expect, test } from 'bun:test';
import { type ApiResponse, databases, openTestServer } from '../../support/test-server.ts';

const rejected: [query: string, part: string][] = [
  ['start=nonsense', 'start'],
  ['start=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d', 'start'],
  ['start=AZfzwloefECdKz-OahtMXQ&page=1', 'start'],
  ['id=', 'id.0'],
  ['id=7', 'id.0'],
  ['id=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d,', 'id.1'],
  ['id=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d&id=x', 'id.1'],
  ['name=%00', 'name'],
  ['name=a%00b', 'name'],
  ['name=%0A', 'name'],
  ['expires_after=2030-01-01T00:00:00Z', 'expires_after'],
  ['id[]=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d', 'id[]'],
  ['used_before=yesterday', 'used_before'],
  ['used_before=2030-01-01T00:00:00Z&used_before=2030-01-02T00:00:00Z', 'used_before'],
  ['label=payments', 'label'],
  ['label[team]=', 'label.team'],
  ['label[team]=a&label[team]=b', 'label.team'],
  ['label[Team]=payments', 'label.Team'],
  ['label[a]=1&label[b]=2&label[c]=3&label[d]=4', 'label'],
  ['labels[team]=payments', 'labels'],
];

describe.each(databases)('listing applications on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key } = await server.tenant();
  const names: string[] = [];
  for (let at = 1; at <= 24; at++) {
    const name = `n${String(at).padStart(2, '0')}`;
    await server.application(key, { name });
    names.unshift(name);
  }
  /** A tenant with 25 applications, including the management one: n24 … n01, newest first. */
  const many: { key: string; names: string[] } = { key, names: [...names, 'test: first management key'] };

  const list = (query: string, key = many.key) => server.call('GET', `/applications${query}`, { key });
  const namesIn = ({ body }: ApiResponse): string[] => body.data.map(({ name }: { name: string }) => name);

  /** The names of a new tenant's applications that match the filter. */
  async function namesLeft(created: string[], query: string): Promise<string[]> {
    const { key } = await server.tenant();
    for (const name of created) await server.application(key, { name });
    return namesIn(await list(`?size=100&${query}`, key)).reverse();
  }

  test('returns the newest twenty first, with totals and a cursor', async () => {
    const answer = await list('');
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body)).toEqual(['pagination', 'data']);
    expect(answer.body.pagination).toEqual({
      total_items: 25,
      page_number: 1,
      page_size: 20,
      total_pages: 2,
      next: expect.any(String),
    });
    expect(namesIn(answer)).toEqual(many.names.slice(0, 20));
  });

  test('returns each application as get does, without its key', async () => {
    const [first] = (await list('?size=1')).body.data;
    expect(first).toEqual((await list(`/${first.id}`)).body);
    expect((await list('?size=100')).body.data.some((item: object) => 'key' in item)).toBe(false);
  });

  test('sorts by age within the same millisecond, too', async () => {
    const { key } = await server.tenant();
    const ids = [];
    for (let at = 0; at < 10; at++) ids.unshift((await server.application(key)).id);
    const { body } = await list('?type=private', key);
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual(ids);
  });

  test('numbered pages have no gaps or overlaps', async () => {
    const seen = [];
    for (const page of [1, 2, 3]) {
      const answer = await list(`?page=${page}&size=10`);
      expect(answer.body.pagination).toMatchObject({ total_items: 25, page_number: page, total_pages: 3 });
      expect('next' in answer.body.pagination).toBe(page < 3);
      seen.push(...namesIn(answer));
    }
    expect(seen).toEqual(many.names);
  });

  test.each(['page=4&size=10', 'page=1000000000&size=100'])('%s is past the end and empty', async (query) => {
    const { status, body } = await list(`?${query}`);
    expect(status).toBe(200);
    expect(body.data).toEqual([]);
    expect(body.pagination.total_items).toBe(25);
    expect(body.pagination).not.toHaveProperty('next');
  });

  test('a cursor continues after the last page, without totals', async () => {
    const seen: string[] = [];
    let next: string | undefined;
    do {
      const answer = await list(`?size=10${next ? `&start=${next}` : ''}`);
      seen.push(...namesIn(answer));
      if (next) expect(Object.keys(answer.body.pagination).sort()).not.toContain('total_items');
      next = answer.body.pagination.next;
    } while (next);
    expect(seen).toEqual(many.names);
  });

  test('with a cursor, pagination has only page_size and next', async () => {
    const { next } = (await list('?size=10')).body.pagination;
    const second = await list(`?size=10&start=${next}`);
    expect(second.body.pagination).toEqual({ page_size: 10, next: expect.any(String) });
    const last = await list(`?size=10&start=${second.body.pagination.next}`);
    expect(last.body.pagination).toEqual({ page_size: 10 });
  });

  test('a cursor is not affected by created or deleted applications', async () => {
    const { key } = await server.tenant();
    const old = [];
    for (let at = 0; at < 4; at++) old.unshift((await server.application(key)).id);
    const first = await list('?size=2&type=private', key);
    await server.application(key);
    await server.call('DELETE', `/applications/${old[1]}`, { key });
    const second = await list(`?size=2&type=private&start=${first.body.pagination.next}`, key);
    expect(second.body.data.map(({ id }: { id: string }) => id)).toEqual(old.slice(2));
  });

  test('a cursor works with filters, and only within its tenant', async () => {
    const { next } = (await list('?size=10')).body.pagination;
    const { key } = await server.tenant();
    await server.application(key, { name: 'theirs' });
    const theirs = namesIn(await list(`?start=${next}`, key));
    expect(theirs.some((name) => many.names.slice(0, -1).includes(name))).toBe(false);
  });

  test.each([1, 100])('a size of %d is accepted', async (size) => {
    const { body } = await list(`?size=${size}`);
    expect(body.pagination.page_size).toBe(size);
    expect(body.data).toHaveLength(Math.min(size, 25));
  });

  test.each(rejected)('%s is rejected', async (query, part) => {
    const { status, body } = await list(`?${query}`);
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual([part]);
  });

  test('ids may be repeated or comma-separated, in any order and case; unknown ids are ignored', async () => {
    const [a, b, c] = (await list('?size=3')).body.data.map(({ id }: { id: string }) => id);
    const stranger = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
    for (const query of [
      `id=${c}&id=${a}`,
      `id=${a},${c}`,
      `id=${a}%2C${c}&id=${a}`,
      `id=${a.toUpperCase()},${c}&id=${stranger}`,
    ]) {
      const { body } = await list(`?${query}`);
      expect(body.data.map(({ id }: { id: string }) => id)).toEqual([a, c]);
      expect(body.pagination.total_items).toBe(2);
    }
    expect((await list(`?id=${b}&id=${c}&size=1`)).body.pagination).toMatchObject({ total_pages: 2 });
    expect((await list(`?id=${stranger}`)).body).toEqual({
      pagination: { total_items: 0, page_number: 1, page_size: 20, total_pages: 0 },
      data: [],
    });
  });

  test('a hundred ids are accepted', async () => {
    const ids = Array.from({ length: 100 }, () => crypto.randomUUID()).join(',');
    expect((await list(`?id=${ids}`)).status).toBe(200);
  });

  test('filters by type, and filters can be combined', async () => {
    const { key } = await server.tenant();
    await server.application(key, { name: 'web', type: 'public' });
    await server.application(key, { name: 'web', type: 'private' });
    expect((await list('?type=public', key)).body.pagination.total_items).toBe(1);
    expect((await list('?type=management', key)).body.pagination.total_items).toBe(1);
    expect((await list('?name=web', key)).body.pagination.total_items).toBe(2);
    expect((await list('?name=web&type=private', key)).body.pagination.total_items).toBe(1);
  });

  test('key_ending finds the applications of valid keys with this ending', async () => {
    const { key } = await server.tenant();
    const labels = { team: 'web' };
    const web = await server.application(key, { name: 'web', labels });
    await server.application(key, { name: 'other', labels });
    const old = web.key.slice(-4);
    const names = async (query: string) =>
      (await list(query, key)).body.data.map(({ name }: { name: string }) => name);
    expect(await names(`?key_ending=${old}&label[team]=web`)).toEqual(['web']);
    expect(await names(`?key_ending=${old}&name=other`)).toEqual([]);
    const { body } = await server.call('POST', `/applications/${web.id}/regenerate`, { key });
    expect(await names(`?key_ending=${old}`)).toEqual([]);
    expect(await names(`?key_ending=${body.key.slice(-4)}`)).toEqual(['web']);
    expect((await list('?key_ending=abc', key)).body.errors).toEqual({
      key_ending: ['must be the last four characters of a key'],
    });
  });

  test('expires_before excludes expired applications and those without expiry', async () => {
    const { key } = await server.tenant();
    const at = (days: number) => new Date(server.clock.now() + days * 86_400_000).toISOString();
    for (const days of [3, 7, 30])
      await server.application(key, { name: `in ${days} days`, expires_at: at(days) });
    await server.application(key, { name: 'public, in 3 days', type: 'public', expires_at: at(3) });
    await server.application(key, { name: 'stays' });
    const before = async (days: number, more = '') =>
      namesIn(await list(`?expires_before=${encodeURIComponent(at(days))}${more}`, key));
    expect(await before(7)).toEqual(['public, in 3 days', 'in 3 days']);
    expect(await before(8)).toEqual(['public, in 3 days', 'in 7 days', 'in 3 days']);
    expect(await before(8, '&type=private&name=days')).toEqual(['in 7 days', 'in 3 days']);
    expect((await list(`?expires_before=${at(365)}&size=1`, key)).body.pagination.total_items).toBe(4);
    const first = await list(`?expires_before=${at(365)}&size=3`, key);
    const rest = await list(`?expires_before=${at(365)}&start=${first.body.pagination.next}`, key);
    expect(namesIn(rest)).toEqual(['in 3 days']);
    server.clock.advance(3 * 86_400_000);
    expect(await before(10)).toEqual(['in 7 days']);
  });

  test('used_before lists applications that were created before a time and not used since', async () => {
    const { key } = await server.tenant();
    const start = server.clock.now();
    const used = await server.application(key, { name: 'used', permissions: ['application:read'] });
    const web = await server.application(key, { name: 'web', type: 'public' });
    await server.application(key, { name: 'never used' });
    server.clock.advance(1000);
    await server.call('GET', '/applications/key', { key: used.key });
    await server.call('POST', '/sessions', { key: web.key });
    await server.application(key, { name: 'new' });
    await server.flush();
    const before = async (milliseconds: number, more = '') => {
      const at = new Date(start + milliseconds).toISOString();
      return namesIn(await list(`?used_before=${at}&type=private${more}`, key));
    };
    expect(await before(0)).toEqual([]);
    expect(await before(1)).toEqual(['never used']);
    expect(await before(1000)).toEqual(['never used']);
    expect(await before(1001)).toEqual(['new', 'never used', 'used']);
    expect(await before(1001, '&name=used&size=1')).toEqual(['never used']);
    server.clock.advance(1000);
    await server.call('GET', '/applications/key', { key: used.key });
    await server.flush();
    expect(await before(2000)).toEqual(['new', 'never used']);
    const page = await list(`?used_before=${new Date(start + 3000).toISOString()}&size=2`, key);
    expect(page.body.pagination.total_items).toBe(5);
    const unused = await list(`?used_before=${new Date(start + 1000).toISOString()}&size=100`, key);
    expect(namesIn(unused)).toEqual(['never used']);
  });

  test('name matches a part of the name, ignoring case in every alphabet', async () => {
    const created = ['Straße', 'ÉCOLE', 'ΣΑΣΑ', 'ключ', 'İstanbul'];
    expect(await namesLeft(created, 'name=STRASSE')).toEqual(['Straße']);
    expect(await namesLeft(created, `name=${encodeURIComponent('école')}`)).toEqual(['ÉCOLE']);
    expect(await namesLeft(created, `name=${encodeURIComponent('e\u0301col')}`)).toEqual(['ÉCOLE']);
    expect(await namesLeft(created, `name=${encodeURIComponent('ΣΑΣ')}`)).toEqual(['ΣΑΣΑ']);
    expect(await namesLeft(created, `name=${encodeURIComponent('σας')}`)).toEqual(['ΣΑΣΑ']);
    expect(await namesLeft(created, `name=${encodeURIComponent('ЛЮ')}`)).toEqual(['ключ']);
    expect(await namesLeft(created, 'name=ISTANBUL')).toEqual([]);
    expect(await namesLeft(created, `name=${encodeURIComponent('i̇STANBUL')}`)).toEqual(['İstanbul']);
  });

  test('name has no wildcards', async () => {
    const created = ['100%', '1000', 'a_b', 'axb', 'back\\slash', "o'clock", '*', '?'];
    expect(await namesLeft(created, 'name=0%25')).toEqual(['100%']);
    expect(await namesLeft(created, 'name=a_b')).toEqual(['a_b']);
    expect(await namesLeft(created, 'name=%5C')).toEqual(['back\\slash']);
    expect(await namesLeft(created, 'name=%27')).toEqual(["o'clock"]);
    expect(await namesLeft(created, 'name=*')).toEqual(['*']);
    expect(await namesLeft(created, 'name=%3F')).toEqual(['?']);
  });

  test('name may have 200 characters', async () => {
    const name = '😀'.repeat(200);
    expect(await namesLeft([name, 'other'], `name=${encodeURIComponent(name)}`)).toEqual([name]);
  });

  test('name matches an updated name', async () => {
    const { key } = await server.tenant();
    const created = await server.application(key, { name: 'before' });
    const body = { name: 'After', permissions: ['token:read'] };
    await server.call('PUT', `/applications/${created.id}`, { key, body });
    expect((await list('?name=before', key)).body.data).toEqual([]);
    expect(namesIn(await list('?name=after', key))).toEqual(['After']);
  });
});
