/** Sessions whose access is limited by their authorizer. */
import { describe, expect, test } from 'bun:test';
import { type Grants, noGrants } from '../../src/domain/grant.ts';
import { compilePolicy, decideUnder, type Resource } from '../../src/domain/policy.ts';
import type { Transform } from '../../src/domain/rule.ts';
import { at, grants, type Outcome, outcome, when } from '../support/grants.ts';

const pci = { container: '/pci/' };
const session = (transform: Transform) => grants({ ...when(['container', 'equals', '/pci/']), transform });
const application = (transform: Transform) => grants({ ...pci, transform });

describe('a session with a ceiling', () => {
  test.each<[Transform, Transform, Transform]>([
    ['redact', 'reveal', 'redact'],
    ['reveal', 'redact', 'redact'],
    ['mask', 'reveal', 'mask'],
    ['reveal', 'mask', 'mask'],
    ['redact', 'mask', 'redact'],
    ['mask', 'redact', 'redact'],
    ['reveal', 'reveal', 'reveal'],
  ])('with %s and an authorizer with %s gets %s', (own, above, expected) => {
    const verdict = decideUnder(
      compilePolicy(session(own)),
      compilePolicy(application(above)),
      'token:read',
      at('/pci/'),
    );
    expect(outcome(verdict)).toBe(expected);
  });

  test.each<[string, Grants, Grants | undefined, Resource, Outcome]>([
    ['is denied if its authorizer is denied', session('reveal'), noGrants, at('/pci/'), 'denied'],
    ['is denied if only its authorizer is allowed', noGrants, application('reveal'), at('/pci/'), 'denied'],
    ['is denied if neither has grants', noGrants, noGrants, at('/pci/'), 'denied'],
    [
      'is denied if its authorizer has another container',
      session('reveal'),
      grants({ container: '/other/' }),
      at('/pci/'),
      'denied',
    ],
    [
      'is denied if its authorizer has another permission',
      session('reveal'),
      grants({ ...pci, permissions: ['token:create'] }),
      at('/pci/'),
      'denied',
    ],
    [
      'gets masked data if its authorizer has the permission without a rule',
      session('reveal'),
      grants('token:read'),
      at('/pci/'),
      'mask',
    ],
    [
      'gets masked data if it has the permission without a rule',
      grants('token:read'),
      application('reveal'),
      at('/pci/'),
      'mask',
    ],
    [
      'with a permission without a rule is limited to the container of its authorizer',
      grants('token:read'),
      application('reveal'),
      at('/other/'),
      'denied',
    ],
    ['without a ceiling gets what it was granted', session('reveal'), undefined, at('/pci/'), 'reveal'],
  ])('%s', (_, own, above, resource, expected) => {
    const verdict = decideUnder(compilePolicy(own), above && compilePolicy(above), 'token:read', resource);
    expect(outcome(verdict)).toBe(expected);
  });
});
