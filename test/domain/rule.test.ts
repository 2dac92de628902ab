import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { z } from 'zod';
import {
  Condition,
  Container,
  canonicalContainer,
  compareTransforms,
  Rule,
  Rules,
  stricter,
  Transform,
} from '../../src/domain/rule.ts';

const accepts = (schema: z.ZodType, value: unknown) => schema.safeParse(value).success;
const errorsOf = (schema: z.ZodType, value: unknown) =>
  schema.safeParse(value).error?.issues.map(({ message }) => message);

describe('a container', () => {
  test.each([
    ['/pci/high/', '/pci/high/'],
    ['pci/high', '/pci/high/'],
    ['/pci/high', '/pci/high/'],
    ['pci/high/', '/pci/high/'],
    ['/PCI/High/', '/pci/high/'],
    ['/a-b/c_d/9/', '/a-b/c_d/9/'],
    ['x', '/x/'],
    ['/', '/'],
    ['x'.repeat(248), `/${'x'.repeat(248)}/`],
    [`/${'x'.repeat(248)}/`, `/${'x'.repeat(248)}/`],
    [`/${'a/'.repeat(16)}`, `/${'a/'.repeat(16)}`],
  ])('%p is stored as given and compared as %p', (given, compared) => {
    expect(Container.parse(given)).toBe(given);
    expect(canonicalContainer(given)).toBe(compared);
  });

  test.each([
    [''],
    ['//'],
    ['/a//b/'],
    ['//a/'],
    ['/a//'],
    ['/./'],
    ['/../'],
    ['/a.b/'],
    ['/a b/'],
    ['/a/*/'],
    ['/a\\b/'],
    ['/ä/'],
    ['/a/\n'],
    ['/a%2fb/'],
    ['/a/ /'],
    [' /a/'],
    ['/a/?b'],
    ['https://a/'],
    [`/${'x'.repeat(249)}/`],
    ['x'.repeat(249)],
    [`/${'a/'.repeat(17)}`],
    ['a/'.repeat(17)],
  ])('cannot be %p', (text) => {
    expect(accepts(Container, text)).toBe(false);
  });

  test('reports too many levels, also in a condition', () => {
    const value = 'a/'.repeat(17);
    const message = 'must have at most 16 levels';
    expect(errorsOf(Container, value)).toEqual([message]);
    const condition = Condition.safeParse({ attribute: 'container', operator: 'equals', value });
    expect(condition.error?.issues).toEqual([{ code: 'custom', path: ['value'], message }]);
  });

  const segment = fc.stringMatching(/^[A-Za-z0-9_-]{1,8}$/);
  const path = fc.array(segment, { minLength: 1, maxLength: 5 });

  test('is the same with or without slashes at its ends', () => {
    fc.assert(
      fc.property(path, (segments) => {
        const inner = segments.join('/');
        for (const text of [inner, `/${inner}`, `${inner}/`, `/${inner}/`]) {
          expect(Container.parse(text)).toBe(text);
          expect(canonicalContainer(text)).toBe(`/${inner.toLowerCase()}/`);
        }
      }),
    );
  });

  test('covers containers below it, but not those with a longer last segment', () => {
    fc.assert(
      fc.property(path, segment, (segments, more) => {
        const above = canonicalContainer(segments.join('/'));
        expect(canonicalContainer([...segments, more].join('/'))).toStartWith(above);
        const beside = [...segments.slice(0, -1), `${segments.at(-1)}${more}`].join('/');
        expect(canonicalContainer(beside).startsWith(above)).toBe(false);
      }),
    );
  });

  test.each([
    ['', '/'],
    ['//', '//'],
    ['/a b\n/', '/a b\n/'],
    ['/a/\n', '/a/\n/'],
    ['/[@`{/', '/[@`{/'],
    ['/A/', '/a/'],
    ['/Z/', '/z/'],
    ['/\u007f/', '/\u007f/'],
    ['/ÄÖ/', '/äö/'],
    ['/\u212a/', '/k/'],
    ['/\u0130/', '/i\u0307/'],
    ['/\ud801\udc00/', '/\ud801\udc28/'],
    ['/\uff21/', '/\uff41/'],
  ])('that is stored but invalid, %j, is compared as %j', (given, compared) => {
    expect(canonicalContainer(given)).toBe(compared);
  });

  test('is compared in lower case with a slash at each end', () => {
    const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(text, fc.boolean(), (inner, inSlashes) => {
        const given = inSlashes ? `/${inner}/` : inner;
        const closed = given.endsWith('/') && given !== '' ? given : `${given}/`;
        const compared = closed.startsWith('/') ? closed : `/${closed}`;
        expect(canonicalContainer(given)).toBe(compared.toLowerCase());
      }),
    );
  });

  test('has a canonical form that is stable', () => {
    fc.assert(
      fc.property(path, (segments) => {
        const once = canonicalContainer(segments.join('/'));
        expect(canonicalContainer(once)).toBe(once);
      }),
    );
  });
});

