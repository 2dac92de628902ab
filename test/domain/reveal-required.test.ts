/** Which changes of a token that leave data in place need `token:update` with `reveal`. */
import { expect, test } from 'bun:test';
import type { Grants, Owner } from '../../src/domain/grant.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import { needsReveal, type PartialPatch, type Principal } from '../../src/domain/principal.ts';
import type { Transform } from '../../src/domain/rule.ts';
import { grants, principalBase } from '../support/grants.ts';

type Seen = Transform | undefined;

/** Rules for `token:update` and `token:read` in /from/ and in /to/, with these transforms. */
function policy([updateHere, readHere]: [Seen, Seen], [updateThere, readThere]: [Seen, Seen]): Grants {
  const rules = [
    ['/from/', 'token:update', updateHere],
    ['/from/', 'token:read', readHere],
    ['/to/', 'token:update', updateThere],
    ['/to/', 'token:read', readThere],
  ] as const;
  return grants(
    ...rules.flatMap(([container, permission, transform]) =>
      transform ? [{ container, transform, permissions: [permission] }] : [],
    ),
  );
}

function caller(owner: Owner, own: Grants, ceiling?: Grants): Principal {
  return owner === 'session'
    ? {
        ...principalBase,
        kind: 'session',
        sessionId: 's',
        authorizedBy: undefined,
        policy: compilePolicy(own),
        ceiling: ceiling && compilePolicy(ceiling),
      }
    : {
        ...principalBase,
        kind: 'application',
        application: { type: owner } as never,
        policy: compilePolicy(own),
      };
}

const from = { id: 'x', container: '/from/' };
const stays: PartialPatch = { from, to: from, renders: false, merges: false };
const moves = { ...stays, to: { id: 'x', container: '/to/' } };
const owners: Owner[] = ['private', 'management', 'public', 'session'];

test.each(owners)('with reveal, a %s key can make any change', (owner) => {
  const seeing = caller(owner, policy(['reveal', undefined], ['redact', undefined]));
  for (const change of [stays, moves]) {
    expect(needsReveal(seeing, change)).toBe(false);
    expect(needsReveal(seeing, { ...change, renders: true, merges: true })).toBe(false);
  }
});

test.each(owners)('without reveal, a %s key cannot change the mask or a part of the data', (owner) => {
  for (const here of ['redact', 'mask'] as const) {
    const blind = caller(owner, policy([here, 'reveal'], ['reveal', 'reveal']));
    expect(needsReveal(blind, stays)).toBe(false);
    expect(needsReveal(blind, { ...stays, renders: true })).toBe(true);
    expect(needsReveal(blind, { ...stays, merges: true })).toBe(true);
  }
});

test('no key has reveal for a token with max_uses', () => {
  const seeing = caller('private', policy(['reveal', 'reveal'], ['reveal', 'reveal']));
  const limited = { ...from, max_uses: 1 };
  for (const part of ['renders', 'merges'])
    expect(needsReveal(seeing, { ...stays, from: limited, to: limited, [part]: true })).toBe(true);
});

test.each(['public', 'session'] as const)('without reveal, a %s key cannot move a token', (owner) => {
  for (const there of ['redact', 'mask', 'reveal'] as const)
    expect(needsReveal(caller(owner, policy(['mask', 'mask'], [there, there])), moves)).toBe(true);
  const renamed = { ...stays, to: { id: 'x', container: '/From' } };
  expect(needsReveal(caller(owner, policy(['mask', 'mask'], ['mask', 'mask'])), renamed)).toBe(false);
});

test('a session needs its authorizer to see the data, too', () => {
  const own = policy(['reveal', 'reveal'], ['reveal', 'reveal']);
  expect(needsReveal(caller('session', own, own), moves)).toBe(false);
  const ceiling = policy(['mask', 'reveal'], ['reveal', 'reveal']);
  expect(needsReveal(caller('session', own, ceiling), moves)).toBe(true);
});

test.each<[here: [Seen, Seen], there: [Seen, Seen], needed: boolean]>([
  [['redact', undefined], ['redact', undefined], false],
  [['mask', undefined], ['redact', undefined], false],
  [['redact', undefined], ['mask', undefined], true],
  [['redact', undefined], ['redact', 'mask'], true],
  [['redact', 'mask'], ['redact', 'mask'], false],
  [['redact', 'mask'], ['reveal', 'redact'], true],
  [['mask', 'reveal'], ['reveal', 'reveal'], false],
  [['redact', undefined], ['redact', 'redact'], false],
])(
  'a private key that sees %p here moves a token to where it sees %p: reveal needed is %p',
  (here, there, needed) => {
    for (const owner of ['private', 'management'] as const)
      expect(needsReveal(caller(owner, policy(here, there)), moves)).toBe(needed);
  },
);
