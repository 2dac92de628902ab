/** Destinations: HTTPS services that may receive plaintext. Callers use tokens there without seeing their data. */
import { z } from 'zod';
import {
  changeFields,
  containsNoSecret,
  Description,
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
import { type RequestSchema, requestSchemaError } from './request-schema.ts';
import { check } from './validate.ts';

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

const takesBody = (method: string) => method !== 'GET' && method !== 'DELETE';

/** A segment of a path without escapes. `.` and `..` are excluded: servers resolve them. */
const segment = /^(?!\.{1,2}$)[A-Za-z0-9._~!$&'()*+,=:@-]+$/;
const variable = /^:[A-Za-z][A-Za-z0-9_]*$/;

function hasSegments(path: string, isValid: (part: string) => boolean): boolean {
  return path === '/' || (path.startsWith('/') && path.slice(1).split('/').every(isValid));
}

const PathPattern = z
  .string()
  .max(500)
  .refine((path) => {
    const start = path.replace(/\/\*$/, '');
    const isPart = (part: string) => (part.startsWith(':') ? variable : segment).test(part);
    return (start === '' && path !== '') || hasSegments(start, isPart);
  }, 'must be a path such as /v1/charges/:id, without escapes, empty segments and dot segments')
  .refine(
    (path) => !path.replace(/\/\*$/, '').includes('*'),
    'can have * only as its last segment, as in /v1/*: a variable such as :id matches any one segment',
  )
  .refine(containsNoSecret, secretError);

/** Whether the raw path of a request can be matched with patterns at all. */
export function isPlainPath(path: string): boolean {
  return hasSegments(path, (part) => segment.test(part));
}

const isWide = (pattern: string) => pattern.endsWith('/*');

/** Whether the raw path has the segments of the pattern. A variable matches one segment, a last `*` one or more. */
export function matchesPath(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  const matches = isWide(pattern)
    ? wanted.pop() === '*' && given.length > wanted.length && path !== '/'
    : wanted.length === given.length;
  return matches && wanted.every((part, at) => part.startsWith(':') || part === given[at]);
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

/** What the reply of an entry is if it is neither parsed nor cut. */
export const streamed = 'stream';
const maxReplyParts = 50;
const ReplyParts = z
  .array(place({ form: false, whole: true }, (name) => ownHeader.test(name) || ownReplyHeader.test(name)))
  .max(maxReplyParts);
const Reply = z
  .unknown()
  .transform((reply, context): z.output<typeof ReplyParts> | typeof streamed => {
    if (reply === streamed) return reply;
    const checked = check(ReplyParts, reply);
    if ('data' in checked) return checked.data;
    for (const { path, message } of checked.faults)
      context.addIssue({ code: 'custom', path: [...path], message });
    return z.NEVER;
  })
  .nullish()
  .transform((reply) => reply ?? [])
  .meta({
    anyOf: [
      { type: 'array', items: { type: 'string', maxLength: 200 }, maxItems: maxReplyParts },
      { type: 'string', const: streamed },
      { type: 'null' },
    ],
  });

const descriptions = {
  name: 'Name of the request, unique in the destination. Programs that choose requests for a model use it.',
  description: 'What the request does, for people and models that choose it.',
  schema:
    'JSON Schema 2020-12 that the body must meet, at most 8 KiB. Keywords: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, `minimum`, `maximum`, `maxLength`, `description`. A form is checked as an object of strings.',
  body: '`any`: the body has any content type and up to 32 MiB, and is passed on unchanged, neither parsed nor searched.',
  reply:
    'The parts of the reply that the caller gets besides the status: JSON pointers into the body and headers such as `header:request-id`. The empty pointer is the whole body. `stream`: status, content type and body of any type, as they arrive.',
};

const DestinationRequest = z
  .strictObject({
    name: optional(
      z
        .string()
        .regex(/^[A-Za-z0-9_-]{1,50}$/, 'must have 1 to 50 characters of A-Z, a-z, 0-9, _ and -')
        .refine(containsNoSecret, secretError),
    ).describe(descriptions.name),
    description: optional(Description).describe(descriptions.description),
    schema: optional(
      z
        .unknown()
        .superRefine((schema, context) => {
          const error = schema === null ? undefined : requestSchemaError(schema);
          if (error !== undefined) context.addIssue(error);
        })
        .transform((schema) => schema as RequestSchema),
    ).meta({
      type: ['object', 'null'],
      additionalProperties: true,
      description: descriptions.schema,
    }),
    body: optional(z.literal('any')).describe(descriptions.body),
    method: z.enum(methods).describe('HTTP method.'),
    path: PathPattern.describe(
      'Path of the request. A segment such as `:id` matches any one segment. In an entry without placeholders, a last `/*` matches one or more segments.',
    ),
    placeholders: optionalList(z.array(Placeholder).max(maxPlaceholders)).describe(
      'Where tokens may be inserted.',
    ),
    query: optionalList(z.array(z.string().min(1).max(100)).max(50)).describe(
      'Query parameters that the caller may send.',
    ),
    headers: optionalList(z.array(HeaderName).max(20)).describe(
      'Headers of the caller that are passed on, besides `Idempotency-Key` and `SVC-REQUEST-ID`.',
    ),
    reply: Reply.describe(descriptions.reply),
  })
  .refine(({ path, placeholders }) => !isWide(path) || placeholders.length === 0, {
    path: ['path'],
    error: 'can end in /* only in an entry without placeholders',
  })
  .refine(
    ({ body, method, placeholders, schema }) =>
      body === undefined || (takesBody(method) && placeholders.length === 0 && schema === undefined),
    {
      path: ['body'],
      error: 'can be any only in an entry with a body, without placeholders and without a schema',
    },
  )
  .refine(({ schema, method }) => schema === undefined || takesBody(method), {
    path: ['schema'],
    error: 'can only be in a request with a body',
  })
  .refine(
    ({ reply, placeholders }) =>
      reply !== streamed || placeholders.every(({ at }) => at.startsWith(headerPrefix)),
    {
      path: ['reply'],
      error: 'can be stream only in an entry without placeholders in its body',
    },
  )
  .refine(
    ({ method, placeholders }) =>
      takesBody(method) || placeholders.every(({ at }) => at.startsWith(headerPrefix)),
    { path: ['placeholders'], error: 'can only be headers in a request without a body' },
  )
  .refine(({ placeholders }) => new Set(placeholders.map(({ at }) => at)).size === placeholders.length, {
    path: ['placeholders'],
    error: 'must not have the same place twice',
  })
  .meta({ id: 'DestinationRequest' });
type Parsed = z.output<typeof DestinationRequest>;
type MayLack = 'name' | 'description' | 'schema' | 'body';
export type DestinationRequest = Omit<Parsed, MayLack> & Partial<Pick<Parsed, MayLack>>;

const Requests = z
  .array(DestinationRequest)
  .min(1, 'must list at least one request')
  .max(50)
  .refine((requests) => {
    const names = requests.flatMap(({ name }) => name ?? []);
    return new Set(names).size === names.length;
  }, 'must not have the same name twice');

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
/** Of streams: until the first byte, and between bytes. */
const maxStreamTimeout = 600;
const [defaultInFlight, maxInFlight] = [50, 1000];

const IgnoredHeaders = z.array(
  z
    .string()
    .transform((name) => name.toLowerCase())
    .refine(
      (name) => fieldName.test(name) && /^[^*]+(?:(?<=..)\*)?$/.test(name),
      'must be the name of a header, or its first characters and *, as in x-stainless-*',
    )
    .refine(containsNoSecret, secretError),
);

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
  timeout: optional(z.int().min(1).max(maxStreamTimeout))
    .transform((seconds) => seconds ?? defaultTimeout)
    .describe(
      `Seconds for the whole exchange, 1 to ${maxTimeout}. ${defaultTimeout} by default. Of streams: until the first byte, and between bytes, up to ${maxStreamTimeout}.`,
    ),
  max_in_flight: optional(z.int().min(1).max(maxInFlight))
    .transform((requests) => requests ?? defaultInFlight)
    .describe(`Requests at a time in each process, 1 to ${maxInFlight}. ${defaultInFlight} by default.`),
  ignored_headers: optionalList(IgnoredHeaders.max(50)).describe(
    "Headers that callers' libraries send and that are dropped, such as `x-stainless-*`. Other headers that are not listed are an error.",
  ),
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

/** A request in responses. */
export const ListedRequest = z.object({
  name: Text.optional().describe(descriptions.name),
  description: Text.optional().describe(descriptions.description),
  schema: z.record(z.string(), z.unknown()).optional().describe(descriptions.schema),
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
  body: z.literal('any').optional().describe(descriptions.body),
  reply: z.union([z.array(z.string()), z.literal(streamed)]).describe(descriptions.reply),
});

/** A destination in responses: without header values and private key. */
export const Destination = z
  .object({
    id: Uuid.describe('Unique identifier. Access rules contain it.'),
    tenant_id: Uuid.describe('The tenant that the destination belongs to.'),
    name: Text.describe('Name in the path `/proxy/NAME/…`.'),
    origin: Text.describe('`https://host[:port]`.'),
    requests: z.array(ListedRequest).describe('Requests that callers may send.'),
    header_names: z.array(z.string()).describe('Names of the headers that are added to every request.'),
    client_certificate: Text.optional().describe('Client certificate in PEM, without its private key.'),
    ca: Text.optional().describe('CA certificates in PEM that are trusted instead of the public ones.'),
    timeout: z.int().describe('Seconds for the whole exchange; of streams between bytes.'),
    max_in_flight: z.int().describe('Requests at a time in each process.'),
    ignored_headers: z.array(z.string()).describe('Headers of callers that are dropped.'),
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

/** Only streams can take longer than a connection of a client may be idle. */
export function timeoutErrors({
  timeout,
  requests,
}: Pick<DestinationCreate, 'timeout' | 'requests'>): Errors {
  if (timeout <= maxTimeout || requests.some(({ reply }) => reply === streamed)) return {};
  return { timeout: [`can be more than ${maxTimeout} only if a request has the reply stream`] };
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
