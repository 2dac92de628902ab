/** The grants and containers of a proposal. */
import { describe, expect, test } from 'bun:test';
import { adviceFor } from '../../../src/domain/access/advice.ts';
import type { Grants } from '../../../src/domain/grant.ts';
import { maxRules, type Rule } from '../../../src/domain/rule.ts';
import { runSteps } from '../../../src/domain/steps.ts';
import { grants, rule } from '../../support/grants.ts';

/** A rule that reveals tokens in a container. */
const at = (container: string, fields: Partial<Rule> = {}) => rule({ container, ...fields });

/** Each use is a permission and a container, separated by a space. */
function proposalFor(current: Grants, ...uses: string[]): Grants | undefined {
  const split = uses.map((use) => use.split(' ') as [string, string]);
  return runSteps(
    adviceFor(
      current,
      split.map(([permission, container]) => ({ permission, container })),
    ),
  ).proposal;
}

test.each<[string, Rule, string[], Rule]>([
  ['one use', at('/shop/'), ['/shop/cards/'], at('/shop/cards/')],
  ['equal uses', at('/shop/'), ['/shop/a/', '/shop/a/'], at('/shop/a/')],
  ['a use above another', at('/'), ['/shop/', '/shop/a/'], at('/shop/')],
  ['a use below another', at('/'), ['/shop/a/', '/shop/'], at('/shop/')],
  ['names with a common beginning', at('/'), ['/shop/10/', '/shop/11/'], at('/shop/')],
  ['names of different length', at('/'), ['/shop/1/', '/shop/10/', '/shop/1/a/'], at('/shop/')],
  ['a rule without a container', rule({}), ['/shop/a/'], at('/shop/a/')],
  ['another spelling', at('Shop'), ['/shop/a/'], at('/shop/a/')],
])('a rule is narrowed to its uses: %s', (_, before, containers, after) => {
  const uses = containers.map((container) => `token:read ${container}`);
  expect(proposalFor({ permissions: [], rules: [before] }, ...uses)).toEqual({
    permissions: [],
    rules: [after],
  });
});

test('a proposed rule without token:create has no defaults', () => {
  const before = at('/', { permissions: ['token:create', 'token:read'], defaults: { mask: 'x' } });
  const proposal = proposalFor({ permissions: [], rules: [before] }, 'token:read /shop/');
  expect(proposal?.rules).toEqual([at('/shop/', { permissions: ['token:read'] })]);
});

