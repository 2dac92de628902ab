import { z } from 'zod';
import {
  containsNoSecret,
  DateTime,
  isWellFormed,
  label,
  optional,
  secretError,
  Timestamp,
  text,
} from './common-fields.ts';
import { JsonText } from './json-text.ts';
import { Mask } from './mask.ts';
import { Container } from './rule.ts';

export const maxTokenBytes = 1_048_576;

/**
 * Stored tokens are counted in units of this many bytes. An exact count would tell a caller that replaces data the
 * size of data that it cannot see.
 */
export const storageUnit = 4096;

export function storedSize(bytes: number): number {
  return Math.ceil(bytes / storageUnit) * storageUnit;
}

/** Any JSON but null, which means absent. It comes out of a parser, so that it is JSON need not be looked at. */
export const Data = z
  .unknown()
  .refine((value) => value !== undefined && value !== null, { error: 'is required', abort: true })
  .transform((value, context) => {
    const json = JsonText.of(value);
    if (!fits(json)) context.addIssue(`must have at most ${maxTokenBytes} bytes as JSON`);
    else if (loneSurrogate.test(json.text) && !isWellFormed(value))
      context.addIssue('must be well-formed Unicode throughout');
    return { value, json };
  })
  .describe('What is kept secret: any JSON but null.');

/** How JSON writes half a character, or a text that looks like it. */
const loneSurrogate = /\\ud[89a-f]/;

/** A body is no larger anyway, but patches could add up to more. */
function fits({ text }: JsonText): boolean {
  return text.length * 3 <= maxTokenBytes || Buffer.byteLength(text) <= maxTokenBytes;
}

export const TokenId = z
  .string()
  .regex(/^[A-Za-z0-9._:-]{3,200}$/, 'must have 3 to 200 characters of A-Z, a-z, 0-9, ".", "_", ":" and "-"');

export const TokenType = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,99}$/,
    'must be a word of at most 100 lower-case letters, digits, - and _, and begin with a letter',
  );

const MetadataName = label(1, 100);
const MetadataValue = text(0, 500).regex(/^[^\0]*$/u, 'must not contain NUL');
/** The number of entries first, so that no more of them are looked at than there may be. */
export const Metadata = z
  .unknown()
  .refine((entries) => !Object.hasOwn(Object(entries), '__proto__'), 'must not have an entry __proto__')
  .refine((entries) => hasAtMost(entries, 50), 'must have at most 50 entries')
  .pipe(z.record(MetadataName, MetadataValue))
  .meta({ type: 'object', maxProperties: 50, additionalProperties: { type: 'string', maxLength: 500 } });
export type Metadata = z.infer<typeof Metadata>;

/** A list may ask for so many entries at once. */
export const MetadataFilter = Metadata.refine(
  (entries) => hasAtMost(entries, 10),
  'must have at most 10 entries in a filter',
).meta({ type: 'object', maxProperties: 10, additionalProperties: { type: 'string', maxLength: 500 } });

function hasAtMost(entries: unknown, count: number): boolean {
  return typeof entries !== 'object' || entries === null || Object.keys(entries).length <= count;
}

/** A Token as responses show it. What `data` holds, if it is there, is up to the caller's transform. */
export const Token = z
  .object({
    id: z.string().describe('Unique within the tenant.'),
    tenant_id: z.uuid().describe('The tenant that owns it.'),
    type: z.string().describe('A word of your own for what it is.'),
    container: z.string().describe('Where it lies.'),
    data: z
      .unknown()
      .optional()
      .describe('The plaintext, or what the mask makes of it, or absent: as the transform has it.'),
    mask: z.unknown().optional().describe('The mask itself, not what it makes of the data.'),
    metadata: z.record(z.string(), z.string()).optional().describe('Names and values, kept in the clear.'),
    created_by: z.uuid().optional().describe('The Application that created it.'),
    created_at: Timestamp.describe('When it was created.'),
    modified_by: z.uuid().optional().describe('The Application that last changed it; absent until then.'),
    modified_at: Timestamp.optional().describe('When it was last changed; absent until then.'),
    expires_at: Timestamp.optional().describe('From this moment on it is gone.'),
  })
  .meta({ id: 'Token' });
export type Token = z.infer<typeof Token>;

export const defaultType = 'token';
export const defaultContainer = '/general/';

/** What can be written of a Token, at first and later. */
export const TokenContentFields = z.strictObject({
  type: optional(TokenType).meta({
    default: defaultType,
    description: 'A word of your own for what it is.',
  }),
  container: optional(Container).meta({
    default: defaultContainer,
    description: 'Where it lies; rules speak of it.',
  }),
  data: Data,
  mask: optional(Mask),
  metadata: optional(Metadata).describe('Names and values that lists can be filtered by. Kept in the clear.'),
  expires_at: optional(DateTime).describe('From this moment on it is gone. Must be in the future.'),
});

export const TokenCreate = TokenContentFields.extend({
  id: optional(TokenId.refine(containsNoSecret, secretError)).describe('Your own, or one is made.'),
}).meta({ id: 'TokenCreate' });
export type TokenCreate = z.infer<typeof TokenCreate>;

/** Any JSON at first: what the patch makes of the Token is checked like a new one. */
const Patched = z.unknown().optional();

/** A JSON merge patch. */
export const TokenPatch = z
  .strictObject({
    type: Patched.meta({ type: ['string', 'null'], description: 'Another type; `null` for the default.' }),
    container: Patched.meta({
      type: ['string', 'null'],
      description: 'Another container; `null` for the default.',
    }),
    data: Patched.meta({ description: 'Other data; an object is merged into one that is there.' }),
    mask: Patched.meta({ description: 'Another mask; `null` for none.' }),
    metadata: Patched.meta({
      type: ['object', 'null'],
      description: 'Entries to set, or with `null` to remove; `null` for none at all.',
    }),
    expires_at: Patched.meta({
      type: ['string', 'null'],
      format: 'date-time',
      description: 'Another moment, in the future; `null` for never.',
    }),
  })
  .refine((patch) => Object.keys(patch).length > 0, 'must change something')
  .meta({ id: 'TokenPatch', minProperties: 1 });
export type TokenPatch = z.infer<typeof TokenPatch>;
