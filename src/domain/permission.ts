import { z } from 'zod';
import { dedupe } from './common-fields.ts';

/**
 * The permissions that Sallyport checks, with their traits.
 * - `management`: only a holder may give it to an application (no escalation).
 * - `browser`: may also be granted to public applications and sessions, not only to private and management ones.
 * - `session`: may be granted to sessions, but not to public applications.
 * - `destination`: granted only by rules, which name the destinations where it applies.
 * - `scoped`: applies to data in a container, so the container or conditions of a rule limit it.
 * - `read`: can be used in quarantine, because it changes no data and returns no plaintext there.
 */
const table = {
  'application:create': [
    'Create applications. Authorize sessions with any permission that a session may have.',
    'management',
  ],
  'application:read': ['List and get applications, their keys and their usage.', 'management browser read'],
  'application:update': ['Update applications. Create, regenerate and delete their keys.', 'management'],
  'application:delete': ['Delete applications.', 'management'],
  'session:authorize': ['Authorize sessions with any permission that a session may have.', 'management'],
  'session:read': ['List sessions, with their access and who authorized them.', 'management browser read'],
  'session:delete': ['End sessions, and put them into quarantine.', 'management'],
  'token:create': ['Create tokens.', 'browser scoped'],
  'token:read': [
    'List and get tokens. The transform decides how much of the data is returned.',
    'browser scoped read',
  ],
  'token:update': ['Update tokens.', 'browser scoped'],
  'token:delete': ['Delete tokens.', 'browser scoped'],
  'token:use': ['Send the data of tokens to destinations, without seeing it.', 'session scoped destination'],
  'token:search': ['Find the tokens that you can read by an exact value.', 'session scoped'],
  'destination:create': ['Create destinations.', 'management'],
  'destination:read': ['List and get destinations, without their secrets.', 'management read'],
  'destination:update': ['Update destinations.', 'management'],
  'destination:delete': ['Delete destinations.', 'management'],
  'decision:create': ['Check whether a key may use a permission on a resource.', 'browser read'],
  'access:review': ['Find out who has access to a container, a token or a resource.', 'management read'],
  'log:read': ['Read the audit log, and the number of requests.', 'management read'],
  'tenant:read': ['Get the tenant.', 'management read'],
} as const satisfies Record<string, readonly [description: string, traits: string]>;

export type BuiltIn = keyof typeof table;
type Trait = 'management' | 'browser' | 'session' | 'destination' | 'scoped' | 'read';

export const builtIn = Object.keys(table) as BuiltIn[];
const families = new Set(builtIn.map(familyOf));

export function descriptionOf(permission: BuiltIn): string {
  return table[permission][0];
}

/** Custom permissions have the traits `browser` and `scoped`, and `read` if they end with `:read`. */
export function hasTrait(permission: string, trait: Trait): boolean {
  if (Object.hasOwn(table, permission)) return table[permission as BuiltIn][1].includes(trait);
  if (trait === 'read') return permission.endsWith(':read');
  return trait !== 'management' && trait !== 'destination';
}

function familyOf(permission: string): string {
  return permission.slice(0, permission.indexOf(':'));
}

const words = /^[a-z][a-z0-9_-]*(:[a-z][a-z0-9_-]*)+$/;

export const Permission = z
  .string()
  .max(100)
  .regex(words, { error: 'must be lower-case words joined by colons, such as token:read', abort: true })
  .refine((name) => !families.has(familyOf(name)) || Object.hasOwn(table, name), {
    error: (issue) => {
      const family = familyOf(String(issue.input));
      const known = builtIn.filter((name) => familyOf(name) === family);
      return `is unknown: the ${family} permissions are ${known.join(', ')}`;
    },
  })
  .describe('A built-in permission, or a custom one whose first word is not used by the built-in ones.');

const maxPermissions = 50;
export const Permissions = z
  .array(Permission)
  .max(maxPermissions)
  .transform((names) => dedupe(names, (name) => name));
