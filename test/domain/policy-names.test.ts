import { describe, expect, test } from 'bun:test';
import { type Grants, noGrants } from '../../src/domain/grant.ts';
import { compilePolicy, decide, isGrantedSomewhere } from '../../src/domain/policy.ts';
import { at, grants, outcome } from '../support/grants.ts';

const pci = { container: '/pci/' };

describe('holding a permission at all', () => {
  test.each<[string, Grants, string, boolean]>([
    ['plainly', grants('token:read'), 'token:read', true],
    ['by a rule, wherever it acts', grants(pci), 'token:read', true],
    ['not by a rule that grants another', grants(pci), 'token:create', false],
    ['not without any grant', noGrants, 'token:read', false],
  ])('%s', (_, given, permission, expected) => {
    expect(isGrantedSomewhere(compilePolicy(given), permission)).toBe(expected);
  });

  test.each(['constructor', 'toString', '__proto__'])('is not said of %s, which every object has', (name) => {
    const policy = compilePolicy(grants(pci));
    expect(isGrantedSomewhere(policy, name)).toBe(false);
    expect(outcome(decide(policy, name, at('/pci/')))).toBe('denied');
  });
});
