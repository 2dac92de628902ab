import { describe, expect, test } from 'bun:test';
import { Buckets } from '../../../src/http/pipeline/limits.ts';

/** Takes units if they are granted. */
function take(buckets: Buckets, client: string, at: number) {
  const decision = buckets.decide(client, at);
  if (decision.granted) buckets.spend(client, at);
  return decision;
}

describe('a token bucket', () => {
  const start = 1_000_000;
  const three = { rate: 3, per: 1000, burst: 5 };

  test('grants its burst immediately, and reports the remaining units', () => {
    const buckets = new Buckets(three, start);
    const taken = Array.from({ length: 7 }, () => take(buckets, 'a', start));
    expect(taken.map(({ granted }) => granted)).toEqual([true, true, true, true, true, false, false]);
    expect(taken.map(({ remaining }) => remaining)).toEqual([4, 3, 2, 1, 0, 0, 0]);
  });

  test('refills at its rate, to the millisecond', () => {
    const buckets = new Buckets(three, start);
    for (let i = 0; i < 5; i++) take(buckets, 'a', start);
    const { wait } = take(buckets, 'a', start);
    expect(Math.ceil(wait)).toBe(334);
    expect(take(buckets, 'a', start + 333).granted).toBe(false);
    expect(take(buckets, 'a', start + 334).granted).toBe(true);
    expect(take(buckets, 'a', start + 334).granted).toBe(false);
  });

  test('grants exactly its rate in the long run', () => {
    const buckets = new Buckets({ rate: 7, per: 60_000, burst: 1 }, start);
    let granted = 0;
    for (let at = 0; at < 600_000; at += 50) if (take(buckets, 'a', start + at).granted) granted++;
    expect(granted).toBe(70);
  });

  test('never holds more than its burst', () => {
    const buckets = new Buckets(three, start);
    const later = start + 86_400_000;
    const granted = Array.from({ length: 9 }, () => take(buckets, 'a', later)).filter((one) => one.granted);
    expect(granted).toHaveLength(5);
  });

  test('does not delay a client for rejected requests', () => {
    const buckets = new Buckets(three, start);
    for (let i = 0; i < 100; i++) take(buckets, 'a', start);
    expect(take(buckets, 'a', start + 334).granted).toBe(true);
  });

  test('is independent of other clients', () => {
    const buckets = new Buckets(three, start);
    for (let i = 0; i < 6; i++) take(buckets, 'a', start);
    expect(take(buckets, 'b', start)).toMatchObject({ granted: true, remaining: 4 });
  });

  test('stays in memory until it is full, with any number of clients, and the memory is bounded', () => {
    const buckets = new Buckets({ rate: 1, per: 60_000, burst: 2 }, start);
    const isGranted = (client: string, at: number) => take(buckets, client, at).granted;
    const victims = Array.from({ length: 500 }, (_, i) => `victim ${i}`);
    for (const each of [...victims, ...victims]) take(buckets, each, start);
    const memory = () => {
      Bun.gc(true);
      return process.memoryUsage().heapUsed;
    };
    let granted = 0;
    const flood = (from: number, to: number) => {
      for (let i = from; i < to; i++) if (isGranted(`name ${i}`, start)) granted++;
    };
    flood(0, 100_000);
    const before = memory();
    flood(100_000, 250_000);
    expect(memory() - before).toBeLessThan(5_000_000);
    // The others had shared buckets.
    expect(granted).toBeLessThan(51_000);
    expect(victims.filter((each) => isGranted(each, start + 59_999))).toEqual([]);
    // Most buckets are full now, and make room.
    const late = Array.from({ length: 40_000 }, (_, i) => `late ${i}`);
    for (const each of late) take(buckets, each, start + 60_001);
    expect(late.slice(-1000).filter((each) => !isGranted(each, start + 60_001))).toEqual([]);
    expect(victims.filter((each) => isGranted(each, start + 60_001))).toEqual(victims);
  });

  test('gets units back, at most its burst', () => {
    const buckets = new Buckets(three, start);
    for (let i = 0; i < 5; i++) take(buckets, 'a', start);
    buckets.spend('a', start, -2);
    for (let i = 0; i < 9; i++) buckets.spend('b', start, -1);
    const granted = (client: string) =>
      Array.from({ length: 9 }, () => take(buckets, client, start)).filter((one) => one.granted).length;
    expect([granted('a'), granted('b')]).toEqual([2, 5]);
  });
});
