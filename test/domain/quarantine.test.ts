import { expect, test } from 'bun:test';
import { isRead, quarantined } from '../../src/domain/quarantine.ts';
import { grants, rule } from '../support/grants.ts';

test.each([
  ['token:read', true],
  ['application:read', true],
  ['invoice:read', true],
  ['invoice:line:read', true],
  ['access:review', true],
  ['decision:create', true],
  ['token:create', false],
  ['token:update', false],
  ['session:authorize', false],
  ['invoice:review', false],
  ['invoice:create', false],
  ['invoice:read:all', false],
  ['invoice:spread', false],
])('%s can be used in quarantine: %p', (permission, expected) => {
  expect(isRead(permission)).toBe(expected);
});

test('permissions to read remain, and every rule redacts', () => {
  const before = grants(
    'token:delete',
    'log:read',
    {
      container: '/a/',
      transform: 'reveal',
      permissions: ['token:read', 'token:update'],
      description: 'Desk',
    },
    { container: '/b/', transform: 'mask', priority: 7, permissions: ['invoice:read'] },
  );
  const copy = structuredClone(before);
  expect(quarantined(before)).toEqual({
    permissions: ['log:read'],
    rules: [
      rule({ container: '/a/', transform: 'redact', permissions: ['token:read'], description: 'Desk' }),
      rule({ container: '/b/', transform: 'redact', priority: 7, permissions: ['invoice:read'] }),
    ],
    quarantined: 'application',
  });
  expect(before).toEqual(copy);
});

test('the numbers of rules do not change, even if none of their permissions remain', () => {
  const before = grants(
    { container: '/a/', permissions: ['token:delete'] },
    { container: '/b/', permissions: ['token:read'] },
  );
  expect(quarantined(before, 'session')).toEqual({
    permissions: [],
    rules: [
      rule({ container: '/a/', transform: 'redact', permissions: [] }),
      rule({ container: '/b/', transform: 'redact' }),
    ],
    quarantined: 'session',
  });
});
