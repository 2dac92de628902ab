/** Destinations: HTTPS services that may receive plaintext. Callers use tokens there without seeing their data. */
import { z } from 'zod';
import {
  changeFields,
  containsNoSecret,
  Id,
  optional,
  optionalList,
  originOf,
  readOnly,
  secretError,
  Text,
  Uuid,
} from './common-fields.ts';
import type { Errors } from './error.ts';

export const maxDestinations = 100;
/** Maximum number of placeholders of a request, and of tokens in it. */
export const maxPlaceholders = 20;

const DestinationName = z
  .string()
  .regex(/^[a-z0-9-]{1,50}$/, 'must have 1 to 50 characters of a-z, 0-9 and -')
  .refine((name) => !Id.safeParse(name).success, 'must not look like an id')
  .refine(containsNoSecret, secretError);

const Origin = z
  .string()
  .max(300)
  .transform((text, context) => {
    const origin = originOf(text);
    if (origin?.startsWith('https://')) return origin;
    context.addIssue(
      origin?.startsWith('http://')
        ? 'must begin with https://: destinations are reached by HTTPS only'
        : 'must be an origin such as https://api.example or https://api.example:8443, without a path',
    );
    return z.NEVER;
  });

export const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** A segment of a path without escapes. `.` and `..` are excluded: servers resolve them. */
const segment = /^(?!\.{1,2}$)[A-Za-z0-9._~!$&'()*+,=:@-]+$/;
const variable = /^:[A-Za-z][A-Za-z0-9_]*$/;

function hasSegments(path: string, isValid: (part: string) => boolean): boolean {
  return path === '/' || (path.startsWith('/') && path.slice(1).split('/').every(isValid));
}

const PathPattern = z
  .string()
  .max(500)
  .refine(
    (path) => hasSegments(path, (part) => (part.startsWith(':') ? variable : segment).test(part)),
    'must be a path such as /v1/charges/:id, without escapes, empty segments and dot segments',
  )
  .refine(
    (path) => !path.includes('*'),
    'must not contain *, which matches nothing else: a variable such as :id matches any one segment',
  )
  .refine(containsNoSecret, secretError);

/** Whether the raw path of a request can be matched with patterns at all. */
export function isPlainPath(path: string): boolean {
  return hasSegments(path, (part) => segment.test(part));
}

/** Whether the raw path of a request has the segments of the pattern. A variable matches one segment. */
export function matchesPath(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  return (
    wanted.length === given.length && wanted.every((part, at) => part.startsWith(':') || part === given[at])
  );
}

const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]{1,100}$/;
/** Headers that belong to the connection, describe the body, or carry credentials of the caller for this service. */
const ownHeader =
  /^(host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|proxy-.*|cookie|accept-encoding|svc-.*|dpop|idempotency-key)$/;
/** Headers of a reply that this service sets itself, or that change how a browser treats the response. */
const ownReplyHeader =
  /^(set-cookie|access-control-.*|cache-control|etag|vary|date|www-authenticate|x-content-type-options|strict-transport-security|content-security-policy|clear-site-data|alt-svc|link|refresh)$/;

const HeaderName = z
  .string()
  .transform((name) => name.toLowerCase())
  .refine((name) => fieldName.test(name), 'must be the name of a header')
  .refine((name) => !ownHeader.test(name), 'is a header that cannot be set: the service sends its own');

const pointer = /^(?:\/(?:[^~/]|~[01])*)+$/;
export const formPrefix = 'form:';
export const headerPrefix = 'header:';

/** Where a placeholder is, or which part of a reply is returned. Header names are converted to lower case. */
function place(kinds: { form: boolean; whole: boolean }, isRefused: (header: string) => boolean) {
  const forms = `a JSON pointer such as /card/number${kinds.form ? ', a form field such as form:card[number]' : ''} or a header such as header:x-name`;
  return z
    .string()
    .max(200)
    .refine(containsNoSecret, secretError)
    .transform((text, context) => {
      if (pointer.test(text) || (kinds.whole && text === '')) return text;
      if (kinds.form && text.startsWith(formPrefix) && text.length > formPrefix.length) return text;
      const name = text.startsWith(headerPrefix) ? text.slice(headerPrefix.length).toLowerCase() : '';
      if (fieldName.test(name) && !isRefused(name)) return `${headerPrefix}${name}`;
      context.addIssue(fieldName.test(name) ? 'is a header that cannot be used here' : `must be ${forms}`);
      return z.NEVER;
    });
}

