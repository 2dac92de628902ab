import { z } from 'zod';
import {
  changeFields,
  containsNoSecret,
  DateTime,
  isWellFormed,
  label,
  mapOf,
  normalizedField,
  optional,
  readOnly,
  readOnlyErrorsOf,
  secretError,
  Text,
  text,
  Uuid,
} from './common-fields.ts';
import { type Errors, throwIfInvalid } from './error.ts';
import { jsonLimitError } from './json-limits.ts';
import { JsonText } from './json-text.ts';
import { Mask, templateProblem } from './mask.ts';
import { Container, canonicalContainer } from './rule.ts';
import { SearchName, SearchTemplates } from './search.ts';

export const maxTokenBytes = 1_048_576;

const maxTokenUses = 100;

/** Any JSON except null, which means absent. It comes from the JSON parser, so its structure is not checked again. */
export const Data = z
  .unknown()
  .refine((value) => value !== undefined && value !== null, { error: 'is required', abort: true })
  .transform((value, context) => {
    const json = JsonText.of(value);
    // Merging a patch can produce data with more values than a body may have.
    const error = fits(json) ? jsonLimitError(json.text) : `must have at most ${maxTokenBytes} bytes as JSON`;
    if (error !== undefined) context.addIssue(error);
    else if (loneSurrogate.test(json.text) && !isWellFormed(value))
      context.addIssue('must be well-formed Unicode throughout');
    return { value, json };
  })
  .describe('The sensitive data: any JSON except null. Stored encrypted.');

/** A cheap first check: the JSON escape of a lone surrogate, or other text that looks like it. */
const loneSurrogate = /\\ud[89a-f]/;

/** Needed although request bodies are limited: merging a patch can produce larger data. */
function fits({ text }: JsonText): boolean {
  return text.length * 3 <= maxTokenBytes || Buffer.byteLength(text) <= maxTokenBytes;
}

export const TokenId = z.string().regex(/^[A-Za-z0-9._:-]{3,200}$/, {
  error: 'must have 3 to 200 characters: A-Z, a-z, 0-9, ".", "_", ":" and "-"',
  abort: true,
});

export const TokenType = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,99}$/,
    'must have 1 to 100 lower-case letters, digits, - and _, and start with a letter',
  );

const MetadataName = label(1, 100);
const MetadataValue = text(0, 500).regex(/^[^\0]*$/u, 'must not contain NUL');
const metadataSchema = { type: 'object', additionalProperties: { type: 'string', maxLength: 500 } };
export const Metadata = mapOf(50, MetadataName, MetadataValue).meta({ ...metadataSchema, maxProperties: 50 });
export type Metadata = z.infer<typeof Metadata>;

/** The `metadata[NAME]=VALUE` filters of a list. */
export const MetadataFilter = mapOf(10, MetadataName, MetadataValue).meta({
  ...metadataSchema,
  maxProperties: 10,
});

/** A token in responses. The caller's transform decides about `data`. */
export const Token = z
  .object({
    id: Text.describe('Identifier of the token, unique within the tenant.'),
    tenant_id: Uuid.describe('The tenant that the token belongs to.'),
    type: Text.describe('Type of the token, such as `card`.'),
    container: Text.describe('Path of the container. Access rules refer to it.'),
    data: z
      .unknown()
      .optional()
      .describe(
        'The plaintext with the transform `reveal`, the masked value with `mask`, absent with `redact`.',
      ),
    mask: z.unknown().optional().describe('The mask template.'),
    search: z.record(z.string(), z.string()).optional().describe('The search templates, by name.'),
    written_by: z
      .object({
        kind: z
          .enum(['private', 'public', 'management', 'session', 'delegation'])
          .describe('The kind of its key.'),
        application_id: Uuid.describe('The application, or that of the session or delegation.'),
      })
      .optional()
      .describe(
        'Who last wrote `data` and `search`, and so chose the values by which a search finds the token. Absent without `search`, and if parts were written by others.',
      ),
    metadata: z.record(z.string(), z.string()).optional().describe('Unencrypted names and values.'),
    max_uses: z
      .int()
      .optional()
      .describe('How many requests to destinations can use the token. Absent if unlimited.'),
    uses: z.int().optional().describe('How many have used it. Absent if unlimited.'),
    ...changeFields,
  })
  .meta({ id: 'Token' });
