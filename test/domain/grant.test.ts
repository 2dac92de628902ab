import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { type Errors, Failure } from '../../src/domain/error.ts';
import { type Grants, grantErrors, noGrants, type Owner, permissionsIn } from '../../src/domain/grant.ts';
import { builtIn } from '../../src/domain/permission.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import { denyEscalation, denyUnheldGrants, holds, type Principal } from '../../src/domain/principal.ts';
import { Rule } from '../../src/domain/rule.ts';
import { grants, principalBase, rule, when } from '../support/grants.ts';

const owners: Owner[] = ['private', 'public', 'management', 'session'];
const management = builtIn.filter((name) =>
  /^(application|session|destination|access|log|tenant):/.test(name),
);
const notInBrowsers = [
  ...['application:create', 'application:update', 'application:delete'],
  ...['session:authorize', 'session:delete'],
];

const somePermission = fc.constantFrom(...builtIn, 'invoice:pay', 'own:thing');
const somePermissions = fc.uniqueArray(somePermission, { maxLength: 5 });
const someGrants: fc.Arbitrary<Grants> = fc.record({
  permissions: somePermissions,
  rules: fc.array(
    fc
      .record({
        container: fc.constantFrom(undefined, '/', '/pci/'),
        conditions: fc.constantFrom(undefined, when(['id', 'equals', 'x']).conditions),
        permissions: fc.uniqueArray(somePermission, { minLength: 1, maxLength: 3 }),
      })
      .map(rule),
    { maxLength: 3 },
  ),
});

interface Someone {
  readonly principal: Principal;
  readonly own: Grants;
  readonly ceiling?: Grants | undefined;
}

function applicationWith(own: Grants): Someone {
  const application = { type: 'private' } as never;
  return {
    principal: { ...principalBase, kind: 'application', application, policy: compilePolicy(own) },
    own,
  };
}

function sessionWith(own: Grants, ceiling: Grants | undefined): Someone {
  const under = ceiling && compilePolicy(ceiling);
  return {
    principal: {
      ...principalBase,
      kind: 'session',
      sessionId: 's',
      authorizedBy: undefined,
      policy: compilePolicy(own),
      ceiling: under,
    },
    own,
    ceiling,
  };
}

const somebody: fc.Arbitrary<Someone> = fc.oneof(
  someGrants.map(applicationWith),
  fc
    .tuple(someGrants, fc.option(someGrants, { nil: undefined }))
    .map(([own, over]) => sessionWith(own, over)),
);

/** All permissions in the grants. */
const written = ({ permissions, rules }: Grants) => [
  ...permissions,
  ...rules.flatMap((rule) => rule.permissions),
];
/** A plain `token:use` grants nothing: only rules name destinations. */
const effective = ({ permissions, rules }: Grants) =>
  written({ permissions: permissions.filter((name) => name !== 'token:use'), rules });

/** Permissions in the grants that the principal does not have. */
function beyond({ own, ceiling }: Someone, ...touched: Grants[]): string[] {
  const has = (name: string) =>
    effective(own).includes(name) && (!ceiling || effective(ceiling).includes(name));
  return touched.flatMap(written).filter((name) => !has(name));
}

/** Whether `work` succeeds. The only expected error is `grant_not_held`. */
function passes(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    expect((error as Failure).code).toBe('grant_not_held');
    expect(error).toBeInstanceOf(Failure);
    return false;
  }
}

