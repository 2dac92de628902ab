import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { codePoint, cut, escapeJson, escapeLines, escapeText } from '../../src/domain/escape.ts';

const acting = /[\p{Cc}\p{Bidi_Control}]/u;
const anyText = fc.string({ unit: 'binary', maxLength: 40 });

test('control and bidirectional characters are escaped', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(escapeText(text)).not.toMatch(acting);
      expect(escapeLines(text).replace(/[\n\t]/g, '')).not.toMatch(acting);
      expect(escapeJson(JSON.stringify(text))).not.toMatch(acting);
    }),
  );
});

test('escaped JSON parses to the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const json = JSON.stringify(value);
      expect(JSON.parse(escapeJson(json))).toEqual(JSON.parse(json));
    }),
  );
  expect(escapeJson('"\u{e0001}\u{1f5dd}\u009b"\n')).toBe('"\\udb40\\udc01🗝\\u009b"\n');
});

test('visible text is not changed', () => {
  for (const text of ['مفتاح', '👨‍👩‍👧', '❤️', '1️⃣', '👩🏽‍🚀', 'e\u0301', 'کتاب‌ها', 'क्‍ष', 'a b'])
    for (const escaped of [escapeText, escapeLines, escapeJson]) expect(escaped(text)).toBe(text);
  expect(escapeText('a\n\u202eb')).toBe('a\\u{a}\\u{202e}b');
  expect(escapeLines('a\n\t\r')).toBe('a\n\t\\u{d}');
});

test('separators and zero-width characters are escaped, so that two names never look the same', () => {
  const separators = ['\u2028', '\u2029'];
  const zeroWidth = [
    '\u200b',
    '\u200c',
    '\u200d',
    '\u2060',
    '\ufeff',
    '\u00ad',
    '\u034f',
    '\u3164',
    '\ufe0f',
  ];
  for (const character of [...separators, ...zeroWidth]) {
    expect(escapeText(`store${character}shop`)).toMatch(/^store\\u\{[0-9a-f]+\}shop$/);
    expect(escapeLines(`web${character}shop`)).not.toContain(character);
    expect(JSON.parse(escapeJson(JSON.stringify(character)))).toBe(character);
    expect(escapeJson(JSON.stringify(character))).not.toContain(character);
  }
});

test('codePoint has at least four digits', () => {
  expect(['\n', '\u202e', '\u{e0001}'].map(codePoint)).toEqual(['U+000A', 'U+202E', 'U+E0001']);
});

test('a cut text has the first code points, and is well formed', () => {
  fc.assert(
    fc.property(anyText, fc.nat(20), (text, max) => {
      expect(cut(text, max)).toBe([...text].slice(0, max).join('').toWellFormed());
    }),
  );
  expect(['ab\u{1f5dd}c', '\ud83dbc'].map((text) => cut(text, 3))).toEqual(['ab\u{1f5dd}', '\ufffdbc']);
});
