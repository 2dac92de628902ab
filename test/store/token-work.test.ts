/** The work of one list request is bounded, independent of rules, filters and hidden tokens. */
import { describe, expect, test } from 'bun:test';
import type { Grants } from '../../src/domain/grant.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import { newId } from '../../src/domain/key.ts';
import { compilePolicy, decideUnder } from '../../src/domain/policy.ts';
import { visible } from '../../src/domain/visible-scopes.ts';
import type { ListOrder, ListWindow, Store, TokenFilter } from '../../src/store/store.ts';
import { metadataDigest } from '../../src/store/token-index.ts';
import { grants, when } from '../support/grants.ts';
import { plansOf, type Recorded, recorder, rowsVisited } from '../support/statement-recorder.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore, runSql, type TestStore } from '../support/test-store.ts';

/** More than the rows that a list may count. */
const hidden = 12_000;
const shown = 30;

/** When the shown tokens expire, long before the others. */
const expiry = Date.parse('2030-01-01T00:00:00Z');

const creators = { rare: newId(1), card: newId(2) };

const range = <T>(count: number, make: (n: number) => T) => Array.from({ length: count }, (_, n) => make(n));
const entries = Object.fromEntries(range(10, (n) => [`name-${n}`, 'everywhere']));

/** Rules, a filter and a ceiling that together show the thirty oldest tokens, or none. */
const cases: [name: string, count: number, own: Grants, filter?: TokenFilter, above?: Grants][] = [
  ['a container and below', shown, grants({ container: '/seen/' })],
  ['a container alone', shown, grants(when(['container', 'equals', '/seen/deep/']))],
  ['an id prefix', shown, grants(when(['id', 'starts_with', 'seen-']))],
  [
    'an id prefix in a container',
    shown,
    grants(when(['id', 'starts_with', 'seen-'], ['container', 'starts_with', '/seen/'])),
  ],
  ['ids', shown, grants(...range(shown, (n) => when(['id', 'equals', `seen-${n}`])))],
  ['a filter by id', 2, grants('token:read'), { ids: ['seen-1', 'seen-2'] }],
  ['a filter by type', shown, grants('token:read'), { type: 'rare' }],
  ['a filter by metadata', shown, grants('token:read'), { metadata: { rare: 'yes' } }],
  ['ten filters by metadata', shown, grants('token:read'), { metadata: { ...entries, rare: 'yes' } }],
  [
    'a filter by expiry in a container',
    shown,
    grants({ container: '/seen/' }),
    { expiresBefore: expiry + 1 },
  ],
  [
    'a filter by creator in a container',
    shown,
    grants({ container: '/seen/' }),
    { createdBy: creators.rare },
  ],
  ['a search for a value', shown, grants('token:read'), { equals: { rare: 'yes' } }],
  [
    'a search for a value that hidden tokens have',
    shown,
    grants({ container: '/seen/' }, when(['container', 'equals', '/seen/deep/'])),
    { equals: { common: 'yes' } },
  ],
  [
    'a search for two values, one of which every token has',
    shown,
    grants('token:read'),
    { equals: { common: 'yes', rare: 'yes' } },
  ],
  [
    'a container in which every token has the metadata',
    shown,
    grants({ container: '/seen/' }),
    { metadata: entries },
  ],
  [
    'fifty containers and ten filters that every token passes',
    shown,
    grants(...range(49, (n) => ({ container: `/nothing/${n}/` })), { container: '/seen/' }),
    { type: 'rare', metadata: entries },
  ],
];
/** Cases in which a request finds no token among the rows that it may read. */
const endless: typeof cases = [
  [
    'fifty id prefixes and ten filters that every token passes',
    0,
    grants(
      ...range(50, (n) => when(['id', 'starts_with', `hidden-${n}`], ['container', 'equals', '/none/'])),
    ),
    { metadata: entries },
  ],
  [
    'a filter by expiry that only the oldest tokens pass',
    0,
    grants('token:read'),
    { expiresBefore: expiry + 1 },
  ],
  ['a filter by a creator of only the oldest tokens', 0, grants('token:read'), { createdBy: creators.rare }],
  [
    'a session and a ceiling that intersect in too many scopes',
    0,
    grants(...range(50, (n) => when(['id', 'starts_with', `hidden-${n}`]))),
    {},
    grants(...range(50, (n) => ({ container: `/none/${n}/` }))),
  ],
  [
    'a container in which no id has the prefix',
    0,
    grants(
      when(['container', 'starts_with', '/hidden/'], ['id', 'starts_with', 'nobody-']),
      when(['id', 'starts_with', 'hid'], ['container', 'starts_with', '/hidden/nowhere/']),
    ),
    { metadata: entries },
  ],
  [
    'a search for a value that every token has in a container full of the wrong type',
    0,
    grants({ container: '/hidden/' }),
    { type: 'rare', equals: { common: 'yes' } },
  ],
  [
    'fifty containers full of the wrong type',
    0,
    grants(...range(50, (n) => ({ container: `/hidden/${n}/` }))),
    { type: 'card', metadata: { ...entries, rare: 'yes' } },
  ],
];

