/** Earlier states of an application, from its audit entries. */
import { describe, expect, test } from 'bun:test';
import { accessOf } from '../../../src/domain/access/change.ts';
import {
  type ApplicationState,
  accessOperations,
  createdState,
  expireOperation,
  policyAt,
  removedState,
  stateBefore,
} from '../../../src/domain/access/history.ts';
import type { Application } from '../../../src/domain/application.ts';
import type { Difference, LogEntry } from '../../../src/domain/audit.ts';
import type { Rule } from '../../../src/domain/rule.ts';

const [created, later, expiry] = [
  '2030-01-01T00:00:00.000Z',
  '2030-02-01T00:00:00.000Z',
  '2030-03-01T00:00:00.000Z',
];
const cards = {
  priority: 1,
  container: '/cards/',
  transform: 'reveal',
  permissions: ['token:read', 'token:update'],
};
const plain: ApplicationState = {
  name: 'desk',
  permissions: ['log:read'],
  rules: [cards as Rule],
  created_at: created,
};
const full: ApplicationState = { ...plain, expires_at: expiry, quarantined_at: later };

function entry(operation: string, difference?: Difference): LogEntry {
  return {
    id: '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d',
    at: later,
    actor: { kind: 'operator' },
    operation,
    result: 'success',
    from: {},
    ...(difference && { difference }),
  };
}

/** As an entry is read from the database: without the fields that are undefined. */
function stored(difference: Difference): Difference {
  return JSON.parse(JSON.stringify(difference));
}

test('the operations that change access', () => {
  expect(accessOperations).toEqual([
    'application.create',
    'application.update',
    'application.quarantine',
    'application.release',
    'application.delete',
    'application.expire',
  ]);
  expect(expireOperation).toBe('application.expire');
});

describe('the recorded state', () => {
  const others = { id: 'a', tenant_id: 't', type: 'private', modified_at: later };

  test('of a new application has the fields that determine its access, as new values', () => {
    expect(createdState({ ...others, ...full } as unknown as Application)).toStrictEqual({
      name: { to: 'desk' },
      permissions: { to: ['log:read'] },
      rules: { to: [cards] },
      created_at: { to: created },
      expires_at: { to: expiry },
      quarantined_at: { to: later },
    });
  });

  test('of a removed application has them as old values, without those that it does not have', () => {
    const state = { ...others, ...plain, expires_at: undefined };
    expect(removedState(state)).toStrictEqual({
      name: { from: 'desk' },
      permissions: { from: ['log:read'] },
      rules: { from: [cards] },
      created_at: { from: created },
    });
  });
});

