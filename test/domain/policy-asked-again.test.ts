/** One policy answers many questions, and remembers some answers: none of them is given to another question. */
import { describe, expect, test } from 'bun:test';
import type { Grants } from '../../src/domain/grant.ts';
import { compilePolicy, decide, type Resource } from '../../src/domain/policy.ts';
import { at, grants, type Outcome, outcome, when } from '../support/grants.ts';

const pci = { container: '/pci/' };
const oneCard = when(['id', 'equals', 'card-1']);
const oneCardInPci = when(['container', 'starts_with', '/pci/'], ['id', 'equals', 'card-1']);

describe('a policy that is asked again', () => {
  test.each<[string, Grants, [Resource, Outcome][]]>([
    [
      'tells one id from another in the same container',
      grants(oneCard),
      [
        [at('/pci/', 'card-1'), 'reveal'],
        [at('/pci/', 'card-2'), 'denied'],
      ],
    ],
    [
      'tells ids apart also where the container counts as well',
      grants(oneCardInPci),
      [
        [at('/pci/', 'card-1'), 'reveal'],
        [at('/pci/', 'card-2'), 'denied'],
        [at('/a/', 'card-1'), 'denied'],
      ],
    ],
    [
      'tells ids apart also where only one of its rules is about ids',
      grants({ ...oneCard, transform: 'redact' }, { ...pci, priority: 2 }),
      [
        [at('/pci/', 'card-1'), 'redact'],
        [at('/pci/', 'card-2'), 'reveal'],
      ],
    ],
    [
      'tells containers apart',
      grants(pci),
      Array.from({ length: 40 }, (_, n): [Resource, Outcome] =>
        n % 2 === 0 ? [at(`/pci/${n}/`), 'reveal'] : [at(`/a/${n}/`), 'denied'],
      ),
    ],
    [
      'tells what lies in no container from what does',
      grants(pci),
      [
        [at('/pci/'), 'reveal'],
        [{ id: 'card-1' }, 'denied'],
        [at('/a/'), 'denied'],
      ],
    ],
  ])('%s', (_, given, questions) => {
    const policy = compilePolicy(given);
    const order = [...questions, ...questions.toReversed(), ...questions];
    for (const [resource, expected] of order)
      expect(outcome(decide(policy, 'token:read', resource))).toBe(expected);
  });

  test('tells containers apart, also more of them than all policies together remember', () => {
    const policies = [compilePolicy(grants(pci)), compilePolicy(grants({ container: '/a/' }))] as const;
    const wrong: string[] = [];
    for (let n = 0; n < 100_000; n++) {
      const container = `/${n % 2 === 0 ? 'pci' : 'a'}/${n % 40_000}/`;
      const [first, second] = policies.map((policy) => decide(policy, 'token:read', { container }).allowed);
      if (first !== (n % 2 === 0) || second === first) wrong.push(container);
    }
    expect(wrong).toEqual([]);
  });

  test('tells one permission from another', () => {
    const policy = compilePolicy(grants({ ...pci, permissions: ['token:create'], transform: 'redact' }, pci));
    for (let round = 0; round < 2; round++) {
      expect(outcome(decide(policy, 'token:create', at('/pci/')))).toBe('redact');
      expect(outcome(decide(policy, 'token:read', at('/pci/')))).toBe('reveal');
      expect(outcome(decide(policy, 'token:delete', at('/pci/')))).toBe('denied');
    }
  });
});