const Placeholder = z.strictObject({
  at: place({ form: true, whole: false }, (name) => ownHeader.test(name)).describe(
    'Where the request has the placeholder: a JSON pointer, a form field (`form:card[number]`) or a header (`header:authorization`).',
  ),
  from: optional(z.string().max(200).regex(pointer, 'must be a JSON pointer such as /number')).describe(
    "JSON pointer into the token's data. All of the data if absent.",
  ),
  prefix: optional(
    z.string().regex(/^[\x20-\x7e]{1,50}$/, 'must have 1 to 50 visible ASCII characters'),
  ).describe('Put before the value, such as `Bearer `.'),
});
export type Placeholder = z.output<typeof Placeholder>;

const DestinationRequest = z
  .strictObject({
    method: z.enum(methods).describe('HTTP method.'),
    path: PathPattern.describe('Path of the request. A segment such as `:id` matches any one segment.'),
    placeholders: optionalList(z.array(Placeholder).max(maxPlaceholders)).describe(
      'Where tokens may be inserted.',
    ),
    query: optionalList(z.array(z.string().min(1).max(100)).max(50)).describe(
      'Query parameters that the caller may send.',
    ),
    headers: optionalList(z.array(HeaderName).max(20)).describe(
      'Headers of the caller that are passed on, besides `Idempotency-Key` and `SVC-REQUEST-ID`.',
    ),
    reply: optionalList(
      z
        .array(
          place({ form: false, whole: true }, (name) => ownHeader.test(name) || ownReplyHeader.test(name)),
        )
        .max(50),
    ).describe(
      'The parts of the reply that the caller gets besides the status: JSON pointers into the body and headers such as `header:request-id`. The empty pointer is the whole body.',
    ),
  })
  .refine(
    ({ method, placeholders }) =>
      (method !== 'GET' && method !== 'DELETE') ||
      placeholders.every(({ at }) => at.startsWith(headerPrefix)),
    { path: ['placeholders'], error: 'can only be headers in a request without a body' },
  )
  .refine(({ placeholders }) => new Set(placeholders.map(({ at }) => at)).size === placeholders.length, {
    path: ['placeholders'],
    error: 'must not have the same place twice',
  })
  .meta({ id: 'DestinationRequest' });
export type DestinationRequest = z.output<typeof DestinationRequest>;

const Requests = z.array(DestinationRequest).min(1, 'must list at least one request').max(50);

const HeaderValue = z
  .string()
  .regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,3998}[\x21-\x7e])?$/, 'must have 1 to 4000 visible ASCII characters');

/** A list of PEM blocks, without text between them. */
const pemBlocks = /-----BEGIN ([A-Z0-9 ]+)-----\r?\n[A-Za-z0-9+/=\r\n]+-----END \1-----/g;
const maxPem = 20_000;

function pem(isAllowed: (labels: string[]) => boolean, error: string) {
  return z
    .string()
    .max(maxPem)
    .transform((text, context) => {
      const blocks = [...text.matchAll(pemBlocks)];
      const rest = text.replaceAll(pemBlocks, '').trim();
      if (rest === '' && isAllowed(blocks.map(([, label = '']) => label)))
        return blocks.map(([block]) => `${block.replaceAll('\r', '')}\n`).join('');
      context.addIssue(error);
      return z.NEVER;
    });
}

const isKey = (label: string) => label.endsWith('PRIVATE KEY');
const isCertificate = (label: string) => label === 'CERTIFICATE';

/** Splits a client certificate. `key` is undefined if the text has none. */
export function splitCertificate(text: string): { certificate: string; key: string | undefined } {
  const blocks = [...text.matchAll(pemBlocks)].map(([block, label = '']) => [`${block}\n`, label] as const);
  const keys = blocks.filter(([, label]) => isKey(label));
  const others = blocks.filter(([, label]) => !isKey(label));
  return { certificate: others.map(([block]) => block).join(''), key: keys[0]?.[0] };
}

const secretFields = {
  headers: optional(
    z
      .record(HeaderName, HeaderValue)
      .refine((headers) => Object.keys(headers).length <= 20, 'must have at most 20 entries'),
  ).describe('Headers that are added to every request. The values are stored encrypted and never returned.'),
  client_certificate: optional(
    pem(
      (labels) =>
        labels.some(isCertificate) &&
        labels.filter(isKey).length <= 1 &&
        labels.every((label) => isKey(label) || isCertificate(label)),
      'must be PEM: certificates, and one unencrypted private key',
    ),
  ).describe(
    'Client certificate and private key in PEM. The private key is stored encrypted and never returned.',
  ),
};