describe('escalation is denied:', () => {
  const isManagement = (name: string) => (management as string[]).includes(name);

  test('grants are denied exactly if they contain a management permission that the principal does not hold', () => {
    fc.assert(
      fc.property(somebody, fc.array(someGrants, { minLength: 1, maxLength: 2 }), (someone, touched) => {
        const allowed = !beyond(someone, ...touched).some(isManagement);
        expect(passes(() => denyEscalation(someone.principal, ...touched))).toBe(allowed);
      }),
      { numRuns: 1000 },
    );
  });

  test('an authorizer without session:authorize can grant only permissions that it holds', () => {
    fc.assert(
      fc.property(somebody, someGrants, (someone, asked) => {
        const allowed = beyond(someone, asked).length === 0;
        expect(passes(() => denyUnheldGrants(someone.principal, permissionsIn(asked)))).toBe(allowed);
      }),
      { numRuns: 1000 },
    );
  });

  test('a session with a ceiling holds no permission beyond it', () => {
    fc.assert(
      fc.property(someGrants, someGrants, somePermission, (own, ceiling, permission) => {
        const both = effective(own).includes(permission) && effective(ceiling).includes(permission);
        expect(holds(sessionWith(own, ceiling).principal, permission)).toBe(both);
      }),
    );
  });

  test('a chain of grants never exceeds the first principal', () => {
    fc.assert(
      fc.property(somebody, someGrants, someGrants, (giver, given, next) => {
        fc.pre(passes(() => denyEscalation(giver.principal, given)));
        const taker = applicationWith(given);
        if (passes(() => denyEscalation(taker.principal, next))) {
          expect(passes(() => denyEscalation(giver.principal, next))).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('grants', () => {
  test('of public applications and sessions never change credentials or grant access', () => {
    fc.assert(
      fc.property(fc.constantFrom<Owner>('public', 'session'), someGrants, (owner, given) => {
        const rejected = Object.keys(grantErrors(owner, given)).length > 0;
        if (permissionsIn(given).some((name) => notInBrowsers.includes(name))) expect(rejected).toBe(true);
      }),
    );
  });

  test('are rejected with the path of each error', () => {
    const given = grants(
      'token:read',
      'session:authorize',
      rule({ container: '/x/', permissions: ['token:read', 'application:update'] }),
    );
    expect(grantErrors('public', given)).toEqual({
      'permissions.1': ['session:authorize cannot be granted to a public application'],
      'rules.0.permissions.1': ['application:update cannot be granted to a public application'],
    });
    expect(grantErrors('session', grants('session:authorize'))).toEqual({
      'permissions.0': ['session:authorize cannot be granted to a session'],
    });
    expect(grantErrors('private', given)).toEqual({});
    expect(grantErrors('management', given)).toEqual({});
  });

  test.each(owners)('of a %s must not be empty', (owner) => {
    expect(grantErrors(owner, noGrants)).toEqual({
      permissions: ['must not be empty unless rules are given'],
    });
    expect(grantErrors(owner, grants('token:read'))).toEqual({});
  });

  test('may contain permissions and rules', () => {
    expect(grantErrors('private', grants('token:read', rule({ container: '/pci/' })))).toEqual({});
  });

  test('that are empty contain no permissions', () => {
    expect(permissionsIn(noGrants)).toEqual([]);
  });

  const container = rule({ container: '/pci/' });
  const conditions = rule(when(['id', 'equals', 'x']));
  const neither = rule({});
  const both = rule({ container: '/pci/', ...when(['id', 'equals', 'x']) });
  const noConditions = {
    'rules.0.conditions': ['is only for sessions and delegations: use container instead'],
  };
  const noContainer = { 'rules.0.container': ['is only for applications: use conditions instead'] };

  test.each<[Owner, string, Rule, Errors]>([
    ['private', 'a container', container, {}],
    ['private', 'conditions', conditions, noConditions],
    [
      'private',
      'neither',
      neither,
      { 'rules.0.container': ['is required in a rule of a private application'] },
    ],
    ['private', 'both', both, noConditions],
    ['public', 'a container', container, {}],
    ['public', 'conditions', conditions, noConditions],
    [
      'public',
      'neither',
      neither,
      { 'rules.0.container': ['is required in a rule of a public application'] },
    ],
    ['public', 'both', both, noConditions],
    ['management', 'a container', container, {}],
    ['management', 'conditions', conditions, noConditions],
    ['management', 'neither', neither, {}],
    ['management', 'both', both, noConditions],
    ['session', 'a container', container, noContainer],
    ['session', 'conditions', conditions, {}],
    ['session', 'neither', neither, { 'rules.0.conditions': ['is required in a rule of a session'] }],
    ['session', 'both', both, noContainer],
  ])('of a %s, in a rule with %s', (owner, _, given, wrong) => {
    expect(grantErrors(owner, { permissions: [], rules: [given] })).toEqual(wrong);
  });
});

describe('defaults of rules', () => {
  const create = (defaults: Rule['defaults'], priority = 1) =>
    rule({ container: '/', permissions: ['token:create'], priority, ...(defaults && { defaults }) });
  const errorsOf = (...rules: Rule[]) => grantErrors('private', grants(...rules));

  test('must be templates', () => {
    expect(errorsOf(create({ mask: '{{ data | hide }}', search: { pan: '{{ data }}' } }))).toEqual({});
    expect(Object.keys(errorsOf(create({ mask: 7, search: { PAN: '{{ data }}' } })))).toEqual([
      'rules.0.defaults.mask',
      'rules.0.defaults.search.PAN',
    ]);
  });

  test.each([
    [{ mask: '{{ data.number | reveal_last: 4 ' }, 'mask', /not a valid output/],
    [{ mask: { a: ['x', '{{ data | shout }}'] } }, 'mask', /unknown filter/],
    [{ mask: '{% if data %}x{% endif %}' }, 'mask', /tags are not supported/],
    [{ mask: '{{ data | reveal_last: 1.5 }}' }, 'mask', /must be a whole number/],
    [{ mask: '{{ data | hide: "**" }}' }, 'mask', /must be one character/],
    [{ search: { pan: '{{ number }}' } }, 'search.pan', /`number` does not exist/],
    [{ search: { pan: '{{ data.number | }}' } }, 'search.pan', /not a valid output/],
    [{ search: JSON.parse('{"__proto__": "{{ data }}"}') }, 'search', /entry named __proto__/],
    [{ search: ['x'] }, 'search', /must be an object/],
  ])('are rejected if no token could be created with them: %j', (defaults, field, problem) => {
    const { error, data } = Rule.safeParse({
      ...{ priority: 1, container: '/', transform: 'redact', permissions: ['token:create'] },
      defaults,
    });
    expect(error).toBeUndefined();
    const errors = errorsOf(data as Rule);
    expect(Object.keys(errors)).toEqual([`rules.0.defaults.${field}`]);
    expect(errors[`rules.0.defaults.${field}`]?.[0]).toMatch(problem);
  });

  test.each(['{{ data["a b"].c[0] | reveal_first: 2, "*" | hide }}', '{{ data }}', '{{-data.x-}}'])(
    'may be the template %s',
    (template) => {
      expect(errorsOf(create({ mask: { number: [template, 1, null] }, search: { pan: template } }))).toEqual(
        {},
      );
    },
  );

  test.each(['card', ' {{ data }}', '{{ data }}!', '{{ data.a }}{{ data.b }}', '{{ "4000" }}', '{{ 4000 }}'])(
    'with the text of %s are for masks, not for search',
    (template) => {
      expect(errorsOf(create({ mask: template }))).toEqual({});
      expect(errorsOf(create({ search: { pan: template } }))).toEqual({
        'rules.0.defaults.search.pan': [
          'must be one output of the data without other text, such as {{ data.number }}',
        ],
      });
    },
  );

  test('have at most 8,192 characters in all rules, where equal ones of a priority count once', () => {
    const long = (at: number) => create({ mask: `${at}${'x'.repeat(2000)}` }, at);
    expect(errorsOf(...[1, 2, 3, 4].map(long), ...Array(46).fill(long(4)))).toEqual({});
    const emoji = (at: number) => create({ mask: `${at}${'😀'.repeat(2000)}` }, at);
    expect(errorsOf(...[1, 2, 3, 4].map(emoji))).toEqual({});
    expect(Object.keys(errorsOf(...[1, 2, 3, 4, 5].map(long)))).toEqual(
      [0, 1, 2, 3, 4].map((at) => `rules.${at}.defaults`),
    );
  });

  test('are the same with the names in another order, and without empty fields', () => {
    const first = {
      mask: { a: '1', b: { c: '2', d: '3' } },
      search: { pan: '{{ data.a }}', iban: '{{ data.b }}' },
    };
    const second = {
      search: { iban: '{{ data.b }}', pan: '{{ data.a }}' },
      mask: { b: { d: '3', c: '2' }, a: '1' },
    };
    expect(errorsOf(create(first), create(second))).toEqual({});
    expect(errorsOf(create({}), create(undefined), create({ mask: undefined }))).toEqual({});
  });

  test('must be the same in rules of the same priority, so that their order does not matter', () => {
    const defaults = { mask: '***' };
    expect(errorsOf(create(defaults), create(defaults), create(undefined, 2))).toEqual({});
    for (const other of [create(undefined), create({ mask: '*' })])
      expect(Object.keys(errorsOf(other, create(defaults)))).toContain('rules.1.defaults');
  });
});
