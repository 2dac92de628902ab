import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { mergePatch } from '../../src/domain/token.ts';

type Json = unknown;

/** The cases of RFC 7396, appendix A: original, patch, result. */
const standard: [original: Json, patch: Json, result: Json][] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
];

describe('mergePatch follows RFC 7396:', () => {
  test.each(standard)('%j with %j gives %j', (original, patch, result) => {
    expect(mergePatch(original, patch)).toEqual(result);
  });

  test('the example of section 3', () => {
    const document = {
      title: 'Goodbye!',
      author: { givenName: 'John', familyName: 'Doe' },
      tags: ['example', 'sample'],
      content: 'This will be unchanged',
    };
    const patch = {
      title: 'Hello!',
      phoneNumber: '+01-123-456-7890',
      author: { familyName: null },
      tags: ['example'],
    };
    expect(mergePatch(document, patch)).toEqual({
      title: 'Hello!',
      author: { givenName: 'John' },
      tags: ['example'],
      content: 'This will be unchanged',
      phoneNumber: '+01-123-456-7890',
    });
  });
});

const name = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor', 'toString', '');
const { json } = fc.letrec<{ json: Json; object: Json }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<Json>(null, true, 0, 'x'),
    fc.array(tie('json'), { maxLength: 2 }),
    tie('object'),
  ),
  object: fc.dictionary(name, tie('json'), { maxKeys: 4, noNullPrototype: true }),
}));
const settings = { numRuns: 1000, seed: 7396 };

const isObject = (value: Json): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const get = (value: Json, name: string) =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;

/** The expected result of the patch, by a second implementation. */
function expected(target: Json, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const names = new Set([...Object.keys(isObject(target) ? target : {}), ...Object.keys(patch)]);
  const kept = [...names].filter((name) => get(patch, name) !== null);
  return Object.fromEntries(
    kept.map((name) => {
      const change = get(patch, name);
      return [name, change === undefined ? get(target, name) : expected(get(target, name), change)];
    }),
  );
}

describe('for any values,', () => {
  test('every field has the expected value', () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const merged = mergePatch(target, patch);
        expect(JSON.parse(JSON.stringify(merged))).toEqual(expected(target, patch));
        if (isObject(merged)) expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
      }),
      settings,
    );
  });

  test('applying a patch twice is the same as once', () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const once = mergePatch(target, patch);
        expect(mergePatch(once, patch)).toEqual(once);
      }),
      settings,
    );
  });

  test('an empty patch does not change an object', () => {
    fc.assert(
      fc.property(json, (target) => {
        expect(mergePatch(target, {})).toEqual(isObject(target) ? target : {});
      }),
      settings,
    );
  });

  test('target and patch are not modified', () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const before = JSON.stringify([target, patch]);
        mergePatch(target, patch);
        expect(JSON.stringify([target, patch])).toBe(before);
      }),
      settings,
    );
  });

  test('a field named __proto__ is treated like any other', () => {
    const patch = JSON.parse('{"__proto__": {"admin": true}}');
    const merged = mergePatch({ a: 1 }, patch) as Record<string, Json>;
    expect(JSON.stringify(merged)).toBe('{"a":1,"__proto__":{"admin":true}}');
    expect(merged.admin).toBeUndefined();
    expect(JSON.stringify(mergePatch(merged, JSON.parse('{"__proto__": null}')))).toBe('{"a":1}');
  });
});
