/** The semantics of access rules. */
import { describe, expect, test } from 'bun:test';
import { type Grants, noGrants } from '../../src/domain/grant.ts';
import { compilePolicy, decide, type Resource } from '../../src/domain/policy.ts';
import { at, grants, type Outcome, outcome, when } from '../support/grants.ts';

type Row = [sentence: string, grants: Grants, resource: Resource, outcome: Outcome, permission?: string];

const pci = { container: '/pci/' };

const containers: Row[] = [
  ['a rule on /pci/ covers /pci/', grants(pci), at('/pci/'), 'reveal'],
  ['a rule on /pci/ covers /pci/high/', grants(pci), at('/pci/high/'), 'reveal'],
  ['a rule on /pci/ covers /pci/high/low/', grants(pci), at('/pci/high/low/'), 'reveal'],
  ['a rule on /pci/ does not cover /pci-other/', grants(pci), at('/pci-other/'), 'denied'],
  ['a rule on /pci/ does not cover /pc/', grants(pci), at('/pc/'), 'denied'],
  ['a rule on /pci/ does not cover /x/pci/', grants(pci), at('/x/pci/'), 'denied'],
  ['a rule on /pci/ does not cover the root', grants(pci), at('/'), 'denied'],
  [
    'a rule on /pci/high/ does not cover the container above it',
    grants({ container: '/pci/high/' }),
    at('/pci/'),
    'denied',
  ],
  ['a rule on /PCI/ covers /pci/High/', grants({ container: '/PCI/' }), at('/pci/High/'), 'reveal'],
  ['a rule on /pci/ covers /PCI/', grants(pci), at('/PCI/'), 'reveal'],
  [
    'a rule on pci, without slashes, covers /pci/high/',
    grants({ container: 'pci' }),
    at('/pci/high/'),
    'reveal',
  ],
  [
    'a rule on pci, without slashes, does not cover /pci-other/',
    grants({ container: 'pci' }),
    at('/pci-other/'),
    'denied',
  ],
  ['a rule on /pci/ covers pci/high, without outer slashes', grants(pci), at('pci/high'), 'reveal'],
  ['a rule on the root covers every container', grants({ container: '/' }), at('/pci/high/'), 'reveal'],
  ['a rule on the root covers resources without a container', grants({ container: '/' }), {}, 'reveal'],
  ['a rule without a container covers everything', grants({}), at('/pci/high/'), 'reveal'],
  ['a rule without a container covers resources without a container', grants({}), {}, 'reveal'],
  [
    'a rule on a container does not cover resources without a container',
    grants(pci),
    { id: 'card-1' },
    'denied',
  ],
  ['a rule on a container covers what has no id', grants(pci), { container: '/pci/' }, 'reveal'],
];

const starts = (value: string) => grants(when(['container', 'starts_with', value]));
const equals = (value: string) => grants(when(['container', 'equals', value]));
const idStarts = (value: string) => grants(when(['id', 'starts_with', value]));
const idEquals = (value: string) => grants(when(['id', 'equals', value]));
const both = grants(when(['id', 'starts_with', 'card-'], ['container', 'equals', '/pci/']));

