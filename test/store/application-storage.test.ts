/** The storage used by each application is counted exactly. */
import { describe, expect, test } from 'bun:test';
import { JsonText } from '../../src/domain/json-text.ts';
import { newId } from '../../src/domain/key.ts';
import type { Store, TokenContent } from '../../src/store/store.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const content = (size: number, fields: Partial<TokenContent> = {}): TokenContent => ({
  type: 'token',
  container: '/general/',
  data: JsonText.of('x'.repeat(size)),
  mask: 'ünïcode',
  masked: JsonText.of('m'.repeat(size % 7)),
  metadata: size % 2 ? { naïve: 'ß' } : undefined,
  expiresAt: undefined,
  ...fields,
});

describe.each(databases)('storage used by an application on %s', async (_, database) => {
  const on = await openTestStore(database);

  async function opened() {
    const tenant = await on.tenant();
    const [a, b] = [(await on.application(tenant)).id, (await on.application(tenant)).id];
    await on.store.tokens.get(tenant, 'none');
    return { tenant, a, b };
  }

  const create = (node: Store, tenant: string, by: string, id: string, content: TokenContent) =>
    node.change(tenant, (tx) => tx.tokens.create(tenant, id, content, { by, at: on.clock.now() }));

  /** The storage that a creator uses, computed from its tokens. */
  async function counted(creator: string) {
    const [row] = await on.runSql<{ tokens: number; bytes: number }>(
      `select count(*) as tokens, coalesce(sum(bytes), 0) as bytes from tokens where created_by = '${creator}'`,
    );
    return { tokens: Number(row?.tokens), bytes: Number(row?.bytes) };
  }

  test('equals the sum of its tokens after concurrent creates, updates, deletes and expiry on several nodes', async () => {
    const { tenant, a, b } = await opened();
    const nodes = [on.store, await on.openNode(), await on.openNode()];
    for (const node of nodes) await node.tokens.get(tenant, 'none');
    const soon = on.clock.now() + 1000;
    const end = (n: number) => ({ expiresAt: n % 5 === 0 ? soon : undefined });
    const made = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const by = n % 2 ? a : b;
        await create(nodes[n % 3]!, tenant, by, `t-${n}`, content(n * 300, end(n)));
        return `t-${n}`;
      }),
    );
    expect(await on.store.tokens.storageUsed(tenant, a)).toMatchObject({ tokens: 30 });
    expect(await on.store.tokens.storageUsed(tenant, a)).toEqual(await counted(a));
    await Promise.all(
      made.map((id, n) =>
        nodes[n % 3]!.change<unknown>(tenant, (tx) =>
          n % 3 === 0
            ? tx.tokens.delete(tenant, id, () => {})
            : tx.tokens.update(tenant, id, { by: b, at: on.clock.now() }, async () =>
                content(300 * (60 - n), end(n)),
              ),
        ),
      ),
    );
    for (const each of [a, b])
      expect(await on.store.tokens.storageUsed(tenant, each)).toEqual(await counted(each));
    on.clock.advance(1000);
    expect(await on.maintenance.sweep(3)).toBe(3);
    while ((await on.maintenance.sweep(3)) > 0);
    for (const each of [a, b])
      expect(await on.store.tokens.storageUsed(tenant, each)).toEqual(await counted(each));
    expect((await counted(a)).tokens).toBeGreaterThan(10);
  });

  test('counts a token that replaces an expired one for its new creator', async () => {
    const { tenant, a, b } = await opened();
    await create(on.store, tenant, a, 'taken', content(9000, { expiresAt: on.clock.now() + 10 }));
    on.clock.advance(10);
    await create(on.store, tenant, b, 'taken', content(1));
    expect(await on.store.tokens.storageUsed(tenant, a)).toEqual({ tokens: 0, bytes: 0 });
    expect(await on.store.tokens.storageUsed(tenant, b)).toEqual(await counted(b));
  });

  test('does not change if a request fails', async () => {
    const { tenant, a } = await opened();
    await create(on.store, tenant, a, 'one', content(9));
    const before = await on.store.tokens.storageUsed(tenant, a);
    expect(await create(on.store, tenant, a, 'one', content(50))).toBeUndefined();
    const broken = on.store.change(tenant, async (tx) => {
      await tx.tokens.create(tenant, newId(1), content(70), { by: a, at: 1 });
      throw new Error('broken');
    });
    await expect(broken).rejects.toThrow('broken');
    expect(await on.store.tokens.storageUsed(tenant, a)).toEqual(before);
  });

  test('includes idempotency records until they are removed or replaced', async () => {
    const { tenant, a, b } = await opened();
    const save = (caller: string, key: string, reply: unknown, quota?: number) => {
      const request = { caller, application: a, key, request: 'POST /tokens' };
      return on.store.change(tenant, (tx) =>
        tx.idempotency.save(tenant, request, reply, on.clock.now(), quota),
      );
    };
    await create(on.store, tenant, a, 'one', content(9));
    const tokens = await on.store.tokens.storageUsed(tenant, a);
    const recorded = async () => (await on.store.tokens.storageUsed(tenant, a)).bytes - tokens.bytes;
    await Promise.all([save(a, 'x', 'short'), save(newId(on.clock.now()), 'x', 'y'.repeat(5000))]);
    const both = await recorded();
    expect(both).toBeGreaterThan(5500);
    const full = save(a, 'y', 'short', tokens.bytes + both + 100);
    await expect(full).rejects.toMatchObject({ code: 'storage_full' });
    expect(await recorded()).toBe(both);
    expect(await on.store.tokens.storageUsed(tenant, b)).toEqual({ tokens: 0, bytes: 0 });
    on.clock.advance(86_400_000);
    await save(a, 'x', 'short');
    expect(await recorded()).toBe(both);
    while ((await on.maintenance.sweep(1)) > 0);
    expect(await recorded()).toBeLessThan(1000);
    on.clock.advance(86_400_000);
    await on.maintenance.sweep(10);
    expect(await on.store.tokens.storageUsed(tenant, a)).toEqual(tokens);
  });

  test('is deleted with the application, whose tokens can still be updated and deleted', async () => {
    const { tenant, a, b } = await opened();
    for (const id of ['one', 'two']) await create(on.store, tenant, a, id, content(9));
    await on.store.applications.delete(tenant, a);
    await on.maintenance.sweep(10);
    const change = { by: b, at: on.clock.now() };
    await on.store.change(tenant, (tx) => tx.tokens.update(tenant, 'one', change, async () => content(99)));
    expect(await on.store.change(tenant, (tx) => tx.tokens.delete(tenant, 'two', () => {}))).toBe(true);
    expect(await on.runSql(`select 1 from application_storage where application_id = '${a}'`)).toEqual([]);
    expect(await on.store.tokens.storageUsed(tenant, b)).toEqual({ tokens: 0, bytes: 0 });
  });
});
