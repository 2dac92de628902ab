import { z } from 'zod';
import { containsNoSecret, Description, line, optional, secretError } from './common-fields.ts';
import { dedupe } from './dedupe.ts';
import { Permissions } from './permission.ts';
import { Transform } from './transform.ts';

const path = /^(\/|\/?[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*\/?)$/;
const notPath = 'must be a path such as /pci/high/ of letters, digits, - and _';

const maxLength = 250;
const maxLevels = 16;
const tooLong = `must have at most ${maxLength} characters with a slash at each end`;
const tooDeep = `must have at most ${maxLevels} levels`;

/** `/a/b/`; a missing leading or trailing slash is understood, `/` alone is the root. Kept as given. */
export const Container = z
  .string()
  .refine(isShort, { error: tooLong, abort: true })
  .regex(path, { error: notPath, abort: true })
  .refine(isShallow, tooDeep)
  .refine(containsNoSecret, secretError)
  .meta({ maxLength, pattern: path.source });

function isShort(container: string): boolean {
  return container.length <= maxLength && canonicalContainer(container).length <= maxLength;
}

function containerError(value: string): string | undefined {
  if (!isShort(value)) return tooLong;
  if (!path.test(value)) return notPath;
  return isShallow(value) ? undefined : tooDeep;
}

/** A token has an index entry for each level. */
function isShallow(container: string): boolean {
  return container.split('/').filter(Boolean).length <= maxLevels;
}

/** No capital letter, and nothing beyond ASCII, of which some has a lower case, too. */
const canonical = /^\/(?:[^A-Z\u0080-\uffff]*\/)?$/;

/** The form in which containers are compared: lower case, a slash at each end. Most are in it as they are. */
export function canonicalContainer(container: string): string {
  if (canonical.test(container)) return container;
  const folded = container.toLowerCase();
  const opened = folded.startsWith('/') ? folded : `/${folded}`;
  return opened.endsWith('/') ? opened : `${opened}/`;
}

export const Condition = z
  .strictObject({
    attribute: z.enum(['id', 'container']).describe('What of the Token is looked at.'),
    operator: z
      .enum(['starts_with', 'equals'])
      .describe('How it is compared. Containers are compared by whole segments, ignoring case.'),
    value: line(1, 500).describe('What it is compared with: for `container`, a path such as `/pci/high/`.'),
  })
  .superRefine(({ attribute, value }, context) => {
    const wrong = attribute === 'container' ? containerError(value) : undefined;
    if (wrong !== undefined) context.addIssue({ code: 'custom', path: ['value'], message: wrong });
  })
  .meta({ id: 'AccessRuleCondition' });
export type Condition = z.infer<typeof Condition>;

/** One shape for all owners; which of `container` and `conditions` an owner must have, grant.ts says. */
export const Rule = z
  .strictObject({
    description: optional(Description).describe('What the rule is for.'),
    priority: z
      .int('must be an integer of at least 1')
      .min(1)
      .max(2_147_483_647, 'must be at most 2147483647')
      .describe('Of the rules that match, the one with the lowest decides.'),
    container: optional(Container).describe(
      'Applications only: the rule is about the Tokens in this container and below. Management Applications may leave it out, which means all of them.',
    ),
    conditions: optional(z.array(Condition).min(1, 'must have at least one condition').max(20)).describe(
      'Sessions only: the rule is about the Tokens of which all of this holds.',
    ),
    transform: Transform.describe(
      'What a reply shows of the data. `redact`: nothing. `mask`: its mask, or nothing where there is none. `reveal`: all of it.',
    ),
    permissions: Permissions.refine((names) => names.length > 0, 'must name at least one permission').meta({
      minItems: 1,
      description: 'What the rule grants.',
    }),
  })
  .meta({ id: 'AccessRule' });
export type Rule = z.infer<typeof Rule>;

export const maxRules = 50;
export const Rules = z
  .array(Rule)
  .max(maxRules)
  .transform((rules) => dedupe(rules, (rule) => JSON.stringify(rule)));
