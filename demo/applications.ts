/** The applications of a small bookshop, each with the least access that it needs. */
import type { AccessRule, ApplicationCreate } from '../sdk/src/sallyport.ts';

type Transform = AccessRule['transform'];

function rule(container: string, transform: Transform, permissions: string[], description: string) {
  return { priority: 1, container, transform, permissions, description };
}

/** The shop page's key works only on pages from `origins`. */
export function applications(origins: string[], now: number): ApplicationCreate[] {
  const inDays = (days: number) => new Date(now + days * 86_400_000).toISOString();
  return [
    {
      name: 'shop page',
      type: 'public',
      allowed_origins: origins,
      rules: [rule('/incoming/', 'redact', ['token:create'], 'Stores what customers enter, cannot read it')],
    },
    {
      name: 'shop backend',
      type: 'private',
      rules: [
        rule(
          '/customers/',
          'reveal',
          ['token:read', 'token:create', 'token:update'],
          'Manages customer data',
        ),
        rule('/incoming/', 'reveal', ['token:update', 'token:delete'], 'Moves incoming data to the customer'),
      ],
    },
    {
      name: 'mobile app',
      type: 'public',
      rules: [rule('/incoming/', 'redact', ['token:create'], 'Same as the shop page')],
    },
    {
      name: 'kiosk at the book fair',
      type: 'public',
      expires_at: inDays(5),
      rules: [rule('/incoming/', 'redact', ['token:create'], 'Same as the shop page, until the fair ends')],
    },
    {
      name: 'help desk',
      type: 'private',
      rules: [rule('/customers/', 'mask', ['token:read'], 'Identifies a card by its last four digits')],
    },
    {
      name: 'payments worker',
      type: 'private',
      rules: [
        rule('/customers/identity/', 'redact', ['token:read'], 'Does not need identities'),
        { ...rule('/customers/', 'reveal', ['token:read'], 'Charges cards'), priority: 2 },
      ],
    },
    {
      name: 'parcel labels',
      type: 'private',
      rules: [rule('/addresses/', 'reveal', ['token:read'], 'Prints addresses')],
    },
    {
      name: 'invoice service',
      type: 'private',
      permissions: ['decision:create'],
      rules: [rule('/customers/', 'mask', ['invoice:read', 'invoice:write'], 'Protects its own invoices')],
    },
    {
      name: 'payroll',
      type: 'private',
      rules: [rule('/staff/', 'reveal', ['token:read', 'token:update'], 'Pays employees')],
    },
    {
      name: 'nightly report',
      type: 'private',
      expires_at: inDays(41),
      rules: [rule('/customers/', 'redact', ['token:read'], 'Counts tokens without reading data')],
    },
    {
      name: 'deploy bot',
      type: 'management',
      permissions: ['application:read', 'application:update', 'tenant:read'],
    },
    { name: 'auditor', type: 'management', permissions: ['log:read', 'application:read'] },
  ];
}

/** Sends cards to the payment provider, and can read none. */
export function chargingApplication(destination: string): ApplicationCreate {
  const charges = rule('/customers/', 'redact', ['token:use'], 'Charges cards that it cannot read');
  return { name: 'checkout', type: 'private', rules: [{ ...charges, destinations: [destination] }] };
}
