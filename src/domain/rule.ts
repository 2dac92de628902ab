import { z } from 'zod';
import {
  containsNoSecret,
  DateTime,
  Description,
  dedupe,
  keep,
  line,
  optional,
  secretError,
  timestamp,
} from './common-fields.ts';
import { hasTrait, Permissions } from './permission.ts';

const path = /^(\/|\/?[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*\/?)$/;
const maxLength = 250;
/** Limited, because the store has an index entry for each level. */
const maxLevels = 16;

/** `/a/b/`. The leading and the trailing slash are optional; `/` is the root. Stored as given. */
export const Container = z
  .string()
  .superRefine((value, context) => {
    const error = containerError(value);
    if (error !== undefined) context.addIssue(error);
  })
  .meta({ maxLength, pattern: path.source });

function containerError(value: string): string | undefined {
  if (value.length > maxLength || canonicalContainer(value).length > maxLength)
    return `must have at most ${maxLength} characters, including a slash at each end`;
  if (!path.test(value)) return 'must be a path such as /pci/high/, with letters, digits, - and _';
  if (value.split('/').filter(Boolean).length > maxLevels) return `must have at most ${maxLevels} levels`;
  return containsNoSecret(value) ? undefined : secretError;
}

/** Matches a container that is already canonical: ASCII without upper-case letters, with a slash at each end. */
const canonical = /^\/(?:[^A-Z\u0080-\uffff]*\/)?$/;

/** The form in which containers are compared: lower case, with a slash at each end. */
export function canonicalContainer(container: string): string {
  if (canonical.test(container)) return container;
  const folded = container.toLowerCase();
  const opened = folded.startsWith('/') ? folded : `/${folded}`;
  return opened.endsWith('/') ? opened : `${opened}/`;
}

/** How much of a token's data a response contains, strictest first. */
const transforms = ['redact', 'mask', 'reveal'] as const;

export const Transform = z.enum(transforms);
export type Transform = z.infer<typeof Transform>;

/** Negative if `a` is stricter than `b`. */
export function compareTransforms(a: Transform, b: Transform): number {
  return transforms.indexOf(a) - transforms.indexOf(b);
}

export function stricter(a: Transform, b: Transform): Transform {
  return compareTransforms(a, b) <= 0 ? a : b;
}

/** Whether a rule reveals data only to requests that state a purpose. To others it shows the masked value. */
export function requiresPurpose({ transform, require_purpose }: Pick<Rule, 'transform' | 'require_purpose'>) {
  return transform === 'reveal' && require_purpose === true;
}

export const Condition = z
  .strictObject({
    attribute: z.enum(['id', 'container']).describe('Attribute of the token.'),
    operator: z
      .enum(['starts_with', 'equals'])
      .describe(
        'Containers are compared by whole segments, ignoring case: `starts_with` `/pci/` matches `/pci/high/`, but not `/pci-other/`.',
      ),
    value: line(1, 500).describe('Value to compare with. For `container`, a path such as `/pci/high/`.'),
  })
  .superRefine(({ attribute, value }, context) => {
    const message = attribute === 'container' ? containerError(value) : undefined;
    if (message !== undefined) context.addIssue({ code: 'custom', path: ['value'], message });
  })
  .meta({ id: 'AccessRuleCondition' });
export type Condition = z.infer<typeof Condition>;

/** `grantErrors` checks it, because this file is part of the console, which renders no templates. */
const Template = z
  .unknown()
  .transform((value): unknown => value ?? undefined)
  .optional();

/** The name or the id of a destination. */
export const DestinationReference = z
  .string()
  .regex(/^[a-z0-9-]{1,50}$/i, 'must be the name or the id of a destination')
  .transform((text) => text.toLowerCase());

/** A rule of an application or session. `grantErrors` checks whether it needs `container` or `conditions`. */
export const Rule = z
  .strictObject({
    description: optional(Description).describe('Purpose of the rule.'),
    priority: z
      .int('must be an integer of at least 1')
      .min(1)
      .max(2_147_483_647, 'must be at most 2147483647')
      .describe(
        'Among the matching rules, the one with the lowest priority decides. On a tie, the stricter transform decides, and `reveal` with `require_purpose` before `reveal`.',
      ),
    container: optional(Container).describe(
      'Applications only, and required there: the rule matches tokens in this container and below. A management application may omit it to match all tokens.',
    ),
    conditions: optional(z.array(Condition).min(1, 'must have at least one condition').max(20)).describe(
      'Sessions only, and required there: the rule matches tokens that meet all conditions.',
    ),
    transform: Transform.describe(
      'How much of the data is returned. `redact`: no data. `mask`: the masked value, or no data if the token has no mask. `reveal`: the plaintext.',
    ),
    require_purpose: optional(z.boolean())
      .transform((value) => value || undefined)
      .optional()
      .describe(
        'Only with `reveal`: whether a request must state its purpose in `SVC-PURPOSE` to get the plaintext. Without it, the rule still decides, but the response has the masked value.',
      ),
    destinations: optional(
      z
        .array(DestinationReference)
        .min(1, 'must name at least one destination')
        .max(20)
        .transform((ids) => dedupe(ids, (id) => id)),
    )
      .optional()
      .describe(
        'Only with `token:use`, and required there: the destinations where the tokens may be used. Requests may contain names; ids are stored and returned. Other permissions of the rule do not depend on them.',
      ),
    defaults: optional(
      z.strictObject({
        mask: Template.describe('A mask, as `mask` of a token.'),
        search: Template.meta({
          type: 'object',
          additionalProperties: { type: 'string' },
          description: 'Templates, as `search` of a token.',
        }),
      }),
    )
      .optional()
      .describe(
        'Only with `token:create`: the `mask` and `search` of tokens that are created by this rule without them. Rules with the same priority that grant `token:create` must have the same defaults.',
      ),
    expires_at: optional(DateTime.transform(timestamp).meta({ format: 'date-time' }))
      .optional()
      .describe(
        'Applications only: when the rule ends. From then on it is absent everywhere. Must be in the future in a new application; an update drops rules that have ended. If absent, the rule does not end.',
      ),
    permissions: Permissions.refine((names) => names.length > 0, 'must name at least one permission').meta({
      minItems: 1,
      description: 'Permissions that the rule grants.',
    }),
  })
  .refine(({ transform, require_purpose }) => !require_purpose || transform === 'reveal', {
    path: ['require_purpose'],
    error: 'is only for rules with the transform reveal',
  })
  .refine(({ permissions, defaults }) => !defaults || permissions.includes('token:create'), {
    path: ['defaults'],
    error: 'is only for rules that grant token:create',
  })
  .superRefine(({ permissions, destinations }, context) => {
    const isNeeded = permissions.some((name) => hasTrait(name, 'destination'));
    if (isNeeded === (destinations !== undefined)) return;
    const message = isNeeded
      ? 'is required in a rule that grants token:use'
      : 'is only for rules that grant token:use';
    context.addIssue({ code: 'custom', path: ['destinations'], message });
  })
  .meta({ id: 'AccessRule' });
export type Rule = z.infer<typeof Rule>;

/** When the rule ends, in milliseconds. */
export function endOfRule({ expires_at }: Pick<Rule, 'expires_at'>): number {
  return expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(expires_at);
}

/** The rules that have not ended at the time `now`. All of them are returned as the same list. */
export function currentRules<R extends Pick<Rule, 'expires_at'>>(rules: R[], now: number): R[] {
  const isCurrent = (rule: R) => endOfRule(rule) > now;
  return rules.every(isCurrent) ? rules : keep(rules, isCurrent);
}

/** When the first of the rules ends, and the last of those that end. Null if none ends. */
export function endsOfRules(rules: readonly Pick<Rule, 'expires_at'>[]) {
  const ends = rules.map(endOfRule).filter(Number.isFinite);
  if (ends.length === 0) return { first: null, last: null };
  return { first: Math.min(...ends), last: Math.max(...ends) };
}

export const maxRules = 50;
export const Rules = z
  .array(Rule)
  .max(maxRules)
  .transform((rules) => dedupe(rules, (rule) => JSON.stringify(rule)));
