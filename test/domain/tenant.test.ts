import { expect, test } from 'bun:test';
import { Tenant } from '../../src/domain/tenant.ts';

const tenant = {
  id: '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d',
  name: 'one',
  created_at: '2026-01-01T00:00:00.000Z',
  applications: 3,
};

test('the number of applications is optional, all other fields are required', () => {
  const { applications: _, ...required } = tenant;
  expect(Tenant.parse(tenant)).toEqual(tenant);
  expect(Tenant.parse(required)).toEqual(required);
  for (const name of Object.keys(required))
    expect(Tenant.safeParse({ ...tenant, [name]: undefined }).success).toBe(false);
});

test('the number of applications is not negative', () => {
  expect(Tenant.safeParse({ ...tenant, applications: 0 }).success).toBe(true);
  for (const applications of [-1, 1.5])
    expect(Tenant.safeParse({ ...tenant, applications }).success).toBe(false);
});
