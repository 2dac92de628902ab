/** The cost and the response of a request are bounded. */
import { describe, expect, test } from 'bun:test';
import { recorder } from '../../support/statement-recorder.ts';
import { databases, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const mebibyte = 1_048_576;
const entries = <T>(count: number, value: T, name = (n: number) => `name-${n}`) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [name(n), value]));
const rule = (fields: object) => ({
  priority: 1,
  transform: 'reveal',
  permissions: ['token:read'],
  ...fields,
});

describe.each(databases)('bounds on %s', async (_, database) => {
  const asked = recorder();
  const server = await openTestServer(database, {}, asked.through);
  const management = (await server.tenant()).key;

  describe('a response names at most 50 errors in at most 64 KiB', () => {
    const wrong = ['application:create', 'application:update'];
    test.each<[string, string, object, number]>([
      ['too much metadata', '/tokens', { data: 1, metadata: entries(4900, 0) }, 1],
      ['metadata of wrong values', '/tokens', { data: 1, metadata: entries(50, 0) }, 50],
      ['unknown fields', '/tokens', { data: 1, ...entries(4900, 0) }, 50],
      [
        'unknown fields with long names',
        '/tokens',
        { data: 1, ...entries(100, 0, (n) => `${n}${'\u0001'.repeat(1500)}`) },
        50,
      ],
      [
        'rules that grant too much',
        '/applications',
        {
          name: 'x',
          type: 'public',
          rules: Array.from({ length: 50 }, (_, n) => rule({ container: `/c${n}/`, permissions: wrong })),
        },
        50,
      ],
      ['rules that are none', '/applications', { name: 'x', type: 'public', rules: Array(50).fill(0) }, 50],
    ])('%s', async (_, path, body, count) => {
      const { status, body: problem } = await server.call('POST', path, { key: management, body });
      const sentences = Object.values<string[]>(problem.errors).flat();
      expect([status, sentences.length]).toEqual([400, count]);
      expect(Buffer.byteLength(JSON.stringify(problem.errors))).toBeLessThanOrEqual(65_536);
    });
  });

  describe('a container has at most 16 levels and 250 characters', () => {
    const deepest = `/${'a/'.repeat(16)}`;
    const longest = `/${'b'.repeat(248)}/`;
    const condition = (value: string) => ({
      conditions: [{ attribute: 'container', operator: 'starts_with', value }],
    });

    test.each([deepest, longest])('a token in %s has one index entry per level', async (container) => {
      const answer = await server.call('POST', '/tokens', { key: management, body: { container, data: 1 } });
      expect([answer.status, answer.body.container]).toEqual([201, container]);
      const levels = await runSql(
        server.config.databaseUrl,
        `select 1 from token_containers where container like '${container.slice(0, 3)}%'`,
      );
      expect(levels).toHaveLength(container.split('/').length - 2);
    });

    test.each([
      ['the seventeenth level', `${deepest}a/`, 'must have at most 16 levels'],
      ['249 levels', `/${'a/'.repeat(124)}`, 'must have at most 16 levels'],
      [
        'one character more',
        `/${'b'.repeat(249)}/`,
        'must have at most 250 characters, including a slash at each end',
      ],
    ])('and %s is rejected in tokens, rules, conditions and filters', async (_, container, sentence) => {
      const app = { name: 'x', type: 'private' };
      const post = (path: string, body: object) => server.call('POST', path, { key: management, body });
      const answers = [
        await post('/tokens', { container, data: 1 }),
        await post('/applications', { ...app, rules: [rule({ container })] }),
        await post('/sessions/authorize', { nonce: 'x', rules: [rule(condition(container))] }),
        await server.call('GET', `/tokens?container=${container}`, { key: management }),
      ];
      const paths = ['container', 'rules.0.container', 'rules.0.conditions.0.value', 'container'];
      expect(answers.map(({ status, body }) => [status, body.errors])).toEqual(
        paths.map((path) => [400, { [path]: [sentence] }]),
      );
    });
  });

  test('a list accepts at most 10 metadata filters', async () => {
    const list = (count: number) => {
      const query = Object.keys(entries(count, '')).map((name) => `metadata[${name}]=x`);
      return server.call('GET', `/tokens?${query.join('&')}`, { key: management });
    };
    expect((await list(10)).status).toBe(200);
    const { status, body } = await list(11);
    expect([status, body.errors]).toEqual([400, { metadata: ['must have at most 10 entries'] }]);
  });

  describe('a page of large tokens', async () => {
    const { key } = await server.tenant();
    const all = ['token:read', 'token:create'];
    const reveals = (
      await server.application(key, {
        permissions: [],
        rules: [rule({ container: '/', permissions: all })],
      })
    ).key;
    const masks = (await server.application(key, { permissions: ['token:read'] })).key;
    const ids: string[] = [];
    const data = { secret: 'x'.repeat(mebibyte - 300), shown: 'y' };
    for (let n = 0; n < 10; n++) {
      const body = { id: `large-${n}`, data, mask: '{{ data.shown }}' };
      expect((await server.call('POST', '/tokens', { key: reveals, body })).status).toBe(201);
      ids.unshift(body.id);
    }

    /** For every page of the list: its token ids, its size, and the bytes of data that were read for it. */
    async function pages(key: string) {
      const seen: { ids: string[]; size: number; read: number }[] = [];
      for (let query = 'size=100'; ; ) {
        asked.take();
        const { body } = await server.call('GET', `/tokens?${query}`, { key });
        const read = asked.take().reduce((sum, { bytes }) => sum + bytes, 0);
        seen.push({
          ids: body.data.map(({ id }: { id: string }) => id),
          size: JSON.stringify(body).length,
          read,
        });
        if (body.pagination.next === undefined) return seen;
        query = `size=100&start=${body.pagination.next}`;
      }
    }

    test('has at most 8 MiB and a cursor for the rest', async () => {
      const seen = await pages(reveals);
      expect(seen.map(({ ids }) => ids.length)).toEqual([7, 3]);
      expect(seen.flatMap(({ ids }) => ids)).toEqual(ids);
      for (const { size, read } of seen) {
        expect(size).toBeLessThanOrEqual(8 * mebibyte);
        expect(read).toBeLessThanOrEqual(8 * mebibyte);
      }
    });

    test('has no totals, and no page number, because later numbers would skip tokens', async () => {
      const list = (query: string) => server.call('GET', `/tokens?${query}`, { key: reveals });
      expect((await list('size=100')).body.pagination).toEqual({ page_size: 100, next: expect.any(String) });
      const { status, body } = await list('size=100&page=1');
      expect([status, body.errors]).toEqual([
        400,
        { size: ['makes the page larger than 8 MiB: use a smaller one, or `start` without `page`'] },
      ]);
      const numbered = await Promise.all(['1', '2'].map((page) => list(`size=5&page=${page}`)));
      expect(numbered.flatMap((page) => page.body.data.map(({ id }: { id: string }) => id))).toEqual(ids);
    });

    test('reads only the data that it returns', async () => {
      const [page] = await pages(masks);
      expect(page?.ids).toEqual(ids);
      expect(page?.read).toBeLessThan(10_000);
    });
  });
});
