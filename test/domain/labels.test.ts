import { describe, expect, test } from 'bun:test';
import { hasLabels, LabelFilter, Labels } from '../../src/domain/labels.ts';
import { validate } from '../../src/domain/validate.ts';

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`l${at}`, 'x']));

describe('labels', () => {
  test.each([
    [{}],
    [{ team: 'payments', 'example.com/cost-center': 'EU:42', owner: 'ada@example.com', constructor: '1' }],
    [{ ['n'.repeat(63)]: 'v'.repeat(100) }],
    [many(20)],
  ])('%j are accepted', (labels) => {
    expect(Labels.parse(labels)).toEqual(labels);
  });

  test.each<[unknown, string]>([
    [[], ''],
    ['team=payments', ''],
    [{ team: 1 }, 'team'],
    [{ team: '' }, 'team'],
    [{ team: '-x' }, 'team'],
    [{ team: 'a b' }, 'team'],
    [{ team: 'a,b=c' }, 'team'],
    [{ team: 'ü' }, 'team'],
    [{ team: 'v'.repeat(101) }, 'team'],
    [{ team: `slp_pvt_${'0'.repeat(55)}` }, 'team'],
    [{ Team: 'x' }, 'Team'],
    [{ '1': 'x' }, '1'],
    [{ '': 'x' }, ''],
    [{ 'a=b': 'x' }, 'a=b'],
    [{ 'a"b': 'x' }, 'a"b'],
    [{ ['n'.repeat(64)]: 'x' }, 'n'.repeat(64)],
    [JSON.parse('{"__proto__": "x"}'), ''],
    [many(21), ''],
  ])('%j are rejected', (labels, path) => {
    expect(Labels.safeParse(labels).error?.issues[0]?.path.join('.')).toBe(path);
  });

  test.each([
    [
      { Team: 'x' },
      'Team',
      'has an invalid name: it must have lower-case letters, digits, and . _ / - only, and start with a letter',
    ],
    [
      { team: '-x' },
      'team',
      'must have letters, digits, and . _ / @ : - only, and start with a letter or digit',
    ],
  ])('the message for %j says which characters are accepted', (labels, name, message) => {
    expect(() => validate(Labels, labels, 'labels')).toThrow(
      expect.objectContaining({ errors: { [name]: [message] } }),
    );
  });

  test('at most three can be filtered by', () => {
    expect(LabelFilter.safeParse(many(3)).success).toBe(true);
    expect(LabelFilter.safeParse(many(4)).success).toBe(false);
  });

  test('an application has the labels if it has all of them', () => {
    const labels = { team: 'payments', env: 'prod' };
    expect(hasLabels(labels, {})).toBe(true);
    expect(hasLabels(labels, { team: 'payments' })).toBe(true);
    expect(hasLabels(labels, { team: 'payments', env: 'test' })).toBe(false);
    expect(hasLabels(labels, { tier: '1' })).toBe(false);
    expect(hasLabels(undefined, { team: 'payments' })).toBe(false);
  });
});