export type Token = z.infer<typeof Token>;

export const defaultType = 'token';
export const defaultContainer = '/general/';

export const TokenContentFields = z.strictObject({
  type: optional(TokenType).describe(
    `Type of the token, such as \`card\`: lower-case letters, digits, \`-\` and \`_\`. \`${defaultType}\` by default.`,
  ),
  container: optional(Container).describe(
    `Path of the container, such as \`/customers/42/\`. Access rules refer to it. \`${defaultContainer}\` by default.`,
  ),
  containers: optional(
    z
      .unknown()
      .refine((list) => !Array.isArray(list) || list.length === 1, {
        error: 'must have exactly one entry: a token is in one container',
        abort: true,
      })
      .pipe(z.array(Container))
      .meta({ type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 1 }),
  ).describe('A synonym for `container`: a list with one path. Responses have `container` only.'),
  data: Data,
  mask: optional(Mask),
  search: optional(SearchTemplates),
  metadata: optional(Metadata).describe('Names and values for filtering lists. Stored unencrypted.'),
  max_uses: optional(z.int().min(1).max(maxTokenUses)).describe(
    `How many requests to destinations can use the token, 1 to ${maxTokenUses}. It is deleted with the last one. Reads return at most the masked value. Cannot be changed later, and not be combined with \`search\`.`,
  ),
  expires_at: optional(DateTime).describe(
    'When the token expires. Must be in the future. If absent, it never expires.',
  ),
});

type Templates = Partial<Pick<z.output<typeof TokenContentFields>, 'mask' | 'search'>>;

/** Reports broken templates beside errors of other fields. Without such errors, rendering reports them. */
export function withTemplates<S extends z.ZodType<Templates>>(schema: S): S {
  return schema.superRefine(
    (fields, { issues, addIssue }) => {
      for (const name of ['mask', 'search'] as const) {
        if (issues.some(({ path }) => path?.[0] === name)) continue;
        const templates = name === 'mask' ? [['mask', fields.mask]] : Object.entries(fields.search ?? {});
        for (const [at, template] of templates as [string, unknown][]) {
          const message = templateProblem(template);
          const path = name === 'mask' ? [name] : [name, at];
          if (message !== undefined) addIssue({ code: 'custom', path, message });
        }
      }
    },
    { when: ({ issues, value }) => issues.length > 0 && isObject(value) },
  );
}

export const TokenCreate = withTemplates(
  TokenContentFields.extend({
    id: optional(TokenId.refine(containsNoSecret, secretError)).describe(
      'Identifier of the token: 3 to 200 characters of `A-Za-z0-9._:-`. If absent, one is generated.',
    ),
    unless_exists: optional(SearchName).describe(
      'A name in `search`. If the container already has a token with the same value, that token is returned instead of a new one. Also requires `token:search` and `token:read` for the whole container.',
    ),
  }),
).meta({ id: 'TokenCreate' });
export type TokenCreate = z.infer<typeof TokenCreate>;

const ReadOnlyText = readOnly({ type: 'string' });
const ReadOnlyId = readOnly({ type: 'string', format: 'uuid' });
const ReadOnlyDateTime = readOnly({ type: 'string', format: 'date-time' });
const ReadOnlyCount = readOnly({ type: 'integer' });
const readOnlyFields = {
  id: ReadOnlyText,
  tenant_id: ReadOnlyId,
  type: ReadOnlyText,
  container: ReadOnlyText,
  written_by: readOnly({ type: 'object', additionalProperties: { type: 'string' } }),
  max_uses: ReadOnlyCount,
  uses: ReadOnlyCount,
  created_by: ReadOnlyId,
  created_at: ReadOnlyDateTime,
  modified_by: ReadOnlyId,
  modified_at: ReadOnlyDateTime,
};

