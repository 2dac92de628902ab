import { describe, expect, test } from 'bun:test';
import { prepareRequest } from '../../src/domain/placeholders.ts';
import { runSteps } from '../../src/domain/steps.ts';

describe('a caller who inserts own data of chosen size beside hidden data', () => {
  function isSent(hidden: unknown, own: readonly unknown[]): boolean {
    const values = [hidden, ...own];
    const placeholders = values.map((_, at) => ({ at: `/${at}`, from: undefined, prefix: undefined }));
    const text = JSON.stringify(Object.fromEntries(values.map((_, at) => [at, `{{ token: own-${at} }}`])));
    const listed = { method: 'POST' as const, path: '/', placeholders, query: [], headers: [], reply: [] };
    const body = { type: 'json', text } as const;
    const request = { path: '/', query: new URLSearchParams(), headers: new Map(), body };
    const prepared = runSteps(prepareRequest(listed, request));
    try {
      prepared.fill((token) => values[Number(token.slice('own-'.length))]);
      return true;
    } catch (error) {
      expect((error as { code: string }).code).toBe('placeholder_unusable');
      return false;
    }
  }
  const text = (length: number) => 'x'.repeat(length);
  const texts = (count: number) => Array<string>(count).fill('12345678');

  /** What requests with one to 19 own values tell. */
  const learned = (hidden: unknown): string => {
    const sizes = Array.from({ length: 60 }, (_, at) => text(1 + at * 4500));
    const counts = Array.from({ length: 102 }, (_, count) => texts(count));
    const many = Array.from({ length: 20 }, (_, count) => [count, text(13_000), texts(5)] as const);
    const combinations = [
      ...[...sizes, ...counts].map((own) => [own]),
      ...many.flatMap(([count, ...own]) => own.map((each) => Array<unknown>(count).fill(each))),
    ];
    return combinations.map((own) => Number(isSent(hidden, own))).join('');
  };

  test('learns one of three sizes, and neither the length nor the number of texts', () => {
    const classes = [
      [text(0), text(16), text(19), text(13_000), 7, texts(0), texts(1), texts(5), { a: ['short', 1] }],
      [text(13_001), text(30_000), text(52_000), texts(6), texts(20), [text(13_000)]],
      [text(52_001), text(260_000), texts(21), texts(100)],
      [text(260_001), text(900_000), texts(101), texts(2000)],
    ].map((values) => [...new Set(values.map(learned))]);
    expect(classes.map(({ length }) => length)).toEqual([1, 1, 1, 1]);
    expect(new Set(classes.flat()).size).toBe(4);
    expect(isSent(text(13_000), Array(19).fill(texts(5)))).toBe(true);
  });
});
