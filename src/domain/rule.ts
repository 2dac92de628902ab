import { z } from 'zod';
import { Description, optional, text } from './field.ts';
import { Permissions } from './permission.ts';
import { Transform } from './transform.ts';

/** `/a/b/`; a missing leading or trailing slash is understood, `/` alone is the root. Kept as given. */
export const Container = z
  .string()
  .max(500)
  .regex(
    /^(\/|\/?[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*\/?)$/,
    'must be a path such as /pci/high/ of letters, digits, - and _',
  );

/** The form in which containers are compared: lower case, a slash at each end. */
export function canonicalContainer(container: string): string {
  const inner = container.toLowerCase().replace(/^\/|\/$/g, '');
  return inner === '' ? '/' : `/${inner}/`;
}

export const Condition = z
  .strictObject({
    attribute: z.enum(['id', 'container']),
    operator: z.enum(['starts_with', 'equals']),
    value: text(1, 500),
  })
  .superRefine(({ attribute, value }, context) => {
    if (attribute !== 'container') return;
    for (const issue of Container.safeParse(value).error?.issues ?? []) {
      context.addIssue({ code: 'custom', path: ['value'], message: issue.message });
    }
  });
export type Condition = z.infer<typeof Condition>;

/** One shape for all owners; which of `container` and `conditions` an owner must have, grant.ts says. */
export const Rule = z
  .strictObject({
    description: optional(Description).describe('What the rule is for.'),
    priority: z
      .int('must be an integer of at least 1')
      .min(1, 'must be an integer of at least 1')
      .max(2_147_483_647)
      .describe('Among rules that match, the lowest decides.'),
    container: optional(Container).describe(
      'The Tokens the rule is about: those in this container and below.',
    ),
    conditions: optional(z.array(Condition).min(1, 'must have at least one condition').max(20)).describe(
      'Sessions only: what must hold of a Token, all of it.',
    ),
    transform: Transform.describe('What is left of the data: nothing, its mask, or all of it.'),
    permissions: Permissions.refine((names) => names.length > 0, 'must name at least one permission'),
  })
  .meta({ id: 'AccessRule' });
export type Rule = z.infer<typeof Rule>;

export const rulesLimit = 50;
export const Rules = z.array(Rule).max(rulesLimit).transform(withoutTwins);

function withoutTwins<T>(rules: T[]): T[] {
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}
