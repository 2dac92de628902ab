import { expect, test } from 'bun:test';
import { batched, batcher, type Wanted } from '../../src/db/batcher.ts';
import { type Lookup, lookup as lookupOf, raw } from '../../src/db/statement.ts';
import { until } from '../support/until.ts';

const q = lookupOf<object>('bytea', () => raw('q'));

const bytes = (text: string) => new TextEncoder().encode(text);
const texts = (wanted: readonly Wanted[]) =>
  wanted.map(({ key }) => (typeof key === 'string' ? key : new TextDecoder().decode(key)));

/** A table that can be changed between queries. Records the queries. */
function table(rows: Record<string, string>) {
  const asked: string[][] = [];
  const lookup = batched(async (sql, wanted) => {
    asked.push([sql.one, ...texts(wanted)]);
    return texts(wanted).map((key) => (key in rows ? { value: rows[key] } : undefined));
  });
  const find = async (key: string, by: Lookup<object> = q) =>
    ((await lookup(by, bytes(key))) as { value: string } | undefined)?.value;
  return { asked, rows, find };
}

test('lookups of one tick share one query, and each gets its own row', async () => {
  const { asked, find } = table({ a: '1', b: '2' });
  const found = await Promise.all(['a', 'b', 'none', 'a'].map((key) => find(key)));
  expect(found).toEqual(['1', '2', undefined, '1']);
  expect(asked).toEqual([['q', 'a', 'b', 'none']]);
});

test('a lookup never gets the result of a query that was sent before it', async () => {
  const rows: Record<string, string> = { a: 'old' };
  const sent: PromiseWithResolvers<void>[] = [];
  const lookup = batched(async (_, wanted) => {
    const value = rows.a;
    const sending = Promise.withResolvers<void>();
    sent.push(sending);
    await sending.promise;
    return wanted.map(() => ({ value }));
  });
  const first = lookup(q, bytes('a'));
  await until('1 queries', () => sent.length >= 1);
  rows.a = 'new';
  const second = lookup(q, bytes('a'));
  await until('2 queries', () => sent.length >= 2);
  for (const { resolve } of sent) resolve();
  expect(await first).toMatchObject({ value: 'old' });
  expect(await second).toMatchObject({ value: 'new' });
});

test('lookups made while a query is in flight share the next query', async () => {
  const asked: string[][] = [];
  const back: PromiseWithResolvers<void>[] = [];
  const lookup = batched(async (_, wanted) => {
    asked.push(texts(wanted));
    const coming = Promise.withResolvers<void>();
    back.push(coming);
    await coming.promise;
    return wanted;
  });
  const first = lookup(q, bytes('a'));
  await until('1 queries', () => asked.length >= 1);
  const others = ['b', 'c'].map(async (key) => {
    const found = lookup(q, bytes(key));
    await new Promise(setImmediate);
    back[0]?.resolve();
    return found;
  });
  await first;
  await until('2 queries', () => asked.length >= 2);
  back[1]?.resolve();
  expect(await Promise.all(others)).toHaveLength(2);
  expect(asked).toEqual([['a'], ['b', 'c']]);
});

test('a query is sent after the current tick', async () => {
  const { rows, find } = table({ a: 'old' });
  const found = find('a');
  rows.a = 'new';
  expect(await found).toBe('new');
});

test('different statements do not share a query', async () => {
  const { asked, find } = table({ a: '1' });
  await Promise.all([
    ...['one', 'two'].map((sql) =>
      find(
        'a',
        lookupOf<object>('bytea', () => raw(sql)),
      ),
    ),
  ]);
  expect(asked).toEqual([
    ['one', 'a'],
    ['two', 'a'],
  ]);
});

test('lookups of several tenants share a query, and each gets its own row of the same key', async () => {
  const asked: (readonly Wanted[])[] = [];
  const lookup = batched(async (_, wanted) => {
    asked.push(wanted);
    return wanted.map(({ key, tenant }) => (tenant === 't2' ? undefined : `${tenant} ${key}`));
  });
  const found = await Promise.all(['t1', 't2', 't3', 't1'].map((tenant) => lookup(q, 'a', tenant)));
  expect(found as unknown[]).toEqual(['t1 a', undefined, 't3 a', 't1 a']);
  expect(asked.map((wanted) => wanted.map(({ tenant }) => tenant))).toEqual([['t1', 't2', 't3']]);
});

test('a query has at most 32 keys', async () => {
  const sizes: number[] = [];
  const lookup = batched(async (_, wanted) => {
    sizes.push(wanted.length);
    return wanted;
  });
  await Promise.all(Array.from({ length: 70 }, (_, at) => lookup(q, String(at))));
  expect(sizes).toEqual([32, 32, 6]);
});

test('a failed query rejects its lookups, and the next lookup sends a new query', async () => {
  let failing = true;
  const lookup = batched(async (_, wanted) => {
    if (failing) throw new Error('cut');
    return wanted;
  });
  const outcomes = await Promise.allSettled([lookup(q, bytes('a')), lookup(q, bytes('b'))]);
  expect(outcomes).toMatchObject([{ reason: new Error('cut') }, { reason: new Error('cut') }]);
  failing = false;
  expect(await lookup(q, bytes('a'))).toMatchObject({ key: bytes('a') });
});

test('groups are sent at the same time up to the total, and each gets its turn', async () => {
  const sent: string[][] = [];
  const ends: (() => void)[] = [];
  const add = batcher<string>(
    (batch) => {
      sent.push(batch);
      return new Promise((resolve) => ends.push(resolve));
    },
    { maxBatch: 2, maxInFlight: 1, maxTotal: 2 },
    (item) => item.slice(0, 1),
  );
  const settled = async () => {
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  };
  for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'd1']) add(item);
  await settled();
  expect(sent).toEqual([['a1', 'a2'], ['b1']]);
  for (const end of ends) end();
  await settled();
  await until('5 batches', () => {
    ends.at(-1)?.();
    ends.at(-2)?.();
    return sent.length >= 5;
  });
  expect(sent.map(([first]) => first).toSorted()).toEqual(['a1', 'a3', 'b1', 'c1', 'd1']);
});
