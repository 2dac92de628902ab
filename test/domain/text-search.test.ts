import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { SearchEquals } from '../../src/domain/search.ts';
import { bytesOf, includesText, normalized } from '../../src/domain/text-search.ts';
import { growth } from '../support/growth.ts';

test('a text is found where `includes` finds it, and never across two texts', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'b', 'é', '€', '😀', '\ufffd', 'ÿ', '\0'),
    maxLength: 4,
  });
  fc.assert(
    fc.property(fc.array(text), text, (texts, searched) => {
      fc.pre(searched !== '');
      const expected = texts.some((each) => each.includes(searched));
      expect(includesText(bytesOf(texts), searched)).toBe(expected);
    }),
    { numRuns: 500, seed: 1 },
  );
});

const forms = ['NFC', 'NFKC'] as const;

test('text with at most 30 marks in a row is normalized as by `normalize`', () => {
  const marks = fc.string({ unit: fc.constantFrom('\u0301', '\u0316', '\u0f73', '\uff9e'), maxLength: 30 });
  const text = fc
    .array(fc.tuple(fc.string({ unit: 'grapheme', minLength: 1 }), marks))
    .map((parts) => parts.map(([start, marks]) => `${start}x${marks}`).join(''));
  fc.assert(
    fc.property(text, (text) => {
      for (const form of forms) expect(normalized(text, form)).toBe(text.normalize(form));
    }),
    { numRuns: 300, seed: 2 },
  );
});

test('longer runs of marks are cut', () => {
  expect(normalized(`e${'\u0301'.repeat(1000)}`, 'NFC')).toBe(`\u00e9${'\u0301'.repeat(29)}`);
  expect(SearchEquals.parse({ a: `x${'\u0316'.repeat(31)}y` })).toEqual({ a: `x${'\u0316'.repeat(30)}y` });
});

// The last two are no marks, but normalize to marks. U+FDFA normalizes to 18 characters.
test.each([
  '\u0301\u0316',
  '\u0f73',
  '\u0f75\u0f71',
  '\u{16128}',
  '\ufdfa',
  'a\u0301',
  '\u1100\u1161',
  `${'\u0316'.repeat(30)}\u3099`,
  '\uff9e\uff9f',
  `${'\u0334'.repeat(29)}\uff9e`,
])('normalizing many %j takes linear time', (unit) => {
  for (const form of forms) {
    const work = (size: number) => {
      const text = unit.repeat(Math.ceil(size / unit.length));
      return () => normalized(text, form);
    };
    expect(growth(work, 2000)).toBeLessThan(3);
  }
});
