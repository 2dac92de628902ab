import { describe, expect, test } from 'bun:test';
import {
  CircuitBreakers,
  type EndAttempt,
  maxFailures,
  type Outcome,
  Slots,
  type SlotUser,
  suspension,
} from '../../src/outbound/limits.ts';

describe('a circuit breaker', () => {
  let time = 0;
  const breakers = () => new CircuitBreakers(() => time);
  /** Makes attempts one after another. Returns for each whether it was allowed. */
  function attempt(breaker: CircuitBreakers, ...outcomes: Outcome[]): boolean[] {
    return outcomes.map((outcome) => {
      try {
        breaker.begin('a')(outcome);
        return true;
      } catch {
        return false;
      }
    });
  }
  const failures = (count: number) => Array<Outcome>(count).fill('failed');

  test.each<[string, Outcome[], boolean]>([
    ['four failures', failures(4), true],
    ['five failures', failures(5), false],
    ['an answer among failures', [...failures(4), 'answered', ...failures(4)], true],
    ['attempts without an outcome among failures', [...failures(4), undefined, undefined, 'failed'], false],
    ['no outcome at all', Array(20).fill(undefined), true],
  ])('allows the next attempt after %s: %p', (_, outcomes, isAllowed) => {
    const breaker = breakers();
    expect(attempt(breaker, ...outcomes)).not.toContain(false);
    expect(attempt(breaker, 'answered')).toEqual([isAllowed]);
    expect(breaker.suspended()).toEqual(isAllowed ? [] : ['a']);
  });

  test('allows one attempt after the suspension, and others after its answer', () => {
    const breaker = breakers();
    attempt(breaker, ...failures(5));
    time += suspension - 1;
    expect(attempt(breaker, undefined)).toEqual([false]);
    time += 1;
    const end = breaker.begin('a');
    expect(attempt(breaker, undefined)).toEqual([false]);
    end();
    expect(attempt(breaker, undefined, 'failed', undefined)).toEqual([true, true, false]);
    time += suspension;
    expect(attempt(breaker, 'answered', ...failures(4), undefined)).not.toContain(false);
  });

  test('is not held by an attempt that never ends, and not extended by one from before the suspension', () => {
    const breaker = breakers();
    const early = Array.from({ length: 9 }, () => breaker.begin('a'));
    for (const end of early.slice(0, 5)) end('failed');
    time += suspension - 1;
    early[5]?.('failed');
    time += 1;
    breaker.begin('a');
    early[6]?.('failed');
    early[7]?.();
    expect(attempt(breaker, undefined)).toEqual([false]);
    time += suspension;
    expect(attempt(breaker, undefined)).toEqual([true]);
    early[8]?.('answered');
    expect(attempt(breaker, undefined, undefined)).toEqual([true, true]);
  });

  test('remembers one name beside 9,999 others, and no more', () => {
    const breaker = breakers();
    attempt(breaker, ...failures(4));
    for (let name = 0; name < 9_999; name++) breaker.begin(`other ${name}`)('failed');
    expect(attempt(breaker, 'failed', undefined)).toEqual([true, false]);
  });

  test('suspends after five failures since the last answer, and never for longer, in any order of events', () => {
    for (let seed = 1; seed <= 300; seed++) {
      let state = seed;
      const random = (below: number) => {
        state = (state * 48_271) % 2_147_483_647;
        return state % below;
      };
      const breaker = breakers();
      const open: EndAttempt[] = [];
      let sinceAnswer = 0;
      let blockedSince: number | undefined;
      for (let step = 0; step < 200; step++) {
        if (random(3) === 0) time += random(suspension / 2);
        if (open.length === 0 || random(2) === 0) {
          try {
            open.push(breaker.begin('a'));
            blockedSince = undefined;
          } catch {
            blockedSince ??= time;
            expect(sinceAnswer).toBeGreaterThanOrEqual(maxFailures);
          }
        } else {
          const [end] = open.splice(random(open.length), 1) as [EndAttempt];
          const outcome = (['answered', 'failed', 'failed', 'failed', undefined] as const)[random(5)];
          end(outcome);
          end('answered');
          // A trial that fails begins another suspension.
          if (outcome === 'failed') blockedSince = undefined;
          if (outcome !== undefined) sinceAnswer = outcome === 'answered' ? 0 : sinceAnswer + 1;
          if (outcome === 'answered') expect(breaker.suspended()).toEqual([]);
          if (outcome === 'failed' && sinceAnswer === maxFailures) expect(breaker.suspended()).toEqual(['a']);
        }
        expect(time - (blockedSince ?? time)).toBeLessThan(suspension + suspension / 2);
      }
    }
  });
});