export const TokenReplace = withTemplates(
  TokenContentFields.omit({ containers: true }).extend(readOnlyFields),
).meta({ id: 'TokenReplace' });
export type TokenReplace = z.infer<typeof TokenReplace>;

/** Errors for read-only fields whose value differs from that of the token. */
export function readOnlyErrors(current: Omit<Token, 'data'>, sent: TokenReplace): Errors {
  const isSame = (field: keyof typeof readOnlyFields) => {
    const value = field === 'container' ? canonicalOf(sent[field]) : normalizedField(field, sent[field]);
    const stored = field === 'container' ? canonicalContainer(current.container) : current[field];
    return JSON.stringify(value) === JSON.stringify(stored);
  };
  const fields = Object.keys(readOnlyFields) as (keyof typeof readOnlyFields)[];
  return readOnlyErrorsOf(fields.filter((field) => sent[field] !== undefined && !isSame(field)));
}

function canonicalOf(container: unknown): unknown {
  return typeof container === 'string' ? canonicalContainer(container) : container;
}

export const maxBatch = 100;

/** Its items are validated one by one, so that the process handles other requests in between. */
export const TokenBatch = z
  .strictObject({
    tokens: z
      .array(z.unknown())
      .min(1)
      .max(maxBatch)
      .meta({ items: { $ref: '#/components/schemas/TokenCreate' } })
      .describe(`1 to ${maxBatch} tokens, each as the body of \`POST /tokens\`.`),
  })
  .meta({ id: 'TokenBatch' });

/** The container from `container` or its synonym `containers`. Throws `validation_failed` if they differ. */
export function containerOf({
  container,
  containers,
}: Pick<z.output<typeof TokenContentFields>, 'container' | 'containers'>): string | undefined {
  const [synonym] = containers ?? [];
  if (container === undefined || synonym === undefined) return container ?? synonym;
  if (canonicalContainer(container) !== canonicalContainer(synonym))
    throwIfInvalid({ containers: ['must name the same container as `container`'] });
  return container;
}

/** Any JSON. The patched token is validated like a new one. */
const Patched = z.unknown().optional();

/** A JSON merge patch (RFC 7396). */
export const TokenPatch = z
  .strictObject({
    type: Patched.meta({ type: ['string', 'null'], description: 'New type. `null` sets the default.' }),
    container: Patched.meta({
      type: ['string', 'null'],
      description: 'New container. `null` sets the default.',
    }),
    containers: Patched.meta({
      type: ['array', 'null'],
      items: { type: 'string' },
      description: 'A synonym for `container`: a list with one path.',
    }),
    data: Patched.meta({ description: 'New data. An object is merged into existing object data.' }),
    mask: Patched.meta({ description: 'New mask. `null` removes it.' }),
    search: Patched.meta({
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'null'] },
      description: 'Search templates to set. One with the value `null` is removed; `null` removes all.',
    }),
    metadata: Patched.meta({
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'null'], maxLength: 500 },
      description: 'Entries to set. An entry with the value `null` is removed; `null` removes all.',
    }),
    expires_at: Patched.meta({
      type: ['string', 'null'],
      format: 'date-time',
      description: 'New expiry, in the future. `null` removes it.',
    }),
  })
  .refine((patch) => Object.keys(patch).length > 0, 'must contain at least one field')
  .meta({ id: 'TokenPatch', minProperties: 1 });
export type TokenPatch = z.infer<typeof TokenPatch>;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON merge patch (RFC 7396): null removes a field, an object is merged, any other value replaces. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name);
    else merged.set(name, mergePatch(merged.get(name), value));
  }
  return Object.fromEntries(merged);
}
