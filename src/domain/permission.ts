import { z } from 'zod';
import { dedupe } from './dedupe.ts';

/**
 * The permissions that Sallyport itself checks.
 * - `management`: may be handed on only by who holds it (no escalation).
 * - `browser`: may live in a browser, so a public Application or a Session may hold it.
 * - `scoped`: is about data in a container, so the container or conditions of a rule narrow it.
 */
const table = {
  'application:create': [
    'Create Applications, and authorize Sessions for anything a Session may hold.',
    'management',
  ],
  'application:read': [
    'List and get Applications, and see which keys they have and what they use.',
    'management browser',
  ],
  'application:update': ['Change Applications, and make and delete their keys.', 'management'],
  'application:delete': ['Delete Applications.', 'management'],
  'session:authorize': ['Authorize Sessions for anything a Session may hold.', 'management'],
  'session:read': ['List Sessions, with what they may do and who authorized them.', 'management browser'],
  'session:delete': ['End Sessions.', 'management'],
  'token:create': ['Create Tokens.', 'browser scoped'],
  'token:read': ['List and get Tokens, as the transform shows them.', 'browser scoped'],
  'token:update': ['Change Tokens.', 'browser scoped'],
  'token:delete': ['Delete Tokens.', 'browser scoped'],
  'decision:create': ['Ask whether a credential may do something, and why.', 'browser'],
  'log:read': ['Read the audit log.', 'management browser'],
  'tenant:read': ['Read about the tenant.', 'management browser'],
} as const satisfies Record<string, readonly [sentence: string, traits: string]>;

export type BuiltIn = keyof typeof table;
type Trait = 'management' | 'browser' | 'scoped';

export const builtIn = Object.keys(table) as BuiltIn[];
const families = new Set(builtIn.map(familyOf));

export function descriptionOf(permission: BuiltIn): string {
  return table[permission][0];
}

/** Users' own permissions are free to hand on, may live anywhere, and are narrowed by rules. */
export function isA(trait: Trait, permission: string): boolean {
  return traits[trait].has(permission) || (trait !== 'management' && !Object.hasOwn(table, permission));
}

const having = (trait: Trait) => new Set<string>(builtIn.filter((name) => table[name][1].includes(trait)));
const traits = { management: having('management'), browser: having('browser'), scoped: having('scoped') };

function familyOf(permission: string): string {
  return permission.slice(0, permission.indexOf(':'));
}

const words = /^[a-z][a-z0-9_-]*(:[a-z][a-z0-9_-]*)+$/;

export const Permission = z
  .string()
  .max(100)
  .regex(words, 'must be lower-case words joined by colons, such as token:read')
  .refine((name) => !families.has(familyOf(name)) || Object.hasOwn(table, name), {
    error: (issue) =>
      `is not a permission of the family ${familyOf(String(issue.input))}: GET /permissions lists them`,
  })
  .describe('A built-in permission, or one of your own in a family of your own.');

export const maxPermissions = 50;
export const Permissions = z
  .array(Permission)
  .max(maxPermissions)
  .transform((names) => dedupe(names, (name) => name));
