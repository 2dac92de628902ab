import { describe, expect, test } from 'bun:test';
import { type Grants, noGrants } from '../../src/domain/grant.ts';
import { compilePolicy, decide, isGrantedSomewhere } from '../../src/domain/policy.ts';
import { at, grants, outcome } from '../support/grants.ts';

const pci = { container: '/pci/' };

describe('whether a permission is granted anywhere:', () => {
  test.each<[string, Grants, string, boolean]>([
    ['as a plain permission', grants('token:read'), 'token:read', true],
    ['by a rule on any container', grants(pci), 'token:read', true],
    ['not by a rule that grants another permission', grants(pci), 'token:create', false],
    ['not without grants', noGrants, 'token:read', false],
  ])('%s', (_, given, permission, expected) => {
    expect(isGrantedSomewhere(compilePolicy(given), permission)).toBe(expected);
  });

  test.each(['constructor', 'toString', '__proto__'])('not for %s, a property of every object', (name) => {
    const policy = compilePolicy(grants(pci));
    expect(isGrantedSomewhere(policy, name)).toBe(false);
    expect(outcome(decide(policy, name, at('/pci/')))).toBe('denied');
  });
});
