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
