/** What a Session may do below an authorizer that it may never exceed. */
import { describe, expect, test } from 'bun:test';
import { type Grants, noGrants } from '../../src/domain/grant.ts';
import { compilePolicy, decideUnder, type Resource } from '../../src/domain/policy.ts';
import type { Transform } from '../../src/domain/transform.ts';
import { at, grants, type Outcome, outcome, when } from '../support/grants.ts';

const pci = { container: '/pci/' };
const session = (transform: Transform) => grants({ ...when(['container', 'equals', '/pci/']), transform });
const application = (transform: Transform) => grants({ ...pci, transform });

describe('a Session under a ceiling', () => {
  test.each<[Transform, Transform, Transform]>([
    ['redact', 'reveal', 'redact'],
    ['reveal', 'redact', 'redact'],
    ['mask', 'reveal', 'mask'],
    ['reveal', 'mask', 'mask'],
    ['redact', 'mask', 'redact'],
    ['mask', 'redact', 'redact'],
    ['reveal', 'reveal', 'reveal'],
  ])('that may %s, below an authorizer that may %s, sees it by %s', (own, above, expected) => {
    const verdict = decideUnder(
      compilePolicy(session(own)),
      compilePolicy(application(above)),
      'token:read',
      at('/pci/'),
    );
    expect(outcome(verdict)).toBe(expected);
  });

  test.each<[string, Grants, Grants | undefined, Resource, Outcome]>([
    ['is denied what its authorizer is denied', session('reveal'), noGrants, at('/pci/'), 'denied'],
    ['is denied what only its authorizer may do', noGrants, application('reveal'), at('/pci/'), 'denied'],
    ['may do nothing when both are granted nothing', noGrants, noGrants, at('/pci/'), 'denied'],
    [
      'is denied where its authorizer is granted another container',
      session('reveal'),
      grants({ container: '/other/' }),
      at('/pci/'),
      'denied',
    ],
    [
      'is denied where its authorizer is granted another permission',
      session('reveal'),
      grants({ ...pci, permissions: ['token:create'] }),
      at('/pci/'),
      'denied',
    ],
    [
      'sees masked what its authorizer holds plainly',
      session('reveal'),
      grants('token:read'),
      at('/pci/'),
      'mask',
    ],
    ['sees masked what it holds plainly', grants('token:read'), application('reveal'), at('/pci/'), 'mask'],
    [
      'that holds it plainly is kept to the container of its authorizer',
      grants('token:read'),
      application('reveal'),
      at('/other/'),
      'denied',
    ],
    ['without a ceiling sees what it was granted', session('reveal'), undefined, at('/pci/'), 'reveal'],
  ])('%s', (_, own, above, resource, expected) => {
    const verdict = decideUnder(compilePolicy(own), above && compilePolicy(above), 'token:read', resource);
    expect(outcome(verdict)).toBe(expected);
  });
});
