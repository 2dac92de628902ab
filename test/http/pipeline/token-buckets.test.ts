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

  /** Random traffic of a few clients: quiet times, bursts of one client, and floods of all of them. */
  function traffic(clients: number, steps: number): { client: string; at: number }[] {
    let state = 7;
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
    let [at, pace, favourite] = [start, 0, 0];
    return Array.from({ length: steps }, () => {
      if (random(200) === 0) [pace, favourite] = [[0, 1, 4, 40][random(4)] as number, random(clients)];
      at += random(10) === 0 ? pace : 0;
      return { client: `client ${random(4) === 0 ? random(clients) : favourite}`, at };
    });
  }
  const rate = { rate: 500, per: 1000, burst: 80 };
  const takeRequest = (buckets: Buckets, client: string, at: number): boolean =>
    buckets.takeTogether(at) || take(buckets, client, at).granted;

  test('with clients counted together, grants no client more than it has, and one client exactly as much', () => {
    for (const clients of [1, 2, 5]) {
      const [tested, exact] = [new Buckets(rate, start), new Buckets(rate, start)];
      let refused = 0;
      let together = 0;
      for (const { client, at } of traffic(clients, 40_000)) {
        const isTogether = tested.takeTogether(at);
        const granted = isTogether || take(tested, client, at).granted;
        const allowed = exact.decide(client, at).granted;
        if (granted) expect(allowed).toBe(true);
        if (clients === 1) expect(granted).toBe(allowed);
        if (granted) exact.spend(client, at);
        if (isTogether) together++;
        if (!granted) refused++;
      }
      // Otherwise the traffic would prove nothing.
      expect([together > 1000, refused > 1000]).toEqual([true, true]);
    }
  });

  test('clients that are counted together cost another client at most an eighth of its burst', () => {
    const buckets = new Buckets(rate, start);
    for (let i = 0; i < 200; i++) takeRequest(buckets, `noisy ${i}`, start);
    const granted = Array.from({ length: 80 }, () => takeRequest(buckets, 'quiet', start));
    expect(granted.filter(Boolean)).toHaveLength(70);
    const all = Array.from({ length: 80 }, () => takeRequest(buckets, 'quiet', start + 60_000));
    expect(all.filter(Boolean)).toHaveLength(80);
  });
});
