import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type ApiResponse, databases, openTestServer, type TestServer } from '../../support/test-server.ts';

const refused: [query: string, part: string][] = [
  ['page=0', 'page'],
  ['page=-1', 'page'],
  ['page=1.5', 'page'],
  ['page=1e3', 'page'],
  ['page=', 'page'],
  ['page=one', 'page'],
  ['page=99999999999999999999', 'page'],
  ['page=1&page=2', 'page'],
  ['size=0', 'size'],
  ['size=101', 'size'],
  ['size=+5', 'size'],
  ['size=5&size=5', 'size'],
  ['start=', 'start'],
  ['start=nonsense', 'start'],
  ['start=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d', 'start'],
  ['start=AZfzwloefECdKz-OahtMXQ&page=1', 'start'],
  ['id=', 'id.0'],
  ['id=7', 'id.0'],
  ['id=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d,', 'id.1'],
  ['id=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d&id=x', 'id.1'],
  ['type=', 'type'],
  ['type=session', 'type'],
  ['type=public&type=private', 'type'],
  ['name=', 'name'],
  ['name=a&name=b', 'name'],
  ['name=%00', 'name'],
  ['name=a%00b', 'name'],
  ['name=%0A', 'name'],
  [`name=${'a'.repeat(201)}`, 'name'],
  ['expires_before=', 'expires_before'],
  ['expires_before=soon', 'expires_before'],
  ['expires_before=2026-02-30T00:00:00Z', 'expires_before'],
  ['expires_before=2030-01-01', 'expires_before'],
  ['expires_before=2030-01-01T00:00:00Z&expires_before=2030-01-01T00:00:00Z', 'expires_before'],
  ['expires_after=2030-01-01T00:00:00Z', 'expires_after'],
  ['colour=red', 'colour'],
  ['PAGE=1', 'PAGE'],
  ['id[]=0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d', 'id[]'],
  ['__proto__=1', '__proto__'],
  ['constructor=1', 'constructor'],
];