const conditions: Row[] = [
  ['container starts_with /pci/ holds in /pci/ itself', starts('/pci/'), at('/pci/'), 'reveal'],
  ['container starts_with /pci/ holds in /pci/high/', starts('/pci/'), at('/pci/high/'), 'reveal'],
  ['container starts_with pci does not hold in /pci-other/', starts('pci'), at('/pci-other/'), 'denied'],
  ['container starts_with /PCI/ holds in /pci/', starts('/PCI/'), at('/pci/'), 'reveal'],
  ['container starts_with / holds everywhere, also in no container', starts('/'), {}, 'reveal'],
  ['container equals /pci/ holds in /pci/', equals('/pci/'), at('/pci/'), 'reveal'],
  ['container equals pci holds in /PCI/', equals('pci'), at('/PCI/'), 'reveal'],
  ['container equals /pci/ does not hold in /pci/high/', equals('/pci/'), at('/pci/high/'), 'denied'],
  ['container equals /pci/high/ does not hold in /pci/', equals('/pci/high/'), at('/pci/'), 'denied'],
  ['container equals / holds in the root', equals('/'), at('/'), 'reveal'],
  ['container equals / does not hold below the root', equals('/'), at('/pci/'), 'denied'],
  ['container equals / does not hold in no container', equals('/'), { id: 'card-1' }, 'denied'],
  ['container equals /pci/ does not hold in no container', equals('/pci/'), { id: 'card-1' }, 'denied'],
  ['id starts_with card- holds for card-1', idStarts('card-'), at('/a/', 'card-1'), 'reveal'],
  ['id starts_with card-1 holds for card-1 itself', idStarts('card-1'), at('/a/', 'card-1'), 'reveal'],
  ['id starts_with card-1 does not hold for card-', idStarts('card-1'), at('/a/', 'card-'), 'denied'],
  ['id starts_with ard does not hold for card-1', idStarts('ard'), at('/a/', 'card-1'), 'denied'],
  ['id equals card-1 holds for card-1', idEquals('card-1'), at('/a/', 'card-1'), 'reveal'],
  ['id equals card-1 does not hold for card-10', idEquals('card-1'), at('/a/', 'card-10'), 'denied'],
  ['ids are compared letter by letter, case included', idEquals('card-1'), at('/a/', 'CARD-1'), 'denied'],
  ['a prefix of an id has its case, too', idStarts('card'), at('/a/', 'CARD-1'), 'denied'],
  ['an id is not a path: / is an ordinary character of it', idStarts('/'), at('/a/', 'card-1'), 'denied'],
  [
    'a condition on the id does not match a resource without an id',
    idStarts('c'),
    { container: '/a/' },
    'denied',
  ],
  ['a condition on the id holds in no container', idStarts('c'), { id: 'card-1' }, 'reveal'],
  ['all conditions hold: the rule matches', both, at('/pci/', 'card-1'), 'reveal'],
  ['the first of two conditions fails: the rule does not match', both, at('/pci/', 'x-1'), 'denied'],
  ['the last of two conditions fails: the rule does not match', both, at('/a/', 'card-1'), 'denied'],
  [
    'two conditions on one attribute must both hold',
    grants(when(['id', 'starts_with', 'card-'], ['id', 'starts_with', 'card-2'])),
    at('/a/', 'card-1'),
    'denied',
  ],
  [
    'conditions that exclude each other never match',
    grants(when(['id', 'equals', 'card-1'], ['id', 'equals', 'card-2'])),
    at('/a/', 'card-1'),
    'denied',
  ],
];

const low = { ...pci, priority: 2 };
const precedence: Row[] = [
  [
    'the rule that matches gives its transform',
    grants({ ...pci, transform: 'redact' }),
    at('/pci/'),
    'redact',
  ],
  [
    'the lowest priority decides, strict or not',
    grants({ ...pci, transform: 'reveal' }, { ...low, transform: 'redact' }),
    at('/pci/'),
    'reveal',
  ],
  [
    'a higher number has lower precedence, wherever it is listed',
    grants({ ...low, transform: 'redact' }, { ...pci, transform: 'reveal' }),
    at('/pci/'),
    'reveal',
  ],
  [
    'priorities are compared as numbers: 9 goes before 10',
    grants({ ...pci, priority: 10, transform: 'redact' }, { ...pci, priority: 9 }),
    at('/pci/'),
    'reveal',
  ],
  [
    'a narrower container has no precedence',
    grants({ ...pci, transform: 'redact' }, { container: '/pci/high/', priority: 2 }),
    at('/pci/high/'),
    'redact',
  ],
  [
    'a rule that does not match is ignored, also with the highest priority',
    grants({ container: '/other/', transform: 'redact' }, low),
    at('/pci/'),
    'reveal',
  ],
  [
    'a rule that grants another permission is ignored, also with the highest priority',
    grants({ ...pci, transform: 'redact', permissions: ['token:create'] }, low),
    at('/pci/'),
    'reveal',
  ],
  [
    'on a tie of priority redact decides over reveal',
    grants({ ...pci, transform: 'reveal' }, { ...pci, transform: 'redact' }),
    at('/pci/'),
    'redact',
  ],
  [
    'on a tie of priority redact decides over mask',
    grants({ ...pci, transform: 'mask' }, { ...pci, transform: 'redact' }),
    at('/pci/'),
    'redact',
  ],
  [
    'on a tie of priority mask decides over reveal',
    grants({ ...pci, transform: 'reveal' }, { ...pci, transform: 'mask' }),
    at('/pci/'),
    'mask',
  ],
  [
    'on a tie the stricter decides, also when it is listed first',
    grants({ ...pci, transform: 'redact' }, { ...pci, transform: 'mask' }, { ...pci, transform: 'reveal' }),
    at('/pci/'),
    'redact',
  ],
  [
    'on a tie, a stricter rule that does not match has no say',
    grants({ ...pci, transform: 'reveal' }, { container: '/other/', transform: 'redact' }),
    at('/pci/'),
    'reveal',
  ],
];

