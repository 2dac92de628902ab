import { beforeEach, describe, expect, test } from 'bun:test';
import { type Log, makeLog } from '../../src/telemetry/log.ts';
import { unknownKey } from '../support/keys.ts';

describe.each([true, false])('a log line, as text: %j', (asText) => {
  const lines: string[] = [];
  const log = makeLog({ level: 'debug', asText, now: () => 0, write: (line) => lines.push(line) });

  test('has no key in messages, fields or errors', () => {
    const key = unknownKey('mgt').secret.reveal();
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

test('the stack of a repeated error is written once a minute', () => {
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

describe('a repeated failure', () => {
  let now: number;
  let lines: Record<string, unknown>[];
  let log: Log;
  beforeEach(() => {
    now = 0;
    lines = [];
    log = makeLog({
      level: 'debug',
      asText: false,
      now: () => now,
      write: (line) => lines.push(JSON.parse(line)),
    });
  });
  const fail = (request_id: string, error: unknown = new Error('disk is full')) =>
    log.error('request failed', { request_id, error });
  const written = () => lines.map(({ request_id, count }) => [request_id, count]);

  test('is written once per second, with the number of failures that a line stands for', () => {
    for (let time = 0; time < 20_000; time++) {
      now = time;
      fail(`request ${time}`);
    }
    expect(lines).toHaveLength(20);
    expect(written().slice(0, 2)).toEqual([
      ['request 0', undefined],
      ['request 1000', 1000],
    ]);
    log.flush();
    expect(written().at(-1)).toEqual(['request 19999', 999]);
    log.flush();
    expect(lines).toHaveLength(21);
  });

  test('is written without a count if it repeats later', () => {
    fail('a');
    now += 1000;
    fail('b');
    expect(written()).toEqual([
      ['a', undefined],
      ['b', undefined],
    ]);
  });

  test('does not hold back other kinds of failures, or other messages', () => {
    fail('a');
    fail('b', new Error('a bug'));
    fail('c', new Error('disk is full', { cause: new Error('quota') }));
    log.warn('could not sweep', { error: new Error('disk is full') });
    for (const sink of ['one', 'two']) log.warn('could not deliver', { sink, error: 'refused' });
    for (const from of [1, 2]) log.error('entries are missing', { from });
    for (const step of [1, 2]) log.info('removed expired rows', { step });
    expect(lines).toHaveLength(10);
  });

  test('is the same kind if only numbers in its message differ', () => {
    for (const port of [1024, 1025]) fail(String(port), new Error(`connection from port ${port} lost`));
    expect(written()).toEqual([['1024', undefined]]);
  });

  test('is written by its message alone if there are too many kinds', () => {
    const letters = 'abcdefghijklmnopqrstuvwxyz';
    for (const first of letters) for (const second of letters) fail('', new Error(first + second));
    expect(lines).toHaveLength(101);
    now += 1000;
    fail('', new Error('another'));
    expect(lines).toHaveLength(102);
    log.flush();
    expect(lines.at(-1)?.count).toBe(575);
  });
});