describe.each(databases)('listing Applications on %s', (_, database) => {
  let world: TestServer;
  /** A tenant with 25 Applications, the management one included: named n24 … n01 from new to old. */
  let many: { key: string; names: string[] };
  beforeAll(async () => {
    world = await openTestServer(database);
    const { key } = await world.tenant();
    const names: string[] = [];
    for (let at = 1; at <= 24; at++) {
      const name = `n${String(at).padStart(2, '0')}`;
      await world.application(key, { name });
      names.unshift(name);
    }
    many = { key, names: [...names, 'test: first management key'] };
  });
  afterAll(() => world.close());

  const list = (query: string, key = many.key) => world.call('GET', `/applications${query}`, { key });
  const namesIn = ({ body }: ApiResponse): string[] => body.data.map(({ name }: { name: string }) => name);

  /** The names of a fresh tenant's Applications that the filter leaves. */
  async function namesLeft(made: string[], query: string): Promise<string[]> {
    const { key } = await world.tenant();
    for (const name of made) await world.application(key, { name });
    return namesIn(await list(`?size=100&${query}`, key)).reverse();
  }

  test('gives the newest twenty first, with totals and a way to the rest', async () => {
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

  test('shows each as a get would, without its key', async () => {
    const [first] = (await list('?size=1')).body.data;
    expect(first).toEqual((await list(`/${first.id}`)).body);
    expect((await list('?size=100')).body.data.some((item: object) => 'key' in item)).toBe(false);
  });

  test('the newest comes first also among those of one millisecond', async () => {
    const { key } = await world.tenant();
    const ids = [];
    for (let at = 0; at < 10; at++) ids.unshift((await world.application(key)).id);
    const { body } = await list('?type=private', key);
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual(ids);
  });

  test('pages by number join up without gap or overlap', async () => {
    const seen = [];
    for (const page of [1, 2, 3]) {
      const answer = await list(`?page=${page}&size=10`);
      expect(answer.body.pagination).toMatchObject({ total_items: 25, page_number: page, total_pages: 3 });
      expect('next' in answer.body.pagination).toBe(page < 3);
      seen.push(...namesIn(answer));
    }
    expect(seen).toEqual(many.names);
  });

  test.each(['page=4&size=10', 'page=1000000000&size=100'])('%s is past the end: empty', async (query) => {
    const { status, body } = await list(`?${query}`);
    expect(status).toBe(200);
    expect(body.data).toEqual([]);
    expect(body.pagination.total_items).toBe(25);
    expect(body.pagination).not.toHaveProperty('next');
  });

  test('a cursor continues where the page ended, without totals', async () => {
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

  test('with a cursor the pagination is its size and the next cursor alone', async () => {
    const { next } = (await list('?size=10')).body.pagination;
    const second = await list(`?size=10&start=${next}`);
    expect(second.body.pagination).toEqual({ page_size: 10, next: expect.any(String) });
    const last = await list(`?size=10&start=${second.body.pagination.next}`);
    expect(last.body.pagination).toEqual({ page_size: 10 });
  });

  test('a cursor is not shifted by what is made or deleted in the meantime', async () => {
    const { key } = await world.tenant();
    const old = [];
    for (let at = 0; at < 4; at++) old.unshift((await world.application(key)).id);
    const first = await list('?size=2&type=private', key);
    await world.application(key);
    await world.call('DELETE', `/applications/${old[1]}`, { key });
    const second = await list(`?size=2&type=private&start=${first.body.pagination.next}`, key);
    expect(second.body.data.map(({ id }: { id: string }) => id)).toEqual(old.slice(2));
  });

  test('a cursor keeps to its filters, and to its own tenant', async () => {
    const { next } = (await list('?size=10')).body.pagination;
    const { key } = await world.tenant();
    await world.application(key, { name: 'theirs' });
    const theirs = namesIn(await list(`?start=${next}`, key));
    expect(theirs.some((name) => many.names.slice(0, -1).includes(name))).toBe(false);
  });

  test.each([1, 100])('a size of %d is taken', async (size) => {
    const { body } = await list(`?size=${size}`);
    expect(body.pagination.page_size).toBe(size);
    expect(body.data).toHaveLength(Math.min(size, 25));
  });

  test.each(refused)('%s is refused', async (query, part) => {
    const { status, body } = await list(`?${query}`);
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual([part]);
  });

  test('ids may be repeated or separated by commas, in any order and case; unknown ones are left out', async () => {
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

  test('a hundred ids fit in one request', async () => {
    const ids = Array.from({ length: 100 }, () => crypto.randomUUID()).join(',');
    expect((await list(`?id=${ids}`)).status).toBe(200);
  });

  test('type leaves those of that type, and filters add up', async () => {
    const { key } = await world.tenant();
    await world.application(key, { name: 'web', type: 'public' });
    await world.application(key, { name: 'web', type: 'private' });
    expect((await list('?type=public', key)).body.pagination.total_items).toBe(1);
    expect((await list('?type=management', key)).body.pagination.total_items).toBe(1);
    expect((await list('?name=web', key)).body.pagination.total_items).toBe(2);
    expect((await list('?name=web&type=private', key)).body.pagination.total_items).toBe(1);
  });

  test('expires_before leaves those that are about to expire: not those that stay, nor those that are gone', async () => {
    const { key } = await world.tenant();
    const at = (days: number) => new Date(world.clock.now() + days * 86_400_000).toISOString();
    for (const days of [3, 7, 30])
      await world.application(key, { name: `in ${days} days`, expires_at: at(days) });
    await world.application(key, { name: 'public, in 3 days', type: 'public', expires_at: at(3) });
    await world.application(key, { name: 'stays' });
    const before = async (days: number, more = '') =>
      namesIn(await list(`?expires_before=${encodeURIComponent(at(days))}${more}`, key));
    expect(await before(7)).toEqual(['public, in 3 days', 'in 3 days']);
    expect(await before(8)).toEqual(['public, in 3 days', 'in 7 days', 'in 3 days']);
    expect(await before(8, '&type=private&name=days')).toEqual(['in 7 days', 'in 3 days']);
    expect((await list(`?expires_before=${at(365)}&size=1`, key)).body.pagination.total_items).toBe(4);
    const first = await list(`?expires_before=${at(365)}&size=3`, key);
    const rest = await list(`?expires_before=${at(365)}&start=${first.body.pagination.next}`, key);
    expect(namesIn(rest)).toEqual(['in 3 days']);
    world.clock.advance(3 * 86_400_000);
    expect(await before(10)).toEqual(['in 7 days']);
  });

  test('name finds a part of the name in any case, in every alphabet', async () => {
    const made = ['Straße', 'ÉCOLE', 'ΣΑΣΑ', 'ключ', 'İstanbul'];
    expect(await namesLeft(made, 'name=STRASSE')).toEqual(['Straße']);
    expect(await namesLeft(made, `name=${encodeURIComponent('école')}`)).toEqual(['ÉCOLE']);
    expect(await namesLeft(made, `name=${encodeURIComponent('e\u0301col')}`)).toEqual(['ÉCOLE']);
    expect(await namesLeft(made, `name=${encodeURIComponent('ΣΑΣ')}`)).toEqual(['ΣΑΣΑ']);
    expect(await namesLeft(made, `name=${encodeURIComponent('σας')}`)).toEqual(['ΣΑΣΑ']);
    expect(await namesLeft(made, `name=${encodeURIComponent('ЛЮ')}`)).toEqual(['ключ']);
    expect(await namesLeft(made, 'name=ISTANBUL')).toEqual([]);
    expect(await namesLeft(made, `name=${encodeURIComponent('i̇STANBUL')}`)).toEqual(['İstanbul']);
  });

  test('signs that mean something to a database mean themselves in name', async () => {
    const made = ['100%', '1000', 'a_b', 'axb', 'back\\slash', "o'clock", '*', '?'];
    expect(await namesLeft(made, 'name=0%25')).toEqual(['100%']);
    expect(await namesLeft(made, 'name=a_b')).toEqual(['a_b']);
    expect(await namesLeft(made, 'name=%5C')).toEqual(['back\\slash']);
    expect(await namesLeft(made, 'name=%27')).toEqual(["o'clock"]);
    expect(await namesLeft(made, 'name=*')).toEqual(['*']);
    expect(await namesLeft(made, 'name=%3F')).toEqual(['?']);
  });

  test('a name of 200 characters can be looked for whole', async () => {
    const name = '😀'.repeat(200);
    expect(await namesLeft([name, 'other'], `name=${encodeURIComponent(name)}`)).toEqual([name]);
  });

  test('name follows an update', async () => {
    const { key } = await world.tenant();
    const made = await world.application(key, { name: 'before' });
    const body = { name: 'After', permissions: ['token:read'] };
    await world.call('PUT', `/applications/${made.id}`, { key, body });
    expect((await list('?name=before', key)).body.data).toEqual([]);
    expect(namesIn(await list('?name=after', key))).toEqual(['After']);
  });

  test('without application:read it is refused, and the missing permission is named', async () => {
    const other = await world.application(many.key, { permissions: ['application:update'] });
    const { status, body } = await list('', other.key);
    expect([status, body.code]).toEqual([403, 'permission_missing']);
    expect(body.detail).toContain('application:read');
    await world.call('DELETE', `/applications/${other.id}`, { key: many.key });
  });
});
