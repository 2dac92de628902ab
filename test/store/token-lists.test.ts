import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Grants } from '../../src/domain/grant.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import { ready } from '../../src/domain/policy.ts';
import { type Scope, visible } from '../../src/domain/scope.ts';
import type { TokenContent, TokenFilter } from '../../src/store/store.ts';
import { grants, when } from '../support/grants.ts';
import { naiveUnder } from '../support/naive-policy.ts';
import { Random, randomContainer, randomGrants } from '../support/random-policy.ts';
import { openStores, type Stores } from '../support/stores.ts';
import { databases } from '../support/world.ts';

const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const everything = { limit: 10_000, offset: 0, before: undefined };

interface Made {
  readonly id: string;
  readonly container: string;
  readonly type: string;
  readonly metadata: Record<string, string>;
}

function randomToken(random: Random, number: number): Made {
  return {
    id: `${random.of(['card-', 'Card-', 'card', 'tok:1.', 'a-'])}${number}`,
    container: randomContainer(random),
    type: random.of(['card', 'token']),
    metadata: random.chance(0.5) ? { region: random.of(['eu', 'us']) } : {},
  };
}

function content({ container, type, metadata }: Made): TokenContent {
  return {
    container,
    type,
    metadata,
    data: JsonText.of('secret'),
    mask: undefined,
    masked: undefined,
    expiresAt: undefined,
  };
}

describe.each(databases)('the store on %s: lists of Tokens', (_, database) => {
  const random = new Random(2026);
  let on: Stores;
  let tenant: string;
  /** Newest first. */
  let made: Made[];
  beforeAll(async () => {
    on = await openStores(database);
    tenant = await on.tenant();
    const other = await on.tenant();
    made = [];
    for (let number = 0; number < 300; number++) {
      const token = randomToken(random, number);
      made.unshift(token);
      await add(tenant, token);
      if (number % 3 === 0) await add(other, token);
    }
  });
  afterAll(() => on.close());

  async function add(to: string, token: Made): Promise<void> {
    await on.store.tokens.create(to, token.id, content(token), { by: someone, at: on.clock.now() });
  }

  const list = async (scopes: Scope[], filter: TokenFilter = {}, window = {}) =>
    await on.store.tokens.list(tenant, scopes, filter, { ...everything, ...window });
  const idsOf = (tokens: readonly { id: string }[]) => tokens.map(({ id }) => id);

  async function byOffset(scopes: Scope[], filter: TokenFilter, limit: number): Promise<string[]> {
    const ids: string[] = [];
    for (let offset = 0; ; offset += limit) {
      const page = await list(scopes, filter, { limit, offset });
      ids.push(...idsOf(page));
      if (page.length < limit) return ids;
    }
  }

  async function byCursor(scopes: Scope[], filter: TokenFilter, limit: number): Promise<string[]> {
    const ids: string[] = [];
    for (let before: string | undefined; ; ) {
      const page = await list(scopes, filter, { limit, before });
      ids.push(...idsOf(page));
      if (page.length < limit) return ids;
      before = page.at(-1)?.seq;
    }
  }

  function expected(own: Grants, above: Grants | undefined, filter: TokenFilter): string[] {
    const shown = made.filter(
      (token) =>
        naiveUnder(own, above, 'token:read', token).allowed &&
        (!filter.ids || filter.ids.includes(token.id)) &&
        (!filter.type || filter.type === token.type) &&
        Object.entries(filter.metadata ?? {}).every(([name, value]) => token.metadata[name] === value),
    );
    return idsOf(shown);
  }

  function randomFilter(): TokenFilter {
    if (random.chance(0.4)) return {};
    return {
      ids: random.chance(0.3) ? idsOf(random.some(20, () => random.of(made))) : undefined,
      type: random.chance(0.5) ? random.of(['card', 'token']) : undefined,
      metadata: random.chance(0.5) ? { region: random.of(['eu', 'us']) } : undefined,
    };
  }

  test('list, count, pages and cursors show exactly what one decision after the other would', async () => {
    let shown = 0;
    for (let round = 0; round < 100; round++) {
      const holder = random.of(['application', 'session'] as const);
      const own = randomGrants(random, holder);
      const above =
        holder === 'session' && random.chance(0.6) ? randomGrants(random, 'application') : undefined;
      const filter = randomFilter();
      const scopes = visible({ policy: ready(own), ceiling: above && ready(above) }, 'token:read');
      const ids = expected(own, above, filter);
      const limit = 20 + random.below(60);
      const seen = {
        list: idsOf(await list(scopes, filter)),
        count: await on.store.tokens.count(tenant, scopes, filter),
        byOffset: await byOffset(scopes, filter, limit),
        byCursor: await byCursor(scopes, filter, limit),
      };
      expect({ own, above, filter, ...seen }).toEqual({
        own,
        above,
        filter,
        list: ids,
        count: ids.length,
        byOffset: ids,
        byCursor: ids,
      });
      if (ids.length > 0 && ids.length < made.length) shown++;
    }
    expect(shown).toBeGreaterThan(30);
  });

  test('what lies in the root itself is found there', async () => {
    const own = grants(when(['container', 'equals', '/']));
    const ids = expected(own, undefined, {});
    expect(ids.length).toBeGreaterThan(5);
    expect(idsOf(await list(visible({ policy: ready(own) }, 'token:read')))).toEqual(ids);
  });

  test('as many scopes as rules and a ceiling can make are answered like one', async () => {
    const own = grants(...Array.from({ length: 50 }, (_, n) => when(['id', 'starts_with', `card-${n}`])));
    const above = grants(
      ...Array.from({ length: 49 }, (_, n) => ({ container: `/c${n}/` })),
      ...['pci', 'high'].map((container) => ({ container })),
    );
    const scopes = visible({ policy: ready(own), ceiling: ready(above) }, 'token:read');
    expect([scopes.length, scopes[0]?.among?.length]).toEqual([10, 51]);
    const ids = expected(own, above, {});
    expect(ids.length).toBeGreaterThan(5);
    expect(idsOf(await list(scopes))).toEqual(ids);
    expect(await on.store.tokens.count(tenant, scopes, {})).toBe(ids.length);
  });

  test('a condition may name what no id can hold', async () => {
    for (const value of ["'", '%', '_', '~', '\u{10ffff}', 'é']) {
      const own = grants(when(['id', 'starts_with', value]));
      expect(await list(visible({ policy: ready(own) }, 'token:read'))).toEqual([]);
    }
  });
});
