import { describe, expect, test } from 'bun:test';
import {
  type ApplicationAccess,
  type AuditRow,
  applicationAccess,
  changesAccess,
  isNarrower,
  revocations,
} from '../../../src/domain/access/revocation.ts';
import type { Application } from '../../../src/domain/application.ts';

function row(
  operation: string,
  entity: string | null,
  difference?: object,
  fields: Partial<AuditRow> = {},
): AuditRow {
  const entry = JSON.stringify(difference ? { difference } : {});
  return { tenant_id: 't', operation, entity_id: entity, result: 'success', entry, ...fields };
}

const untouched = {
  tenant: 't',
  application: 'a',
  deleted: false,
  keys: [],
  access: {},
  quarantined: false,
};

describe('revocations in the audit log:', () => {
  const cases: [string, AuditRow[], object[]][] = [
    ['nothing', [row('application.create', 'a'), row('token.delete', 'a')], []],
    ['a deleted application', [row('application.delete', 'a')], [{ ...untouched, deleted: true }]],
    ['all keys after a regenerate', [row('application.regenerate', 'a')], [{ ...untouched, keys: 'all' }]],
    [
      'all keys if a new key set the expiry of the old ones, but not otherwise',
      [
        row('application.key.create', 'a', { keys: { to: { id: 'k' } }, old_keys_expire_at: { to: 'x' } }),
        row('application.key.create', 'b', { keys: { to: { id: 'k' } } }),
      ],
      [
        { ...untouched, keys: 'all' },
        { ...untouched, application: 'b' },
      ],
    ],
    [
      'whether an application ended up in quarantine',
      [
        row('application.quarantine', 'a'),
        row('application.quarantine', 'b'),
        row('application.release', 'b'),
      ],
      [
        { ...untouched, quarantined: true },
        { ...untouched, application: 'b' },
      ],
    ],
    [
      'single keys',
      ['k1', 'k2'].map((id) => row('application.key.delete', 'a', { keys: { from: { id, ending: 'x' } } })),
      [{ ...untouched, keys: ['k1', 'k2'] }],
    ],
    [
      'a key that was revoked with POST /keys/revoke, but no session',
      [row('key.revoke', 'a', { keys: { from: { id: 'k', ending: 'x' } } }), row('key.revoke', 's')],
      [
        { ...untouched, keys: ['k'] },
        { ...untouched, application: 's' },
      ],
    ],
    [
      'no key if the entry does not contain its id',
      [row('application.key.delete', 'a'), row('application.key.delete', 'a', { keys: {} })],
      [untouched],
    ],
    [
      'all keys if a regenerate is among the entries',
      [
        row('application.key.delete', 'a', { keys: { from: { id: 'k1' } } }),
        row('application.regenerate', 'a'),
        row('application.key.delete', 'a', { keys: { from: { id: 'k2' } } }),
      ],
      [{ ...untouched, keys: 'all' }],
    ],
    [
      'the final value of each changed field',
      [
        row('application.update', 'a', { name: { to: 'b' }, permissions: { from: ['x:a'], to: ['x:b'] } }),
        row('application.update', 'a', { permissions: { to: ['x:c'] }, allowed_origins: { to: ['o'] } }),
        row('application.update', 'a', { allowed_origins: { from: ['o'] }, rules: { to: [] } }),
      ],
      [{ ...untouched, access: { permissions: ['x:c'], rules: [], allowed_origins: undefined } }],
    ],
    [
      'applications of different tenants separately',
      [
        row('application.delete', 'a'),
        row('application.delete', 'b'),
        row('application.delete', 'a', undefined, { tenant_id: 'u' }),
      ],
      [
        { ...untouched, deleted: true },
        { ...untouched, application: 'b', deleted: true },
        { ...untouched, tenant: 'u', deleted: true },
      ],
    ],
    [
      'no denied entries and none without an entity',
      [
        row('application.delete', 'a', undefined, { result: 'denied' }),
        row('application.delete', null),
        row('application.delete', 'a', undefined, { tenant_id: null }),
      ],
      [],
    ],
  ];
  test.each(cases)('%s', (_, rows, expected) => {
    expect(revocations(rows).applications).toStrictEqual(expected as never);
  });

  test.each([
    [['move'], 'moved'],
    [['move', 'move_cancel'], undefined],
    [['move', 'receive'], undefined],
    [['disable', 'move'], 'disabled'],
    [['disable', 'move', 'move_cancel'], 'disabled'],
    [['move', 'move_cancel', 'disable', 'enable'], undefined],
  ])('a tenant after %j', (operations, state) => {
    const rows = operations.map((operation) => row(`tenant.${operation}`, 't'));
    expect(revocations(rows).tenants.get('t')).toBe(state as never);
  });

  test('the final state of tenants', () => {
    const { tenants } = revocations([
      row('tenant.disable', 't'),
      row('tenant.disable', 'u', undefined, { tenant_id: 'u' }),
      row('tenant.enable', 'u', undefined, { tenant_id: 'u' }),
      row('tenant.disable', 'v', undefined, { tenant_id: 'v' }),
      row('tenant.delete', 'v', undefined, { tenant_id: 'v' }),
      row('tenant.rename', 'w', undefined, { tenant_id: 'w' }),
    ]);
    expect([...tenants]).toEqual([
      ['t', 'disabled'],
      ['v', 'deleted'],
    ]);
  });

  test('come only from operations that change access', () => {
    expect(changesAccess(row('application.update', 'a'))).toBe(true);
    expect(changesAccess(row('tenant.enable', 'a'))).toBe(true);
    expect(changesAccess(row('toString', 'a'))).toBe(false);
  });
});

