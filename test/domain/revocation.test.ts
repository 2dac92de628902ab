import { describe, expect, test } from 'bun:test';
import {
  type Access,
  type AuditRow,
  changesAccess,
  isNarrower,
  revocations,
} from '../../src/domain/revocation.ts';

function row(
  operation: string,
  entity: string | null,
  difference?: object,
  fields: Partial<AuditRow> = {},
): AuditRow {
  const entry = JSON.stringify(difference ? { difference } : {});
  return { id: 'x', tenant_id: 't', operation, entity_id: entity, result: 'success', entry, ...fields };
}

const untouched = { tenant: 't', application: 'a', deleted: false, keys: [], access: {} };

describe('what the audit log tells of access that was taken away:', () => {
  const cases: [string, AuditRow[], object[]][] = [
    ['nothing', [row('application.create', 'a'), row('token.delete', 'a')], []],
    ['an Application deleted', [row('application.delete', 'a')], [{ ...untouched, deleted: true }]],
    [
      'all keys, where it got a new one',
      [row('application.regenerate', 'a')],
      [{ ...untouched, keys: 'all' }],
    ],
    [
      'keys one by one',
      ['k1', 'k2'].map((id) => row('application.key.delete', 'a', { keys: { from: { id, ending: 'x' } } })),
      [{ ...untouched, keys: ['k1', 'k2'] }],
    ],
    [
      'no key, where an entry does not say which',
      [row('application.key.delete', 'a'), row('application.key.delete', 'a', { keys: {} })],
      [untouched],
    ],
    [
      'all keys, whatever went before or after',
      [
        row('application.key.delete', 'a', { keys: { from: { id: 'k1' } } }),
        row('application.regenerate', 'a'),
        row('application.key.delete', 'a', { keys: { from: { id: 'k2' } } }),
      ],
      [{ ...untouched, keys: 'all' }],
    ],
    [
      'what each field was in the end',
      [
        row('application.update', 'a', { name: { to: 'b' }, permissions: { from: ['x:a'], to: ['x:b'] } }),
        row('application.update', 'a', { permissions: { to: ['x:c'] }, allowed_origins: { to: ['o'] } }),
        row('application.update', 'a', { allowed_origins: { from: ['o'] }, rules: { to: [] } }),
      ],
      [{ ...untouched, access: { permissions: ['x:c'], rules: [], allowed_origins: undefined } }],
    ],
    [
      'each Application of each tenant by itself',
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
      'not what did not succeed, or is about nothing',
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

  test('tenants, as they were in the end', () => {
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

  test('is all in rows of a few kinds', () => {
    expect(changesAccess(row('application.update', 'a'))).toBe(true);
    expect(changesAccess(row('tenant.enable', 'a'))).toBe(true);
    expect(changesAccess(row('toString', 'a'))).toBe(false);
  });
});

describe('access is narrower', () => {
  const empty = { description: undefined, container: undefined, conditions: undefined };
  const rule = (priority: number) => ({
    ...empty,
    priority,
    transform: 'mask' as const,
    permissions: ['x:a'],
  });
  const now: Access = { permissions: ['x:a', 'x:b'], rules: [rule(1)] };
  const cases: [string, Access, Partial<Access>, boolean][] = [
    ['not if nothing changed', now, {}, false],
    ['if a permission went', now, { permissions: ['x:a'] }, true],
    ['not if one came', now, { permissions: ['x:a', 'x:b', 'x:c'] }, false],
    ['if a rule went', now, { rules: [] }, true],
    ['if a rule came, which may be the stricter', now, { rules: [rule(1), rule(2)] }, true],
    ['not if the rules are the same again', now, { rules: [rule(1)] }, false],
    ['if only some origins may, where all might', now, { allowed_origins: ['o'] }, true],
    ['if an origin went', { ...now, allowed_origins: ['o', 'p'] }, { allowed_origins: ['o'] }, true],
    ['not if one came', { ...now, allowed_origins: ['o'] }, { allowed_origins: ['o', 'p'] }, false],
    [
      'not if all origins may in the end',
      { ...now, allowed_origins: ['o'] },
      { allowed_origins: undefined },
      false,
    ],
  ];
  test.each(cases)('%s', (_, before, after, narrower) => {
    expect(isNarrower(before, after)).toBe(narrower);
  });
});
