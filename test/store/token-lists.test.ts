/** Any list, read page by page within any budget, shows exactly the tokens that single decisions allow. */

import { beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Db } from '../../src/db/db.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import type { Grants } from '../../src/domain/grant.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import { compilePolicy, decideUnder } from '../../src/domain/policy.ts';
import { visible } from '../../src/domain/visible-scopes.ts';
import type { Budget } from '../../src/store/lists/ranges.ts';
import { findTokens } from '../../src/store/lists/tokens.ts';
import type { ListOrder, ListWindow, TokenContent, TokenFilter, TokenQuery } from '../../src/store/store.ts';
import { closeLater } from '../support/cleanup.ts';
import { grants, when } from '../support/grants.ts';
import { naiveDecideUnder } from '../support/naive-policy.ts';
import { Random, randomContainer, randomGrants } from '../support/random-policy.ts';
import { databases, fewConnections, generousTimeout, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const another = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5e';

interface Made {
  readonly id: string;
  readonly container: string;
  readonly type: string;
  readonly metadata: Record<string, string>;
  readonly expiresAt?: number | undefined;
  readonly by?: string;
  readonly at?: number;
}

/** When the tokens are created, one per millisecond. */
const created = startTime + 60_000;

/** After the time of the tests. */
const later = Date.parse('2030-01-01T00:00:00Z');

function randomToken(random: Random, number: number): Made {
  return {
    id: `${random.of(['card-', 'Card-', 'card', 'tok:1.', 'a-'])}${number}`,
    container: randomContainer(random),
    type: random.of(['card', 'card', 'card', 'token']),
    metadata: random.chance(0.5)
      ? { region: random.of(['eu', 'us']), shop: random.of(['a', 'b', 'eu']) }
      : {},
    expiresAt: random.chance(0.4) ? later + random.below(3) : undefined,
    by: random.of([someone, another]),
    at: created + number,
  };
}

function content({ container, type, metadata, expiresAt }: Made): TokenContent {
  const data = JsonText.of('secret');
  return { container, type, metadata, data, mask: undefined, masked: undefined, expiresAt };
}

interface Case {
  readonly own: Grants;
  readonly above: Grants | undefined;
  readonly filter: TokenFilter;
  readonly size: number;
  readonly budget: Budget;
}

describe.each(databases)('lists of tokens on %s', (name, database) => {
  let on: TestStore;
  let db: Db;
  let tenant: string;
  /** All created tokens, newest first. */
  const made: Made[] = [];
  beforeAll(async () => {
    const random = new Random(2026);
    on = await openTestStore(database);
    tenant = await on.tenant();
    const other = await on.tenant();
    for (let number = 0; number < 150; number++) {
      const token = randomToken(random, number);
      made.unshift(token);
      await add(tenant, token);
      if (number % 3 === 0) await add(other, token);
      if (number % 7 === 0)
        await add(tenant, { ...token, id: `expired-${number}`, expiresAt: on.clock.now() + 1 });
    }
    on.clock.advance(1);
    const path = on.url.slice('sqlite:'.length);
    db =
      name === 'SQLite'
        ? openSqlite(path, on.clock.now)
        : openPostgres(on.url, on.clock.now, generousTimeout, fewConnections);
    closeLater(() => db.close());
  });

  async function add(to: string, token: Made): Promise<void> {
    const change = { by: token.by ?? someone, at: token.at ?? on.clock.now() };
    await on.store.tokens.create(to, token.id, content(token), change);
  }

  function queryOf({ own, above, filter }: Case): Omit<TokenQuery, keyof ListWindow> {
    const [policy, ceiling] = [compilePolicy(own), above && compilePolicy(above)];
    return {
      visible: visible({ policy, ceiling }, 'token:read'),
      decide: (token) => {
        const verdict = decideUnder(policy, ceiling, 'token:read', token);
        return verdict.allowed ? verdict : undefined;
      },
      filter,
    };
  }

  async function byCursor(of: Case, order: ListOrder = 'newest'): Promise<string[]> {
    const ids: string[] = [];
    let start: string | undefined;
    do {
      const window = { size: of.size, start, order };
      const page = await findTokens(db, tenant, { ...queryOf(of), ...window }, of.budget);
      expect(page.rows.length).toBeLessThanOrEqual(of.size);
      if (start && page.next) expect(page.next > start).toBe(order === 'oldest');
      ids.push(...page.rows.map(({ id }) => id));
      start = page.next;
    } while (start !== undefined);
    return ids;
  }

  /** Reads pages by number until the last, or until the page number is too deep. Returns the ids and totals. */
  async function byNumber(
    of: Case,
    order?: ListOrder,
  ): Promise<{ ids: string[]; totals: Set<number | undefined> }> {
    const ids: string[] = [];
    const totals = new Set<number | undefined>();
    for (let page = 1; ; page++) {
      const found = await findTokens(db, tenant, { ...queryOf(of), size: of.size, page, order }, of.budget);
      ids.push(...found.rows.map(({ id }) => id));
      if (!found.tooDeep) totals.add(found.total);
      if (found.rows.length < of.size) return { ids, totals };
    }
  }

  function expected({ own, above, filter }: Case): string[] {
    const shown = made.filter(
      (token) =>
        naiveDecideUnder(own, above, 'token:read', token).allowed &&
        (!filter.ids || filter.ids.includes(token.id)) &&
        (!filter.type || filter.type === token.type) &&
        (!filter.createdBy || filter.createdBy === token.by) &&
        (token.at ?? 0) >= (filter.createdAfter ?? 0) &&
        (token.at ?? 0) < (filter.createdBefore ?? Infinity) &&
        (!filter.expiresBefore || (token.expiresAt ?? Infinity) < filter.expiresBefore) &&
        Object.entries(filter.metadata ?? {}).every(([name, value]) => token.metadata[name] === value),
    );
    return shown.map(({ id }) => id);
  }

  const rarely = <T>(...values: T[]) => fc.constantFrom(...Array<undefined>(8).fill(undefined), ...values);
  const cases = fc
    .record({
      seed: fc.nat(),
      size: fc.integer({ min: 1, max: 100 }),
      budget: fc.record({
        scan: fc.constantFrom(1, 7, 60, 2000),
        count: fc.constantFrom(100, 10_000),
        chunk: fc.constantFrom(3, 512),
        probe: fc.constantFrom(4, 128),
      }),
      type: fc.option(fc.constantFrom('card', 'token'), { nil: undefined }),
      region: fc.option(fc.constantFrom('eu', 'us'), { nil: undefined }),
      shop: fc.option(fc.constantFrom('a', 'eu'), { nil: undefined }),
      expiresBefore: rarely(later + 1, later + 2),
      createdBy: rarely(someone, another),
      createdAfter: rarely(created, created + 40),
      createdBefore: rarely(created + 39, created + 120),
      ids: fc.boolean(),
    })
    .map(({ seed, size, budget, type, region, shop, ids, ...times }): Case => {
      const random = new Random(seed);
      const holder = random.of(['application', 'session'] as const);
      const own = randomGrants(random, holder);
      const bound = holder === 'session' && random.chance(0.6);
      const metadata = { ...(region && { region }), ...(shop && { shop }) };
      return {
        own,
        above: bound ? randomGrants(random, 'application') : undefined,
        filter: {
          type,
          ...times,
          metadata: region || shop ? metadata : undefined,
          ids: ids && random.chance(0.3) ? random.some(20, () => random.of(made).id) : undefined,
        },
        size,
        budget,
      };
    });

  test('pages by cursor and by number list exactly the tokens that single decisions allow', async () => {
    let partly = 0;
    await fc.assert(
      fc.asyncProperty(cases, async (of) => {
        const newest = expected(of);
        for (const order of ['newest', 'oldest'] as const) {
          const ids = order === 'oldest' ? newest.toReversed() : newest;
          expect(await byCursor(of, order)).toEqual(ids);
          const { ids: first, totals } = await byNumber(of, order);
          expect(first).toEqual(ids.slice(0, first.length));
          for (const total of totals) expect(total ?? ids.length).toBe(ids.length);
          if (of.budget.scan === 2000 && of.budget.count === 10_000)
            expect([first, [...totals]]).toEqual([ids, [ids.length]]);
        }
        if (newest.length > 0 && newest.length < made.length) partly++;
      }),
      { numRuns: 40 },
    );
    expect(partly).toBeGreaterThan(3);
  });

  test.each<[string, Grants, Grants | undefined]>([
    ['the root itself', grants(when(['container', 'equals', '/'])), undefined],
    [
      'more scopes than rules and a ceiling can be intersected to',
      grants(...Array.from({ length: 50 }, (_, n) => when(['id', 'starts_with', `card-${n}`]))),
      grants(
        ...Array.from({ length: 49 }, (_, n) => ({ container: `/c${n}/` })),
        ...['pci', 'high'].map((container) => ({ container })),
      ),
    ],
  ])('%s is listed', async (_, own, above) => {
    const of = { own, above, filter: {}, size: 20, budget: { scan: 60, count: 100, chunk: 10, probe: 4 } };
    const ids = expected(of);
    expect(ids.length).toBeGreaterThan(5);
    expect(await byCursor(of)).toEqual(ids);
  });

  test.each(["'", '%', '_', '~', '\u{10ffff}', 'é'])(
    'a rule for ids that start with %s shows none',
    async (start) => {
      const own = grants(when(['id', 'starts_with', start]));
      const query = queryOf({ own, above: undefined, filter: {}, size: 1, budget: {} as Budget });
      expect(await on.store.tokens.list(tenant, { ...query, size: 20, page: 1 })).toMatchObject({
        rows: [],
        total: 0,
      });
    },
  );

  test('type, metadata, expiry and creator of hidden tokens change neither a page, its cursor nor its total', async () => {
    const owner = await on.tenant();
    const put = (id: string, container: string, type: string, guess: string, by = someone) => {
      const token = { id, container, type, metadata: { guess }, expiresAt: later };
      return on.store.tokens.create(owner, id, content(token), { by, at: on.clock.now() });
    };
    const own = grants(when(['container', 'equals', '/own/']));
    const budget = { scan: 20, count: 10_000, chunk: 512, probe: 4 };
    const read = async (filter: TokenFilter) => {
      const of = { own, above: undefined, filter, size: 5, budget };
      return findTokens(db, owner, { ...queryOf(of), size: 5, page: 1 }, budget);
    };
    for (let at = 0; at < 60; at++) await put(`other-${at}`, '/own/', 'token', 'other');
    for (let at = 0; at < 3; at++) await put(`own-${at}`, '/own/', 'card', 'right');
    const filters = [
      { metadata: { guess: 'right' } },
      { type: 'card' },
      { metadata: { guess: 'wrong' } },
      { expiresBefore: later + 1, type: 'card' },
      { expiresBefore: later },
      { createdBy: someone, type: 'card' },
      { createdBy: another },
    ];
    const before = await Promise.all(filters.map(read));
    for (let at = 0; at < 40; at++)
      await put(`hidden-${at}`, '/hidden/', 'card', at % 2 ? 'right' : 'wrong', at % 3 ? someone : another);
    expect(await Promise.all(filters.map(read))).toEqual(before);
  });

  test('every page within the total can be read, with any number of rules', async () => {
    const owner = await on.tenant();
    const rules = Array.from({ length: 10 }, (_, at) => when(['container', 'starts_with', `/many/${at}/`]));
    const change = { by: someone, at: on.clock.now() };
    for (let at = 0; at < 120; at++) {
      const token = { id: `many-${at}`, container: `/many/${at % 10}/`, type: 'card', metadata: {} };
      await on.store.tokens.create(owner, token.id, content(token), change);
    }
    const budget = { scan: 20, count: 120, chunk: 512, probe: 4 };
    const of = { own: grants(...rules), above: undefined, filter: {}, size: 5, budget };
    const found: string[] = [];
    for (let page = 1; page <= 24; page++) {
      const { total, tooDeep, rows } = await findTokens(db, owner, { ...queryOf(of), size: 5, page }, budget);
      expect([page, total, tooDeep, rows.length]).toEqual([page, 120, false, 5]);
      found.push(...rows.map(({ id }) => id));
    }
    expect(new Set(found).size).toBe(120);
  });
});
