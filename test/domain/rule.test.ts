import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { z } from 'zod';
import { Condition, Container, canonicalContainer, Rule, Rules } from '../../src/domain/rule.ts';

const accepts = (schema: z.ZodType, value: unknown) => schema.safeParse(value).success;
const complaints = (schema: z.ZodType, value: unknown) =>
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
    [`/${'a/'.repeat(16)}`, `/${'a/'.repeat(16)}`],
  ])('%p is kept as it is, and compared as %p', (given, compared) => {
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
    [`/${'x'.repeat(249)}/`],
    ['x'.repeat(249)],
    [`/${'a/'.repeat(17)}`],
    ['a/'.repeat(17)],
  ])('is not %p', (text) => {
    expect(accepts(Container, text)).toBe(false);
  });

  const segment = fc.stringMatching(/^[A-Za-z0-9_-]{1,8}$/);
  const path = fc.array(segment, { minLength: 1, maxLength: 5 });

  test('of any segments is one, whatever slashes stand at its ends, and they all compare alike', () => {
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

  test('covers what is below it, and nothing that only begins with the same letters', () => {
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
  ])('from elsewhere, %j, is compared as %j', (given, compared) => {
    expect(canonicalContainer(given)).toBe(compared);
  });

  test('of any text is compared in lower case, between slashes', () => {
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

  test('has one form: putting it there twice changes nothing', () => {
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
  ])('may have %j', (fields) => {
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
  ])('may not have %j', (fields) => {
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
  ])('may have %j', (fields) => {
    expect(accepts(Rule, { ...rule, ...fields })).toBe(true);
  });

  test.each([0, -1, 1.5, '1', Number.NaN, undefined])('may not have the priority %p', (priority) => {
    expect(complaints(Rule, { ...rule, priority })).toEqual(['must be an integer of at least 1']);
  });

  test('has a priority that fits into 31 bits', () => {
    expect(complaints(Rule, { ...rule, priority: 2_147_483_648 })).toEqual(['must be at most 2147483647']);
  });

  test('must grant something, and if it has conditions, have some', () => {
    expect(complaints(Rule, { ...rule, permissions: [] })).toEqual(['must name at least one permission']);
    expect(complaints(Rule, { ...rule, conditions: [] })).toEqual(['must have at least one condition']);
  });

  test('has twenty conditions at most', () => {
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
  ])('may not have %j', (fields) => {
    expect(accepts(Rule, { ...rule, ...fields })).toBe(false);
  });

  test('that is given twice is kept once', () => {
    const other = { ...rule, priority: 2 };
    expect(Rules.parse([rule, other, { ...rule }])).toHaveLength(2);
    expect(Rules.parse([rule, { ...rule }])).toEqual([Rule.parse(rule)]);
  });

  test('is one of fifty at most', () => {
    const many = Array.from({ length: 51 }, (_, index) => ({ ...rule, priority: index + 1 }));
    expect(accepts(Rules, many.slice(1))).toBe(true);
    expect(accepts(Rules, many)).toBe(false);
  });
});
