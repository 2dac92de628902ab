import { builtIn } from '../../../src/domain/permission.ts';

/** Operations that do not have the name of a permission. */
const others = [
  'access.report',
  'application.key.create',
  'application.key.delete',
  'application.quarantine',
  'application.regenerate',
  'application.release',
  'person.sign_in',
  'person.sign_out',
  'delegation.create',
  'key.break_glass',
  'key.exchange',
  'key.expiring',
  'session.create',
  'session.quarantine',
  'session.release',
  'tenant.create',
  'tenant.rename',
];

/** Operations that the service writes to the audit log of a tenant. Reports of other services can have other names. */
export const operations: readonly string[] = [
  ...builtIn.map((name) => name.replace(':', '.')),
  ...others,
].sort();
