/** A strict schema of the parts of OpenAPI 3.1 that the document uses. */
import { z } from 'zod';

const text = z.string().min(1);
const mapOf = <S extends z.ZodType>(schema: S) => z.record(text, schema);
const Reference = z.strictObject({ $ref: z.string().startsWith('#/components/') });

const Type = z.enum(['string', 'integer', 'number', 'boolean', 'array', 'object', 'null']);

const Schema: z.ZodType = z.lazy(() =>
  z
    .strictObject({
      $ref: z.string().startsWith('#/components/schemas/'),
      type: z.union([Type, z.array(Type).min(2)]),
      format: z.enum(['uuid', 'date', 'date-time', 'uri']),
      description: text,
      enum: z.array(z.unknown()).min(1),
      const: z.unknown(),
      default: z.unknown(),
      examples: z.array(z.unknown()).min(1),
      readOnly: z.literal(true),
      pattern: text.refine((pattern) => new RegExp(pattern, 'u')),
      minLength: z.int().min(1),
      maxLength: z.int().min(1),
      minimum: z.number(),
      maximum: z.number(),
      items: Schema,
      minItems: z.int().min(1),
      maxItems: z.int().min(1),
      properties: mapOf(Schema),
      required: z.array(text).min(1),
      minProperties: z.int().min(1),
      maxProperties: z.int().min(1),
      additionalProperties: z.union([z.boolean(), Schema]),
      anyOf: z.array(Schema).min(2),
    })
    .partial()
    .refine(
      ({ required, properties }) => (required ?? []).every((name) => properties?.[name] !== undefined),
      {
        error: 'requires a property that is not declared',
      },
    )
    .refine(({ type, anyOf }) => type === undefined || anyOf === undefined, {
      error: 'has both type and anyOf',
    })
    .refine(({ type, pattern }) => pattern === undefined || type === 'string', {
      error: 'has a pattern but is not a string',
    })
    .refine(({ type, items }) => [type].flat().includes('array') === (items !== undefined), {
      error: 'has items but is not an array, or the reverse',
    }),
);

const Content = z
  .strictObject({
    schema: Schema,
    example: z.unknown().optional(),
    examples: mapOf(Reference).optional(),
  })
  .refine(({ example, examples }) => example === undefined || examples === undefined, {
    error: 'has both example and examples',
  });

const Header = z.strictObject({
  description: text,
  required: z.boolean(),
  schema: Schema,
  example: z.unknown(),
});

const Response = z.strictObject({
  description: text,
  headers: mapOf(Reference),
  content: mapOf(Content).optional(),
});

/** Keys have no scopes. */
const Security = z.array(
  z.union([z.strictObject({ key: z.tuple([]) }), z.strictObject({ bearer: z.tuple([]) })]),
);

const Operation = z.strictObject({
  operationId: text,
  tags: z.array(text).length(1),
  summary: text,
  description: text,
  deprecated: z.literal(true).optional(),
  security: Security.optional(),
  'x-permission': text.optional(),
  'x-callers': z.array(text).min(1).optional(),
  parameters: z
    .array(
      z.strictObject({
        name: text,
        in: z.enum(['path', 'query', 'header']),
        required: z.boolean(),
        description: text,
        style: z.enum(['form', 'deepObject']).optional(),
        explode: z.literal(true).optional(),
        schema: Schema,
        example: z.unknown().optional(),
      }),
    )
    .min(1)
    .refine((parameters) => new Set(parameters.map(({ name }) => name)).size === parameters.length)
    .optional(),
  requestBody: z
    .strictObject({ description: text, required: z.boolean(), content: mapOf(Content) })
    .optional(),
  responses: z.record(z.string().regex(/^([1-5]\d\d|default)$/), z.union([Response, Reference])),
});

export const OpenApi = z.strictObject({
  openapi: z.string().regex(/^3\.1\.\d$/),
  info: z.strictObject({
    title: text,
    version: text,
    description: text,
    license: z.strictObject({ name: text, identifier: text }),
  }),
  servers: z.array(z.strictObject({ url: text, description: text })).min(1),
  tags: z.array(z.strictObject({ name: text, description: text })),
  security: Security,
  paths: z.record(
    z.string().startsWith('/'),
    z.partialRecord(z.enum(['get', 'put', 'post', 'delete', 'patch']), Operation),
  ),
  components: z.strictObject({
    securitySchemes: z.strictObject({
      key: z.strictObject({
        type: z.literal('apiKey'),
        in: z.literal('header'),
        name: text,
        description: text,
      }),
      bearer: z.strictObject({ type: z.literal('http'), scheme: z.literal('bearer'), description: text }),
    }),
    headers: mapOf(Header),
    examples: mapOf(z.strictObject({ summary: text, value: z.unknown() })),
    responses: mapOf(Response),
    schemas: z.record(z.string().regex(/^[A-Z][A-Za-z]+$/), Schema),
  }),
});
