import { describe, expect, test } from 'bun:test';
import { mint } from '../src/domain/key.ts';
import { makeLog } from '../src/log.ts';

describe.each([true, false])('a line of the log, for people: %j', (forPeople) => {
  const lines: string[] = [];
  const log = makeLog({ level: 'debug', forPeople, now: () => 0, write: (line) => lines.push(line) });

  test('shows no key, wherever it stands', () => {
    const key = mint('mgt').secret.reveal();
    log.info(`a message with ${key}`, {
      text: key,
      deep: { list: [`x${key}`], [key]: 1 },
      error: new Error(`no ${key}`, { cause: new Error(key) }),
    });
    expect(lines.at(-1)).not.toContain(key);
    expect(lines.at(-1)?.match(/\[secret\]/g)?.length).toBeGreaterThanOrEqual(5);
  });

  test('keeps all the rest', () => {
    log.warn('hello', {
      count: 2,
      deep: { a: ['slp_short'] },
      error: new Error('why', { cause: 'because' }),
    });
    for (const part of ['hello', '2', 'slp_short', 'why', '← because']) expect(lines.at(-1)).toContain(part);
  });
});

test('the stack of a failure that goes on is written once a minute, its message every time', () => {
  let now = 0;
  const lines: string[] = [];
  const log = makeLog({
    level: 'error',
    forPeople: false,
    now: () => now,
    write: (line) => lines.push(line),
  });
  const failures = [1, 2, 3].map(() => new Error('no room', { cause: new Error('disk is full') }));
  const told = (error: Error) => {
    log.error('request failed', { error });
    return JSON.parse(lines.at(-1) as string).error as string;
  };
  const [first, again, later] = failures as [Error, Error, Error];
  expect(told(first)).toContain('\n');
  now += 59_999;
  expect(told(again)).toBe('Error: no room ← Error: disk is full');
  expect(told(new Error('something else'))).toContain('\n');
  now += 1;
  expect(told(later)).toContain('\n');
});
