import { describe, expect, test } from 'bun:test';
import { compilePolicy } from '../../src/domain/policy.ts';
import { Condition } from '../../src/domain/rule.ts';
import { grants, when } from '../support/grants.ts';

function errors(condition: object): string[] {
  const parsed = Condition.safeParse({ attribute: 'id', operator: 'equals', value: 'card-1', ...condition });
  return parsed.error?.issues.map(({ path, message }) => `${path.join('.')} ${message}`) ?? [];
}

describe('a condition', () => {
  test.each([
    ['an id', { value: 'card-1' }],
    ['an id with any characters', { value: 'Ärger 100% 😀' }],
    ['500 characters', { value: '😀'.repeat(500) }],
    ['a container', { attribute: 'container', value: '/pci/high/' }],
    ['a container without slashes', { attribute: 'container', value: 'pci' }],
    ['the root', { attribute: 'container', operator: 'starts_with', value: '/' }],
  ])('accepts %s', (_, condition) => {
    expect(errors(condition)).toEqual([]);
  });

  test.each<[string, object, string]>([
    ['an empty value', { value: '' }, 'value must have 1 to 500 characters'],
    ['more than 500 characters', { value: 'x'.repeat(501) }, 'value must have 1 to 500 characters'],
    ['control characters', { value: 'card\0' }, 'value must not contain control characters'],
    ['a lone surrogate', { value: '\ud83d' }, 'value must be well-formed Unicode'],
    [
      'an invalid container',
      { attribute: 'container', value: '/pci//high/' },
      'value must be a path such as /pci/high/, with letters, digits, - and _',
    ],
    ['an unknown attribute', { attribute: 'type' }, 'attribute '],
    ['an unknown operator', { operator: 'ends_with' }, 'operator '],
    ['an unknown field', { not: true }, ' Unrecognized key'],
  ])('rejects %s', (_, condition, error) => {
    expect(errors(condition).filter((found) => found.startsWith(error))).toHaveLength(1);
  });
});

test('a rule with a container is compiled to one condition', () => {
  const [byContainer, byCondition] = [
    grants({ container: '/pci/' }),
    grants(when(['container', 'starts_with', '/pci/'])),
  ].map((given) => compilePolicy(given).rules[0]);
  expect(byContainer?.conditions).toEqual([
    { attribute: 'container', operator: 'starts_with', value: '/pci/' },
  ]);
  expect(byCondition?.conditions).toEqual(byContainer?.conditions);
});