describe('the state before an entry', () => {
  test.each(['application.delete', 'application.expire'])('%s is the recorded one', (operation) => {
    for (const state of [plain, full])
      expect(stateBefore(undefined, entry(operation, stored(removedState(state))))).toStrictEqual(state);
  });

  test('application.create is the state after it', () => {
    const difference = stored(createdState(full as Application));
    expect(stateBefore(full, entry('application.create', difference))).toBe(full);
    expect(stateBefore(undefined, entry('application.create', difference))).toBeUndefined();
  });

  test.each<[string, Difference | undefined, ApplicationState, ApplicationState]>([
    ['no recorded change', undefined, full, full],
    ['a field without access', { description: { from: 'a', to: 'b' } }, full, full],
    ['a new name', { name: { from: 'old', to: 'desk' } }, full, { ...full, name: 'old' }],
    [
      'new grants',
      { permissions: { from: [], to: ['log:read'] }, rules: { from: [], to: [cards] } },
      full,
      { ...full, permissions: [], rules: [] },
    ],
    ['a new expiry', { expires_at: { from: later, to: expiry } }, full, { ...full, expires_at: later }],
    ['the first expiry', { expires_at: { to: expiry } }, { ...plain, expires_at: expiry }, plain],
    ['a removed expiry', { expires_at: { from: expiry } }, plain, { ...plain, expires_at: expiry }],
    ['a quarantine', { quarantined_at: { to: later } }, { ...plain, quarantined_at: later }, plain],
    ['a release', { quarantined_at: { from: later } }, plain, { ...plain, quarantined_at: later }],
    [
      'an expiry and a quarantine that are null',
      { expires_at: { from: null, to: expiry }, quarantined_at: { from: null, to: later } },
      full,
      plain,
    ],
  ])('an update with %s has the old values', (_, difference, after, before) => {
    const copy = structuredClone(after);
    expect(stateBefore(after, entry('application.update', difference))).toStrictEqual(before);
    expect(after).toEqual(copy);
  });

  test.each(['name', 'permissions', 'rules', 'created_at'] as const)(
    'is unknown if %s is not recorded',
    (field) => {
      const { [field]: _, ...rest } = stored(removedState(full));
      expect(stateBefore(undefined, entry('application.delete', rest))).toBeUndefined();
      expect(stateBefore(full, entry('application.expire', rest))).toBeUndefined();
      const onlyNew = { [field]: { to: full[field] } } as Difference;
      expect(stateBefore(full, entry('application.update', onlyNew))).toBeUndefined();
    },
  );

  test.each<[string, Difference]>([
    ['a name', { name: { from: 5 } }],
    ['permissions', { permissions: { from: ['Log Read'] } }],
    ['permissions that are no list', { permissions: { from: null } }],
    ['rules', { rules: { from: [{ ...cards, priority: 0 }] } }],
    ['rules that are no list', { rules: { from: 'all' } }],
    ['a time of creation', { created_at: { from: 0 } }],
  ])('is unknown if the entry has %s of an invalid form', (_, invalid) => {
    const removed = stored({ ...removedState(full), ...invalid });
    expect(stateBefore(undefined, entry('application.delete', removed))).toBeUndefined();
    expect(stateBefore(full, entry('application.update', stored(invalid)))).toBeUndefined();
  });

  test('is unknown if the state after an update is unknown, or a removal has no details', () => {
    const renamed = { name: { from: 'old', to: 'desk' } };
    expect(stateBefore(undefined, entry('application.update', renamed))).toBeUndefined();
    expect(stateBefore(full, entry('application.delete'))).toBeUndefined();
  });
});

describe('the policy at a time', () => {
  const [start, end] = [Date.parse(created), Date.parse(expiry)];
  const read = (state: ApplicationState, time: number) =>
    accessOf(policyAt(state, time), undefined, 'token:read', { container: '/cards/' });

  test.each<[string, Partial<ApplicationState>, number, string]>([
    ['before the creation', {}, start - 1, 'denied'],
    ['at the creation', {}, start, 'reveal'],
    ['long after the creation', {}, end * 2, 'reveal'],
    ['before the expiry', { expires_at: expiry }, end - 1, 'reveal'],
    ['at the expiry', { expires_at: expiry }, end, 'denied'],
    ['before the creation of an application that expires', { expires_at: expiry }, start - 1, 'denied'],
    ['in quarantine', { quarantined_at: later }, end, 'redact'],
    ['in quarantine, at the expiry', { quarantined_at: later, expires_at: expiry }, end, 'denied'],
  ])('%s', (_, fields, time, expected) => {
    expect<string>(read({ ...plain, ...fields }, time)).toBe(expected);
  });

  test('in quarantine has no permission to change data, and names the quarantine', () => {
    const [normal, limited] = [policyAt(plain, end), policyAt({ ...plain, quarantined_at: later }, end)];
    const update = [normal, limited].map((policy) =>
      accessOf(policy, undefined, 'token:update', { container: '/cards/' }),
    );
    expect(update).toEqual(['reveal', 'denied']);
    expect([normal.quarantined, limited.quarantined]).toEqual([undefined, 'application']);
  });
});