/** Seconds. */
const defaultTimeout = 25;
export const maxTimeout = 60;

const changeableFields = {
  name: DestinationName.describe('Name in the path `/proxy/NAME/…`. Unique in the tenant.'),
  requests: Requests.describe('Requests that callers may send. Others are rejected.'),
  ...secretFields,
  ca: optional(
    pem(
      (labels) => labels.length > 0 && labels.every(isCertificate),
      'must be PEM: one or more certificates',
    ),
  ).describe('CA certificates in PEM that are trusted instead of the public ones.'),
  timeout: optional(z.int().min(1).max(maxTimeout))
    .transform((seconds) => seconds ?? defaultTimeout)
    .describe(`Seconds for the whole exchange, 1 to ${maxTimeout}. ${defaultTimeout} by default.`),
};

export const DestinationCreate = z
  .strictObject({
    ...changeableFields,
    origin: Origin.describe('`https://host[:port]`. Cannot be changed later.'),
  })
  .meta({ id: 'DestinationCreate' });
export type DestinationCreate = z.output<typeof DestinationCreate>;

const ReadOnlyText = readOnly({ type: 'string' });
const readOnlyFields = {
  ...{ id: ReadOnlyText, tenant_id: ReadOnlyText, origin: ReadOnlyText, created_by: ReadOnlyText },
  ...{ created_at: ReadOnlyText, modified_by: ReadOnlyText, modified_at: ReadOnlyText },
  header_names: readOnly({ type: 'array', items: { type: 'string' } }),
};

export const DestinationUpdate = z
  .strictObject({ ...changeableFields, ...readOnlyFields })
  .meta({ id: 'DestinationUpdate' });
export type DestinationUpdate = z.output<typeof DestinationUpdate>;

const { expires_at: _, ...changes } = changeFields;

/** A destination in responses: without header values and private key. */
export const Destination = z
  .object({
    id: Uuid.describe('Unique identifier. Access rules contain it.'),
    tenant_id: Uuid.describe('The tenant that the destination belongs to.'),
    name: Text.describe('Name in the path `/proxy/NAME/…`.'),
    origin: Text.describe('`https://host[:port]`.'),
    requests: z
      .array(
        z.object({
          method: z.enum(methods).describe('HTTP method.'),
          path: Text.describe('Path pattern.'),
          placeholders: z
            .array(
              z.object({
                at: Text.describe('Where the request has the placeholder.'),
                from: Text.optional().describe("JSON pointer into the token's data."),
                prefix: Text.optional().describe('Put before the value.'),
              }),
            )
            .describe('Where tokens may be inserted.'),
          query: z.array(z.string()).describe('Query parameters that the caller may send.'),
          headers: z.array(z.string()).describe('Headers of the caller that are passed on.'),
          reply: z
            .array(z.string())
            .describe('The parts of the reply that the caller gets besides the status.'),
        }),
      )
      .describe('Requests that callers may send.'),
    header_names: z.array(z.string()).describe('Names of the headers that are added to every request.'),
    client_certificate: Text.optional().describe('Client certificate in PEM, without its private key.'),
    ca: Text.optional().describe('CA certificates in PEM that are trusted instead of the public ones.'),
    timeout: z.int().describe('Seconds for the whole exchange.'),
    ...changes,
  })
  .meta({ id: 'Destination' });
export type Destination = z.infer<typeof Destination>;

/** Errors for read-only fields that differ from the current ones. */
export function readOnlyErrors(current: Destination, sent: DestinationUpdate): Errors {
  const differs = (name: keyof typeof readOnlyFields) =>
    sent[name] !== undefined && JSON.stringify(sent[name]) !== JSON.stringify(current[name]);
  const fields = (Object.keys(readOnlyFields) as (keyof typeof readOnlyFields)[]).filter(differs);
  const message = (field: string) =>
    field === 'origin'
      ? 'cannot be changed: create another destination'
      : 'is read-only: omit it or send its current value';
  return Object.fromEntries(fields.map((field) => [field, [message(field)]]));
}

/** Errors for headers that are added to every request and are also placeholders or headers of callers. */
export function headerConflicts(requests: readonly DestinationRequest[], added: readonly string[]): Errors {
  const errors: Errors = {};
  for (const [at, { placeholders, headers }] of requests.entries()) {
    const fromCaller = [...headers, ...placeholders.map((each) => each.at.replace(headerPrefix, ''))];
    const both = fromCaller.find((name) => added.includes(name));
    if (both !== undefined)
      errors[`requests.${at}`] = [`must not use the header ${both}, which \`headers\` sets`];
  }
  return errors;
}