const everywhere = Object.entries(entries)
  .map((entry) => `('${metadataDigest(entry)}')`)
  .join(', ');
const [rare, notRare] = ['yes', 'no'].map((value) => metadataDigest(['rare', value]));
/** The rows of `tokens` that other tables repeat: for each container of a path, and for each entry of the metadata. */
const derived = [
  `insert into token_containers (tenant_id, container, own, seq)
     select tenant_id, container, 1, seq from tokens
     union all
     select tenant_id, case type when 'rare' then '/seen/' else '/hidden/' end, 0, seq from tokens`,
  `insert into token_metadata (tenant_id, digest, seq)
     select tenant_id, column1, seq from tokens cross join (values ${everywhere}) as digests
     union all
     select tenant_id, case type when 'rare' then '${rare}' else '${notRare}' end, seq from tokens`,
];

/** Creates the shown tokens, then the hidden ones, which are newer. */
async function fill(url: string, tenant: string, now: number): Promise<void> {
  const row = (at: number, id: string, type: 'rare' | 'card', container: string) =>
    `('${tenant}', '${newId(at)}', '${id}', '${type}', '${container}', '${container}', 1, 1, 0, ${at},
      ${expiry + (type === 'rare' ? 0 : 1e9)}, '${creators[type]}')`;
  const rows = [
    ...range(shown, (n) => row(now, `seen-${n}`, 'rare', '/seen/deep/')),
    ...range(hidden, (n) => row(now + n, `hidden-${n}`, 'card', `/hidden/${n % 50}/`)),
  ];
  await runSql(
    url,
    `insert into tokens (tenant_id, seq, id, type, container, container_folded, content_version, data_bytes,
       masked_bytes, created_at, expires_at, created_by) values ${rows.join(', ')}`,
  );
  for (const sql of derived) await runSql(url, sql);
}

/** All tokens have the value `yes` of `common`, the shown ones also that of `rare`. */
async function fillSearch({ url, store }: TestStore, tenant: string): Promise<void> {
  const of = `from token_search where tenant_id = '${tenant}'`;
  for (const [name, types] of Object.entries({ common: "'rare', 'card'", rare: "'rare'" })) {
    const data = JsonText.of(1);
    const content = { type: 'token', container: '/', data, search: { [name]: '{{ data }}' } };
    const none = { mask: undefined, masked: undefined, metadata: undefined, expiresAt: undefined };
    const values = { searchValues: { [name]: 'yes' } };
    await store.tokens.create(tenant, name, { ...content, ...none, ...values }, { by: newId(1), at: 1 });
    await runSql(
      url,
      `insert into token_search (tenant_id, digest, container, seq)
         select s.tenant_id, s.digest, t.container, t.seq from token_search s
         join tokens t on t.tenant_id = s.tenant_id and t.type in (${types}) where s.container = '/'`,
    );
    await store.tokens.delete(tenant, name, () => {});
    expect((await runSql(url, `select 1 as one ${of} and container = '/'`)).length).toBe(0);
  }
}