test('the access of an application has its grants and limits, without absent fields', () => {
  const least: ApplicationAccess = { permissions: ['x:a'], rules: [] };
  const most: ApplicationAccess = {
    ...least,
    allowed_origins: ['o'],
    require_bound_sessions: false,
    allowed_networks: ['n'],
    expires_at: '2030-01-01T00:00:00.000Z',
  };
  const other = { id: 'a', name: 'one', type: 'public', created_at: '2030-01-01T00:00:00.000Z' };
  for (const access of [least, most])
    expect(applicationAccess({ ...other, ...access } as Application)).toStrictEqual(access);
  expect(applicationAccess({ ...other, ...least, allowed_origins: undefined } as never)).toStrictEqual(least);
});

describe('access was reduced', () => {
  const empty = { description: undefined, container: undefined, conditions: undefined };
  const rule = (priority: number) => ({
    ...empty,
    priority,
    transform: 'mask' as const,
    permissions: ['x:a'],
  });
  const trusted = {
    ...{ once: undefined, lifetime: undefined, jwks_uri: undefined, sign_in_priority: undefined },
    ...{ issuer: 'https://i.example', audience: 'a', claims: { sub: 's' } },
  };
  const now: ApplicationAccess = { permissions: ['x:a', 'x:b'], rules: [rule(1)] };
  const cases: [string, ApplicationAccess, Partial<ApplicationAccess>, boolean][] = [
    ['not without changes', now, {}, false],
    ['if a permission was removed', now, { permissions: ['x:a'] }, true],
    ['not if a permission was added', now, { permissions: ['x:a', 'x:b', 'x:c'] }, false],
    ['if a rule was removed', now, { rules: [] }, true],
    ['if a rule was added, which may be stricter', now, { rules: [rule(1), rule(2)] }, true],
    ['not if the rules are equal', now, { rules: [rule(1)] }, false],
    [
      'if a trusted issuer was removed',
      { ...now, trusted_issuers: [trusted] },
      { trusted_issuers: undefined },
      true,
    ],
    [
      'if a trusted issuer was changed',
      { ...now, trusted_issuers: [trusted] },
      { trusted_issuers: [{ ...trusted, once: true }] },
      true,
    ],
    ['not if a trusted issuer was added', now, { trusted_issuers: [trusted] }, false],
    ['if bound sessions were required', now, { require_bound_sessions: true }, true],
    [
      'not if bound sessions are still required',
      { ...now, require_bound_sessions: true },
      { require_bound_sessions: true },
      false,
    ],
    ['if networks were limited', now, { allowed_networks: ['n'] }, true],
    [
      'if no network was removed',
      { ...now, allowed_networks: ['n'] },
      { allowed_networks: ['n', 'm'] },
      false,
    ],
    ['if an expiry was set', now, { expires_at: '2030' }, true],
    ['if the expiry is earlier', { ...now, expires_at: '2031' }, { expires_at: '2030' }, true],
    ['not if the expiry is later', { ...now, expires_at: '2030' }, { expires_at: '2031' }, false],
    ['not if the expiry was removed', { ...now, expires_at: '2030' }, { expires_at: undefined }, false],
    ['if origins were limited', now, { allowed_origins: ['o'] }, true],
    ['if an origin was removed', { ...now, allowed_origins: ['o', 'p'] }, { allowed_origins: ['o'] }, true],
    [
      'not if an origin was added',
      { ...now, allowed_origins: ['o'] },
      { allowed_origins: ['o', 'p'] },
      false,
    ],
    [
      'not if the limit of origins was removed',
      { ...now, allowed_origins: ['o'] },
      { allowed_origins: undefined },
      false,
    ],
  ];
  test.each(cases)('%s', (_, before, after, narrower) => {
    expect(isNarrower(before, after)).toBe(narrower);
  });
});
