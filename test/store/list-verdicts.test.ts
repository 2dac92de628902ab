/** A list decides about each token once, and shows and reports it as that decision says. */

import { describe, expect, test } from 'bun:test';
import type { Db } from '../../src/db/db.ts';
import { boundOf } from '../../src/db/statement.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import { compilePolicy, decideUnder } from '../../src/domain/policy.ts';
import { visible } from '../../src/domain/visible-scopes.ts';
import { maxId } from '../../src/store/lists/page.ts';
import type { DecidedBy, ListWindow, Store } from '../../src/store/store.ts';
import { grants } from '../support/grants.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const rule = (container: string, transform: 'reveal' | 'mask' | 'redact') => ({ container, transform });
const own = compilePolicy(
  grants(
    rule('/open/', 'reveal'),
    rule('/half/', 'mask'),
    rule('/shut/', 'redact'),
    rule('/held/', 'reveal'),
  ),
);
/** Allows less of the last one, and no part of the first. */
const above = compilePolicy(
  grants(
    rule('/open/a/', 'reveal'),
    rule('/half/', 'reveal'),
    rule('/shut/', 'mask'),
    rule('/held/', 'mask'),
  ),
);
const containers = ['/open/a/', '/half/', '/shut/', '/held/', '/open/b/', '/other/'];
const count = 60;

describe.each(databases)('verdicts of lists on %s', async (_, database) => {
  let decisions: string[] = [];
  /** Runs once, before the next statement that reads ciphertexts. */
  let beforeRead: (() => Promise<unknown>) | undefined;

  const interrupted = (db: Db): Db => ({
    ...db,
    all: async (statement) => {
      const work = boundOf(statement)[0].includes(' as ciphertext ') ? beforeRead : undefined;
      if (work) beforeRead = undefined;
      await work?.();
      return db.all(statement);
    },
  });

  const contentOf = (n: number, container: string) => ({
    type: 'card',
    container,
    data: JsonText.of(`plain ${n}`),
    mask: 'masked',
    masked: JsonText.of(`masked ${n}`),
    metadata: undefined,
    expiresAt: undefined,
  });
  const change = () => ({ by: someone, at: on.clock.now() });
  const add = (n: number, container: string) =>
    store.tokens.create(tenant, `token-${n}`, contentOf(n, container), change());

  const on = await openTestStore(database);
  const store: Store = await on.openNode(undefined, interrupted);
  const tenant = await on.tenant();
  for (let n = 0; n < count; n++) await add(n, containers[n % containers.length] as string);
  const move = (n: number, container: string) =>
    store.tokens.update(tenant, `token-${n}`, change(), async () => contentOf(n, container));

  function list(window: ListWindow, ceiling = true) {
    decisions = [];
    const under = { policy: own, ceiling: ceiling ? above : undefined };
    return store.tokens.list(tenant, {
      visible: visible(under, 'token:read'),
      decide: (token: DecidedBy) => {
        decisions.push(token.id);
        const verdict = decideUnder(under.policy, under.ceiling, 'token:read', token);
        return verdict.allowed ? verdict : undefined;
      },
      filter: {},
      ...window,
    });
  }

  async function expectOwnVerdicts({ rows }: Awaited<ReturnType<typeof list>>, ceiling = true) {
    for (const { token, data, verdict } of rows) {
      const expected = decideUnder(own, ceiling ? above : undefined, 'token:read', token);
      expect([token.id, verdict]).toEqual([token.id, expected as typeof verdict]);
      const n = token.id.slice('token-'.length);
      const shown = { reveal: `plain ${n}`, mask: `masked ${n}`, redact: undefined }[verdict.transform];
      expect(data?.value()).toEqual(shown);
    }
  }

  test.each([[true], [false]])('each token has its own verdict and data (ceiling: %p)', async (ceiling) => {
    const ids: string[] = [];
    for (let start: string | undefined = maxId; start !== undefined; ) {
      const page = await list({ size: 7, start }, ceiling);
      await expectOwnVerdicts(page, ceiling);
      expect(decisions.length).toBe(new Set(decisions).size);
      ids.push(...page.rows.map(({ token }) => token.id));
      start = page.next;
    }
    const seen = ceiling ? 4 : 5;
    expect(ids.length).toBe((count / containers.length) * seen);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('a page by number decides about each token once', async () => {
    const page = await list({ size: 11, page: 2 });
    await expectOwnVerdicts(page);
    expect([page.rows.length, page.total]).toEqual([11, 40]);
    expect(decisions.length).toBe(new Set(decisions).size);
  });

  test('a token that is moved before it is read is decided about again', async () => {
    await add(100, '/open/a/');
    await add(101, '/open/a/');
    await add(102, '/half/');
    beforeRead = async () => {
      await move(100, '/half/');
      await move(101, '/other/');
      await move(102, '/open/a/');
    };
    const page = await list({ size: 3, start: maxId });
    expect(beforeRead).toBeUndefined();
    await expectOwnVerdicts(page);
    expect(page.rows.map(({ token, verdict }) => [token.id, verdict.transform])).toEqual([
      ['token-102', 'reveal'],
      ['token-100', 'mask'],
    ]);
    for (const n of [100, 101, 102]) await store.tokens.delete(tenant, `token-${n}`, () => {});
  });
});