describe('a condition', () => {
  const condition = { attribute: 'id', operator: 'equals', value: 'x' };

  test.each([
    [{}],
    [{ operator: 'starts_with' }],
    [{ attribute: 'container', value: '/pci/' }],
    [{ value: 'any text 🗝, as ids of others may be' }],
  ])('accepts %j', (fields) => {
    expect(accepts(Condition, { ...condition, ...fields })).toBe(true);
  });

  test.each([
    [{ attribute: 'type' }],
    [{ operator: 'ends_with' }],
    [{ value: '' }],
    [{ value: undefined }],
    [{ value: 7 }],
    [{ value: 'a\0b' }],
    [{ attribute: 'container', value: '/a//b/' }],
    [{ negate: true }],
  ])('rejects %j', (fields) => {
    expect(accepts(Condition, { ...condition, ...fields })).toBe(false);
  });
});

describe('a rule', () => {
  const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] };

  test.each([
    [{}],
    [{ priority: 2_147_483_647 }],
    [{ description: 'why', transform: 'reveal' }],
    [{ description: null, conditions: null }],
    [{ container: undefined }],
  ])('accepts %j', (fields) => {
    expect(accepts(Rule, { ...rule, ...fields })).toBe(true);
  });

  test.each([0, -1, 1.5, '1', Number.NaN, undefined])('rejects the priority %p', (priority) => {
    expect(errorsOf(Rule, { ...rule, priority })).toEqual(['must be an integer of at least 1']);
  });

  test('has a priority of at most 31 bits', () => {
    expect(errorsOf(Rule, { ...rule, priority: 2_147_483_648 })).toEqual(['must be at most 2147483647']);
  });

  test('needs at least one permission, and a list of conditions must not be empty', () => {
    expect(errorsOf(Rule, { ...rule, permissions: [] })).toEqual(['must name at least one permission']);
    expect(errorsOf(Rule, { ...rule, conditions: [] })).toEqual(['must have at least one condition']);
  });

  test('has at most 20 conditions', () => {
    const many = Array.from({ length: 21 }, (_, n) => ({
      attribute: 'id',
      operator: 'equals',
      value: `card-${n}`,
    }));
    expect(accepts(Rule, { ...rule, conditions: many.slice(0, 1) })).toBe(true);
    expect(accepts(Rule, { ...rule, conditions: many.slice(1) })).toBe(true);
    expect(accepts(Rule, { ...rule, conditions: many })).toBe(false);
  });

  test.each([
    [{ transform: 'hide' }],
    [{ transform: undefined }],
    [{ permissions: undefined }],
    [{ permissions: ['token:reed'] }],
    [{ effect: 'deny' }],
  ])('rejects %j', (fields) => {
    expect(accepts(Rule, { ...rule, ...fields })).toBe(false);
  });

  test('is deduplicated', () => {
    const other = { ...rule, priority: 2 };
    expect(Rules.parse([rule, other, { ...rule }])).toHaveLength(2);
    expect(Rules.parse([rule, { ...rule }])).toEqual([Rule.parse(rule)]);
  });

  test('is one of at most 50', () => {
    const many = Array.from({ length: 51 }, (_, index) => ({ ...rule, priority: index + 1 }));
    expect(accepts(Rules, many.slice(1))).toBe(true);
    expect(accepts(Rules, many)).toBe(false);
  });
});

describe('a transform', () => {
  test('is stricter the less it shows', () => {
    const strictest = ['redact', 'mask', 'reveal'] as const;
    strictest.forEach((a, at) => {
      strictest.forEach((b, other) => {
        expect(stricter(a, b)).toBe(strictest[Math.min(at, other)]!);
        expect(Math.sign(compareTransforms(a, b))).toBe(Math.sign(at - other));
      });
    });
  });

  test('is one of three', () => {
    expect(Transform.options).toEqual(['redact', 'mask', 'reveal']);
    expect(Transform.safeParse('show').success).toBe(false);
  });
});