describe('requests to destinations', () => {
  const userOf = (id: string, applicationId: string, maxInFlight = 50): SlotUser => {
    return { tenantId: 'tenant', id, applicationId, maxInFlight };
  };
  /** Begins as many as may run together. Returns what ends each of them. */
  async function take(slots: Slots, user: SlotUser): Promise<(() => void)[]> {
    const taken = [];
    for (;;) {
      const leave = await slots.enter(user, 1).catch(() => undefined);
      if (!leave) return taken;
      taken.push(leave);
    }
  }

  test.each([
    [1, 1],
    [2, 2],
    [5, 4],
    [50, 40],
    [1000, 800],
  ])('of one application: with %d at a time, %d', async (maxInFlight, expected) => {
    const slots = new Slots();
    for (const leave of await take(slots, userOf('a', 'app', maxInFlight))) leave();
    expect(await take(slots, userOf('a', 'app', maxInFlight))).toHaveLength(expected);
  });

  test('leave room for another application at the same destination', async () => {
    const slots = new Slots();
    await take(slots, userOf('a', 'greedy'));
    expect(await take(slots, userOf('a', 'other'))).toHaveLength(8);
  });

  test('of three slow destinations, or of one application at all destinations, leave room for others', async () => {
    const slots = new Slots();
    for (const id of ['a', 'b', 'c'])
      for (const application of ['x', 'y', 'z']) await take(slots, userOf(id, application));
    expect(await take(slots, userOf('other', 'x'))).toHaveLength(40);
    for (let id = 0; id < 40; id++) await take(slots, userOf(`of-one-${id}`, 'greedy'));
    expect((await take(slots, userOf('of-one-0', 'other'))).length).toBeGreaterThan(0);
    await take(slots, userOf('huge', 'p', 1000));
    expect((await take(slots, userOf('last', 'q'))).length).toBeGreaterThan(0);
    expect(await take(slots, { ...userOf('a', 'x'), tenantId: 'another' })).toHaveLength(40);
  });

  test('that wait begin in order, first those of the application that has fewer', async () => {
    const slots = new Slots();
    const started: string[] = [];
    const held: (() => void)[] = [];
    for (const application of ['greedy', 'x', 'z'])
      held.push(...(await take(slots, userOf('a', application))));
    expect(held).toHaveLength(50);
    const enter = (application: string, name: string) =>
      slots.enter(userOf('a', application), 60_000).then((leave) => {
        started.push(name);
        held.push(leave);
      });
    const waiting = [
      enter('greedy', 'greedy 1'),
      enter('y', 'y 1'),
      enter('greedy', 'greedy 2'),
      enter('y', 'y 2'),
    ];
    const end = async () => {
      held.shift()?.();
      for (let turn = 0; turn < 5; turn++) await Promise.resolve();
    };
    await end();
    expect(started).toEqual(['y 1']);
    while (held.length > 0) await end();
    await Promise.all(waiting);
    expect(started).toEqual(['y 1', 'y 2', 'greedy 1', 'greedy 2']);
  });

  test('of one application wait in a limited number, which others do not use up', async () => {
    const slots = new Slots();
    const held = await take(slots, userOf('a', 'greedy', 1));
    const enter = (application: string) => slots.enter(userOf('a', application, 1), 60_000);
    const waiting = Array.from({ length: 50 }, () => enter('greedy'));
    await expect(enter('greedy')).rejects.toThrow('destination_suspended');
    const other = enter('other');
    for (const leave of held) leave();
    for (const each of waiting) (await each)();
    (await other)();
    expect(await take(slots, userOf('a', 'greedy', 1))).toHaveLength(1);
  });
});