describe.each(databases)('on %s, a list of few tokens among many', async (name, database) => {
  const asked = recorder();
  const on = await openTestStore(database);
  const tenant = await on.tenant();
  await fill(on.url, tenant, on.clock.now());
  await fillSearch(on, tenant);
  if (name !== 'SQLite') await runSql(on.url, 'analyze');
  const store: Store = await on.openNode(undefined, asked.through);
  await store.tokens.get(tenant, 'none');

  function list(own: Grants, filter: TokenFilter, above: Grants | undefined, window: ListWindow) {
    const [policy, ceiling] = [compilePolicy(own), above && compilePolicy(above)];
    return store.tokens.list(tenant, {
      visible: visible({ policy, ceiling }, 'token:read'),
      decide: (token) => {
        const verdict = decideUnder(policy, ceiling, 'token:read', token);
        return verdict.allowed ? { ...verdict, transform: 'redact' } : undefined;
      },
      filter,
      ...window,
    });
  }

  /** The most rows, index entries and candidates, that all statements of one list may return. */
  const maxRows = { byCursor: 8_000, byNumber: 8_000 };

  async function expectBounded(statements: readonly Recorded[], limit: number): Promise<void> {
    expect(statements.length).toBeLessThanOrEqual(name === 'SQLite' ? 300 : 20);
    expect(statements.reduce((sum, { rows }) => sum + rows, 0)).toBeLessThanOrEqual(limit);
    if (name === 'SQLite') {
      const steps = plansOf(on.url, statements, on.clock.now());
      const searches = steps.filter((step) => step.startsWith('SEARCH'));
      expect(searches.length).toBeGreaterThanOrEqual(statements.length);
      expect(searches.filter((step) => !narrow.test(step))).toEqual([]);
      expect(steps.filter((step) => /^SCAN (?!e\b|CONSTANT ROW)/.test(step))).toEqual([]);
    } else {
      // Several steps of a plan count the same entry.
      expect(await rowsVisited(on.url, statements, on.clock.now())).toBeLessThanOrEqual(30_000);
    }
  }
  const narrow =
    /data_keys_1 \(tenant_id=\?\)$|\((?:tenant_id=\? AND (expires_at<\?|seq=\?( AND digest=\? AND container=\?)?|seq>\? AND seq<\?|id=\?|id>\? AND id<\?|type=\? AND seq(=\?|>\? AND seq<\?)|container=\? AND own=\? AND seq>\? AND seq<\?|digest=\? AND seq(=\?|>\? AND seq<\?)|digest=\? AND container>\? AND container<\?))\)$/;

  const inBothOrders = <T extends readonly unknown[]>(all: readonly T[]) =>
    (['newest', 'oldest'] as ListOrder[]).flatMap((order) => all.map((one) => [order, ...one] as const));

  test.each(inBothOrders(cases))('%s first, %s: finds them in one request', async (order, ...of) => {
    const [, count, own, filter = {}, above] = of;
    const start = newId(order === 'newest' ? on.clock.now() + 2 * hidden : 1);
    asked.take();
    const byCursor = await list(own, filter, above, { size: 100, start, order });
    const statements = asked.take();
    await expectBounded(statements, maxRows.byCursor);
    // Only a count reads the index of expiries, which also has hidden tokens.
    if (name === 'SQLite')
      expect(plansOf(on.url, statements, on.clock.now()).join()).not.toContain('expires_at');
    const byNumber = await list(own, filter, above, { size: 100, page: 1, order });
    await expectBounded(asked.take(), maxRows.byNumber);
    expect(byCursor).toMatchObject({ next: undefined, total: undefined });
    expect([byCursor.rows.length, byNumber.rows.length, byNumber.total]).toEqual([count, count, count]);
  });

  test.each(inBothOrders(endless))(
    '%s first, %s: stops after a bounded number of rows',
    async (order, ...of) => {
      const [, , own, filter = {}, above] = of;
      asked.take();
      const page = await list(own, filter, above, { size: 100, page: 1, order });
      await expectBounded(asked.take(), maxRows.byNumber);
      expect(page.next === undefined ? page.total : undefined).toBe(page.total);
      if (order === 'newest') expect(page.rows.length).toBe(0);
    },
  );

  test('everything: pages and counts a bounded number', async () => {
    asked.take();
    const page = await list(grants('token:read'), {}, undefined, { size: 100, page: 1 });
    await expectBounded(asked.take(), maxRows.byNumber);
    expect([page.rows.length, page.total, page.next === undefined]).toEqual([100, undefined, false]);
    expect(await list(grants('token:read'), {}, undefined, { size: 100, page: 99 })).toMatchObject({
      tooDeep: false,
    });
    expect(await list(grants('token:read'), {}, undefined, { size: 100, page: 200 })).toMatchObject({
      tooDeep: true,
    });
  });

  test('many different filters share a few statements', async () => {
    asked.take();
    for (let n = 0; n < 200; n++) {
      const own = grants(...range(1 + (n % 50), (r) => when(['id', 'starts_with', `hidden-${r}${n}`])));
      const metadata = Object.fromEntries(range(n % 11, (r) => [`name-${r}-${n}`, `value ${n}`]));
      const ids = n % 3 === 0 ? range(1 + (n % 100), (r) => `id-${r}-${n}`) : undefined;
      await list(own, { ids, metadata, type: n % 2 ? `type-${n}` : undefined }, undefined, {
        size: 1 + (n % 100),
        page: 1,
      });
    }
    const texts = new Set(asked.take().map(({ sql }) => sql));
    expect(texts.size).toBeLessThan(150);
    expect([...texts].join('').length).toBeLessThan(300_000);
  });
});
