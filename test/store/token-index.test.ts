/** The index rows by which lists find a token change with its container, and are deleted with it. */
import { describe, expect, test } from 'bun:test';
import { JsonText } from '../../src/domain/json-text.ts';
import { newId } from '../../src/domain/key.ts';
import type { TokenContent } from '../../src/store/store.ts';
import { metadataDigest } from '../../src/store/token-index.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const containers: [container: string, lies: string[]][] = [
  ['/', ['/ 1']],
  ['/a/', ['/a/ 1']],
  ['/A/b-c/D_1/', ['/a/ 0', '/a/b-c/ 0', '/a/b-c/d_1/ 1']],
  ['a/a/a', ['/a/ 0', '/a/a/ 0', '/a/a/a/ 1']],
];
const deep = `/${'0/'.repeat(200)}`;

describe.each(databases)('the index of tokens by container on %s', async (_, database) => {
  const change = () => ({ by: newId(1), at: on.clock.now() });
  const content = (given: Partial<TokenContent>): TokenContent => ({
    type: 'card',
    container: '/general/',
    data: JsonText.of(1),
    mask: undefined,
    masked: undefined,
    metadata: undefined,
    expiresAt: undefined,
    ...given,
  });
  const create = async (id: string, given: Partial<TokenContent>) =>
    expect(await on.store.tokens.create(tenant, id, content(given), change())).toBeDefined();

  const on = await openTestStore(database);
  const tenant = await on.tenant();
  await create('stays', { container: deep, metadata: { colour: 'red' } });
  const update = (id: string, given: Partial<TokenContent>) =>
    on.store.tokens.update(tenant, id, change(), async () => content(given));

  async function liesIn(id: string): Promise<string[]> {
    const rows = await on.runSql<{ container: string; own: number }>(
      `select c.container, c.own from token_containers c join tokens t on t.tenant_id = c.tenant_id and t.seq = c.seq
       where t.id = '${id}'`,
    );
    return rows.map(({ container, own }) => `${container} ${own}`).sort();
  }
  async function describedAs(id: string): Promise<string[]> {
    const rows = await on.runSql<{ digest: string }>(
      `select m.digest from token_metadata m join tokens t on t.tenant_id = m.tenant_id and t.seq = m.seq
       where t.id = '${id}'`,
    );
    return rows.map(({ digest }) => digest);
  }
  const count = async (table: string) => (await on.runSql(`select 1 as one from ${table}`)).length;

  async function expectNothingButWhatStays(): Promise<void> {
    const tables = ['tokens', 'token_contents', 'token_containers', 'token_metadata'];
    expect(await Promise.all(tables.map(count))).toEqual([1, 1, 200, 1]);
  }

  test.each(containers)('deleting a token in %s deletes its index rows', async (container, lies) => {
    await create('goes', { container, metadata: { colour: 'blue' } });
    expect(await liesIn('goes')).toEqual(lies);
    expect(await on.store.tokens.delete(tenant, 'goes', () => {})).toBe(true);
    await expectNothingButWhatStays();
  });

  test.each(containers)('sweeping an expired token in %s deletes its index rows', async (container) => {
    await create('goes', { container, expiresAt: on.clock.now() + 1000 });
    await create('also', { container: deep, expiresAt: on.clock.now() + 1000 });
    on.clock.advance(1000);
    expect(await on.maintenance.sweep(100)).toBe(2);
    await expectNothingButWhatStays();
  });

  test('a token that replaces an expired one with the same id is found only in its own container', async () => {
    await create('again', { container: '/was/here/', expiresAt: on.clock.now() + 1000 });
    on.clock.advance(1000);
    await create('again', { container: '/is/there/' });
    expect(await liesIn('again')).toEqual(['/is/ 0', '/is/there/ 1']);
    await on.store.tokens.delete(tenant, 'again', () => {});
    await expectNothingButWhatStays();
  });

  test('a moved token is found only in its new container', async () => {
    await create('moves', { container: '/a/b/c/', metadata: { colour: 'blue', size: 'small' } });
    await update('moves', { container: '/A/B/', metadata: { colour: 'blue' } });
    expect(await liesIn('moves')).toEqual(['/a/ 0', '/a/b/ 1']);
    expect(await describedAs('moves')).toEqual([metadataDigest(['colour', 'blue'])]);
    await update('moves', { container: '/a/b/', metadata: { colour: 'green' } });
    expect(await liesIn('moves')).toEqual(['/a/ 0', '/a/b/ 1']);
    expect(await describedAs('moves')).toEqual([metadataDigest(['colour', 'green'])]);
    await update('moves', { container: '/' });
    expect(await liesIn('moves')).toEqual(['/ 1']);
    expect(await describedAs('moves')).toEqual([]);
    await on.store.tokens.delete(tenant, 'moves', () => {});
    await expectNothingButWhatStays();
  });

  test('deleting a tenant deletes all index rows of its tokens', async () => {
    const other = await on.tenant();
    for (const [container] of containers) {
      const made = await on.store.tokens.create(other, newId(2), content({ container }), change());
      expect(made).toBeDefined();
    }
    expect(await on.maintenance.tenants.markDeleted(other)).toBe(true);
    while (!(await on.maintenance.removeTenantRows(other, 3)).done);
    await expectNothingButWhatStays();
  });
});