const plainly: Row[] = [
  ['plain permissions act on everything, masked', grants('token:read'), at('/pci/high/'), 'mask'],
  ['plain permissions act on what has neither id nor container', grants('token:read'), {}, 'mask'],
  [
    'plain permissions act last: a rule that reveals goes before',
    grants('token:read', pci),
    at('/pci/'),
    'reveal',
  ],
  [
    'plain permissions act last: a rule that redacts goes before',
    grants('token:read', { ...pci, transform: 'redact' }),
    at('/pci/'),
    'redact',
  ],
  [
    'plain permissions act after the highest priority there is',
    grants('token:read', { ...pci, priority: 2_147_483_647, transform: 'redact' }),
    at('/pci/'),
    'redact',
  ],
  ['where no rule matches, plain permissions still act', grants('token:read', pci), at('/other/'), 'mask'],
  [
    'permissions without a rule apply if the matching rule grants another permission',
    grants('token:read', { ...pci, permissions: ['token:create'] }),
    at('/pci/'),
    'mask',
  ],
  ['without grants, every request is denied', noGrants, at('/pci/'), 'denied'],
  ['another plain permission does not help', grants('token:create'), at('/pci/'), 'denied'],
  ['a permission is no prefix of another', grants('token:read'), at('/pci/'), 'denied', 'token:rea'],
  [
    'a rule that grants only another permission denies',
    grants({ ...pci, permissions: ['token:create'] }),
    at('/pci/'),
    'denied',
  ],
  [
    'a rule may grant several permissions',
    grants({ ...pci, permissions: ['token:create', 'token:read'] }),
    at('/pci/'),
    'reveal',
  ],
];

const invoices = { ...pci, permissions: ['invoice:read'] };
const reads = { ...pci, permissions: ['application:read'], transform: 'redact' as const };
const families: Row[] = [
  [
    "users' own permissions are narrowed by containers",
    grants(invoices),
    at('/a/'),
    'denied',
    'invoice:read',
  ],
  ["users' own permissions act where the rule does", grants(invoices), at('/pci/'), 'reveal', 'invoice:read'],
  ['the resources of the service have no container', grants(reads), {}, 'redact', 'application:read'],
  [
    'a container does not narrow what is not about Tokens',
    grants(reads),
    at('/other/'),
    'redact',
    'application:read',
  ],
  [
    'neither do conditions',
    grants({ ...when(['id', 'equals', 'x']), permissions: ['log:read'] }),
    at('/other/'),
    'reveal',
    'log:read',
  ],
  ...['token:create', 'token:update', 'token:delete'].map(
    (name): Row => [
      `${name} is narrowed by containers like token:read`,
      grants({ ...pci, permissions: [name] }),
      at('/other/'),
      'denied',
      name,
    ],
  ),
];

describe.each([
  ['containers', containers],
  ['conditions', conditions],
  ['which rule decides', precedence],
  ['plain permissions', plainly],
  ['permissions that rules limit to containers', families],
])('%s', (_, rows) => {
  test.each(rows)('%s', (_, given, resource, expected, permission = 'token:read') => {
    expect(outcome(decide(compilePolicy(given), permission, resource))).toBe(expected);
    const backwards = compilePolicy({ ...given, rules: given.rules.toReversed() });
    expect(outcome(decide(backwards, permission, resource))).toBe(expected);
  });
});

test('a decision has the index of the rule that decided; plain permissions and denials have none', () => {
  const given = compilePolicy(grants('token:read', { container: '/other/' }, { ...pci, priority: 3 }, low));
  const decided = decide(given, 'token:read', at('/pci/'));
  expect(decided).toMatchObject({ allowed: true, rule: { index: 2 } });
  expect(decide(given, 'token:read', at('/x/'))).toEqual({
    allowed: true,
    transform: 'mask',
    rule: undefined,
  });
  expect(decide(given, 'token:create', at('/x/'))).toEqual({ allowed: false });
});

test('compiling a policy and deciding with it do not change the grants', () => {
  const given = grants(low, pci, 'token:read');
  const before = structuredClone(given);
  decide(compilePolicy(given), 'token:read', at('/pci/'));
  expect(given).toEqual(before);
});
