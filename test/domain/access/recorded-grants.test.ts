import { describe, expect, test } from 'bun:test';
import { recordedGrants } from '../../../src/domain/access/history.ts';
import { type Difference, difference } from '../../../src/domain/audit.ts';
import { noGrants } from '../../../src/domain/grant.ts';
import { grants } from '../../support/grants.ts';

const before = grants('token:read', { container: '/pci/' });
const after = grants('token:create', { container: '/customers/', transform: 'mask' });
const recorded = (from = before, to = after) => difference(from, to, ['permissions', 'rules']);

describe('the grants in an audit entry', () => {
  test('are those before and after the change', () => {
    expect(recordedGrants(recorded(), 'from')).toEqual(before);
    expect(recordedGrants(recorded(), 'to')).toEqual(after);
  });

  test.each([
    ['permissions', grants('token:read')],
    ['rules', grants({ container: '/pci/' })],
  ])('of a new session that has only %s are complete', (_, granted) => {
    expect(recordedGrants(recorded(noGrants, granted), 'to')).toEqual(granted);
  });

  const { permissions, rules } = recorded();
  test.each<[string, Difference | undefined]>([
    ['without changed fields', undefined],
    ['with an invalid permission', { permissions: { to: ['token:fly'] }, rules: rules! }],
    ['with permissions that are not a list', { permissions: { to: 'token:read' }, rules: rules! }],
    ['with an invalid rule', { permissions: permissions!, rules: { to: [{ priority: 0 }] } }],
    ['with invalid permissions and rules', { permissions: { to: 1 }, rules: { to: 1 } }],
  ])('%s are unknown', (_, entry) => {
    expect(recordedGrants(entry, 'to')).toBeUndefined();
  });
});