/** The proposal always removes `invoice:read`, so it is never undefined. */
test.each<[string, Grants, string[], Grants]>([
  [
    'a rule that is used in its own container, with its spelling',
    grants(at('Shop')),
    ['token:read /shop/'],
    grants(at('Shop')),
  ],
  [
    'a rule without a container that is used in the root',
    grants(rule({})),
    ['token:read /'],
    grants(rule({})),
  ],
  [
    'a rule below a use, because the use may stand for uses below',
    grants(at('/shop/cards/')),
    ['token:read /shop/'],
    grants(at('/shop/cards/')),
  ],
  [
    'a permission that is used without a rule, next to a narrowed rule',
    grants('token:read', 'log:read', at('/shop/')),
    ['token:read /other/', 'token:read /shop/a/'],
    grants('token:read', at('/shop/a/')),
  ],
  [
    'only the rule that decides',
    grants(at('/shop/'), at('/shop/', { priority: 2, transform: 'mask' }), at('/old/')),
    ['token:read /shop/'],
    grants(at('/shop/')),
  ],
  [
    'only the rule that has uses, without a stricter one elsewhere',
    grants(at('/old/', { transform: 'redact' }), at('/shop/')),
    ['token:read /shop/a/'],
    grants(at('/shop/a/')),
  ],
  [
    'a rule whose permission a stricter rule for another permission covers',
    grants(at('/', { transform: 'redact', permissions: ['token:update'] }), at('/', { priority: 2 })),
    ['token:read /shop/'],
    grants(at('/shop/', { priority: 2 })),
  ],
  [
    'a separate rule for the containers of each permission, in the order of the permissions',
    grants(at('/shop/', { description: 'Desk', permissions: ['token:read', 'token:update', 'a:b', 'c:d'] })),
    ['token:read /shop/a/', 'token:update /shop/b/', 'a:b /shop/a/'],
    grants(
      at('/shop/a/', { description: 'Desk', permissions: ['token:read', 'a:b'] }),
      at('/shop/b/', { description: 'Desk', permissions: ['token:update'] }),
    ),
  ],
  [
    'a permission that ignores containers in the container of its rule',
    grants(at('/shop/', { permissions: ['token:read', 'decision:create'] })),
    ['token:read /shop/a/', 'decision:create /'],
    grants(at('/shop/a/'), at('/shop/', { permissions: ['decision:create'] })),
  ],
  [
    'an unused rule that restricts permissions without a rule',
    grants('token:read', at('/pci/', { transform: 'redact' })),
    ['token:read /other/'],
    grants('token:read', at('/pci/', { transform: 'redact' })),
  ],
  [
    'an unused rule that restricts a narrowed rule, which is not narrowed then',
    grants(at('/shop/pci/', { transform: 'redact' }), at('/', { priority: 2 })),
    ['token:read /shop/1/', 'token:read /shop/2/'],
    grants(at('/shop/pci/', { transform: 'redact' }), at('/', { priority: 2 })),
  ],
])('a proposal contains %s', (_, before, uses, after) => {
  const unused = at('/', { permissions: ['invoice:read'] });
  expect(proposalFor({ ...before, rules: [...before.rules, unused] }, ...uses)).toEqual(after);
});

describe('nothing is proposed', () => {
  test.each<[string, Grants, string[]]>([
    ['if all grants are used', grants('log:read', at('/shop/')), ['log:read /', 'token:read /shop/']],
    [
      'if only a rule that never decides is unused',
      grants(at('/shop/'), at('/shop/', { priority: 2, transform: 'mask' })),
      ['token:read /shop/'],
    ],
  ])('%s', (_, current, uses) => {
    expect(proposalFor(current, ...uses)).toBeUndefined();
  });
});

describe('the maximum number of rules', () => {
  const names = Array.from({ length: maxRules }, (_, index) => `invoice:n${index}`);
  const uses = names.map((name, index) => `${name} /shop/${index}/`);
  const many = at('/shop/', { permissions: names });

  test('rules are split up to it', () => {
    const proposal = proposalFor(grants(many), ...uses);
    expect(proposal?.rules).toEqual(
      names.map((name, index) => at(`/shop/${index}/`, { permissions: [name] })),
    );
  });

  test('beyond it, rules are not narrowed, and only unused permissions are removed', () => {
    const current = grants(
      'log:read',
      'tenant:read',
      many,
      at('/cards/', { permissions: ['token:read', 'token:delete', 'token:update'] }),
      at('/old/', { permissions: ['token:create', 'token:update'] }),
    );
    const others = ['log:read /', 'token:read /cards/a/', 'token:update /cards/b/'];
    expect(proposalFor(current, ...uses, ...others)).toEqual(
      grants('log:read', many, at('/cards/', { permissions: ['token:read', 'token:update'] })),
    );
  });

  test('beyond it, there is no proposal if rules that are not narrowed would give more access', () => {
    const current = grants(
      at('/shop/pci/', { transform: 'redact' }),
      { ...many, priority: 2 },
      at('/shop/', { priority: 2 }),
    );
    const narrow = proposalFor(current, ...uses.slice(1), 'token:read /shop/cards/');
    expect(narrow?.rules.at(-1)).toEqual(at('/shop/cards/', { priority: 2 }));
    expect(proposalFor(current, ...uses, 'token:read /shop/cards/')).toBeUndefined();
  });
});
