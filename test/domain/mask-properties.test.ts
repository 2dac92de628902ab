/** Masks with generated data and templates. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { MaskError, renderMask } from '../../src/domain/mask.ts';

/** The masked value or the error message. Any other error fails the test. */
function attempt(mask: unknown, data: unknown): { masked: unknown } | { rejected: string } {
  try {
    return { masked: renderMask(mask, data) };
  } catch (error) {
    if (error instanceof MaskError) return { rejected: `${error.message} ${error.cause ?? ''}` };
    throw error;
  }
}

const text = fc.string({ unit: 'grapheme', maxLength: 30 });
const name = fc.constantFrom(
  'data',
  'data.a',
  'data["b c"]',
  'data.list[0]',
  'data.list[-1]',
  'data.nope',
  'x',
);
const argument = fc.oneof(
  fc.integer({ min: -3, max: 40 }).map(String),
  fc.constantFrom('"*"', "'•'", '""', 'nil', 'data.a', 'data.n', '1.5', '9999999999999999999999'),
);
const filter = fc
  .tuple(
    fc.constantFrom('reveal_last', 'reveal_first', 'hide', 'last', 'first', 'upcase'),
    fc.array(argument, { maxLength: 3 }),
  )
  .map(([name, args]) => (args.length === 0 ? name : `${name}: ${args.join(', ')}`));
const output = fc
  .tuple(name, fc.array(filter, { maxLength: 3 }))
  .map(([name, filters]) => `{{ ${[name, ...filters].join(' | ')} }}`);
const junk = fc.constantFrom(
  '{{',
  '}}',
  '{%',
  '%}',
  '|',
  ':',
  ',',
  '(1..5)',
  '==',
  '-',
  '"',
  '\\',
  '{{ data }}',
);
const template = fc
  .array(
    fc.oneof(
      { weight: 5, arbitrary: output },
      { weight: 1, arbitrary: junk },
      { weight: 2, arbitrary: text },
    ),
    {
      maxLength: 4,
    },
  )
  .map((parts) => parts.join(' '));
const mask = fc.oneof(
  template,
  fc.array(template, { maxLength: 3 }),
  fc.dictionary(text, template, { maxKeys: 3 }),
);
const data = fc.oneof(
  text,
  fc.integer(),
  fc.boolean(),
  fc.record({ a: text, 'b c': fc.jsonValue(), list: fc.array(text, { maxLength: 3 }), n: fc.integer() }),
  fc.jsonValue(),
);

function leaves(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return value === null ? [] : [String(value)];
  return Object.values(value).flatMap(leaves);
}

describe('any mask over any data', () => {
  test('renders or is rejected, and never reveals all of the data', () => {
    const seen = { rendered: 0, rejected: 0 };
    fc.assert(
      fc.property(mask, data, (mask, data) => {
        const result = attempt(mask, data);
        if ('rejected' in result) {
          seen.rejected++;
          return;
        }
        seen.rendered++;
        const shown = leaves(result.masked);
        const secret = leaves(data).filter((leaf) => leaf !== '');
        const whole = secret.filter((leaf) => shown.some((part) => part.includes(leaf)));
        if (secret.length > 0) expect(whole.length).toBeLessThan(secret.length);
        expect(JSON.stringify(result.masked).isWellFormed()).toBe(true);
      }),
      { numRuns: 1500, seed: 7 },
    );
    expect(Math.min(seen.rendered, seen.rejected)).toBeGreaterThan(200);
  });

  test('renders to the structure of the mask', () => {
    const shape = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shape);
      return typeof value === 'object'
        ? Object.entries(value as object).map(([key, part]) => [key, shape(part)])
        : '';
    };
    fc.assert(
      fc.property(mask, data, (mask, data) => {
        const result = attempt(mask, data);
        if ('masked' in result) expect(shape(result.masked)).toEqual(shape(mask));
      }),
      { numRuns: 500, seed: 8 },
    );
  });

  test('has errors that contain no data', () => {
    const secret = fc.stringMatching(/^[A-Z0-9]{12,20}$/);
    const hostile = fc.constantFrom(
      '{{ data[data] }}',
      '{{ data[data.a] }}',
      '{{ data | hide: data }}',
      '{{ data.a | last: data.a }}',
    );
    fc.assert(
      fc.property(secret, fc.oneof(template, hostile), (secret, template) => {
        for (const data of [secret, { a: secret, [secret]: 1, list: [secret] }, [secret]]) {
          const result = attempt(template, data);
          if ('rejected' in result) expect(result.rejected).not.toContain(secret);
        }
      }),
      { numRuns: 1000, seed: 9 },
    );
  });

  test('does not carry state from one rendering to the next', () => {
    const secret = fc.stringMatching(/^[a-z]{8,20}$/);
    fc.assert(
      fc.property(secret, template, (secret, template) => {
        const other = { a: '1234567890', 'b c': '1234567890', list: ['1234567890'], n: 3 };
        const before = attempt(template, other);
        attempt(template, { a: secret, 'b c': secret, list: [secret], n: 2 });
        expect(attempt(template, other)).toEqual(before);
        if (!template.includes(secret)) expect(JSON.stringify(before)).not.toContain(secret);
      }),
      { numRuns: 500, seed: 10 },
    );
  });

  test('does not change the data or the mask', () => {
    fc.assert(
      fc.property(mask, data, (mask, data) => {
        const before = JSON.stringify([mask, data]);
        attempt(mask, data);
        expect(JSON.stringify([mask, data])).toBe(before);
      }),
      { numRuns: 300, seed: 11 },
    );
  });
});

describe('for any text,', () => {
  const value = fc.string({ unit: 'binary', maxLength: 40 });
  const count = fc.nat(50);
  const masked = (filter: string, value: string) => {
    const { masked } = attempt(`{{ data.v | ${filter} }}`, { v: value, w: 'kept back' }) as {
      masked: string;
    };
    return [...masked];
  };
  const holds = (check: (characters: string[], count: number, value: string) => void) =>
    fc.assert(
      fc.property(value, count, (value, count) => check([...value], count, value)),
      { numRuns: 300, seed: 12 },
    );

  test('hide replaces every character', () => {
    holds((characters, _, value) => expect(masked('hide: "#"', value)).toEqual(characters.map(() => '#')));
  });

  test('reveal_last shows the last characters', () => {
    holds((characters, count, value) =>
      expect(masked(`reveal_last: ${count}, "#"`, value)).toEqual(
        characters.map((one, at) => (characters.length - at <= count ? one : '#')),
      ),
    );
  });

  test('reveal_first shows the first characters', () => {
    holds((characters, count, value) =>
      expect(masked(`reveal_first: ${count}, "#"`, value)).toEqual(
        characters.map((one, at) => (at + 1 <= count ? one : '#')),
      ),
    );
  });

  test('last and first return the given number of characters, or all', () => {
    holds((characters, count, value) => {
      expect(masked(`first: ${count}`, value)).toEqual(characters.filter((_, at) => at < count));
      expect(masked(`last: ${count}`, value)).toEqual(
        characters.filter((_, at) => characters.length - at <= count),
      );
    });
  });
});
