import { describe, expect, test } from 'bun:test';
import { mint } from '../src/domain/key.ts';
import { makeLog } from '../src/log.ts';

describe.each([true, false])('a log line, as text: %j', (asText) => {
  const lines: string[] = [];
  const log = makeLog({ level: 'debug', asText, now: () => 0, write: (line) => lines.push(line) });

  test('has no key in messages, fields or errors', () => {
    const key = mint('mgt').secret.reveal();
    log.info(`a message with ${key}`, {
      text: key,
      deep: { list: [`x${key}`], [key]: 1 },
      error: new Error(`no ${key}`, { cause: new Error(key) }),
    });
    expect(lines.at(-1)).not.toContain(key);
    expect(lines.at(-1)?.match(/\[secret\]/g)?.length).toBeGreaterThanOrEqual(5);
  });

  test('has the message, all fields and the causes of errors', () => {
    log.warn('hello', {
      count: 2,
      deep: { a: ['slp_short'] },
      error: new Error('why', { cause: 'because' }),
    });
    for (const part of ['hello', '2', 'slp_short', 'why', '← because']) expect(lines.at(-1)).toContain(part);
  });
});

test('the stack of a repeated error is written once a minute, its message every time', () => {
  let now = 0;
  const lines: string[] = [];
  const log = makeLog({
    level: 'error',
    asText: false,
    now: () => now,
    write: (line) => lines.push(line),
  });
  const failures = [1, 2, 3].map(() => new Error('no room', { cause: new Error('disk is full') }));
  const write = (error: Error) => {
    log.error('request failed', { error });
    return JSON.parse(lines.at(-1) as string).error as string;
  };
  const [first, again, later] = failures as [Error, Error, Error];
  expect(write(first)).toContain('\n');
  now += 59_999;
  expect(write(again)).toBe('Error: no room ← Error: disk is full');
  expect(write(new Error('something else'))).toContain('\n');
  now += 1;
  expect(write(later)).toContain('\n');
});
