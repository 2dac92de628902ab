/** The OpenAPI 3.1 document, from the same declarations that check requests. */
import { z } from 'zod';
import { type Code, codes, problem } from '../domain/error.ts';
import { failuresOf, type Route } from './route.ts';

type Json = Record<string, unknown>;

const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.enum(codes as [Code, ...Code[]]),
    request_id: z.string(),
    errors: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .describe('What is wrong with which part of the input, by its dotted path.'),
  })
  .meta({ id: 'Problem' });

export function openApi(routes: readonly Route[], version: string): Json {
  const schemas: Json = {};
  const schemaOf = (schema: z.ZodType) => hoist(schema, schemas);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation(route, schemaOf);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sallyport',
      version,
      description: 'API credentials and short-lived browser sessions with data-level access rules.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.map((route) => route.tag))].map((name) => ({ name })),
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'SVC-API-KEY' } },
      schemas,
    },
  };
}

function operation(route: Route, schemaOf: (schema: z.ZodType) => Json): Json {
  return {
    operationId: route.name,
    tags: [route.tag],
    summary: route.summary,
    description: description(route),
    ...(route.open && { security: [] }),
    ...(!route.open && route.permission && { 'x-permission': route.permission }),
    ...(!route.open && (route.params || route.query) && { parameters: parameters(route, schemaOf) }),
    ...(!route.open && route.body && { requestBody: requestBody(route.body, route.bodyExample, schemaOf) }),
    responses: { ...successes(route, schemaOf), ...failures(route, schemaOf) },
  };
}

function description(route: Route): string {
  const need = route.open
    ? 'Needs no key.'
    : route.permission
      ? `Needs the permission \`${route.permission}\`.`
      : route.callers
        ? `Takes the key of a ${route.callers.join(' or ')} Application; needs no permission.`
        : 'Takes any valid key.';
  return [route.description, need].filter(Boolean).join('\n\n');
}

function parameters(
  route: { params?: z.ZodType; query?: z.ZodType },
  schemaOf: (schema: z.ZodType) => Json,
): Json[] {
  const fields = (place: 'path' | 'query', schema: z.ZodType | undefined) =>
    Object.entries((schema ? (schemaOf(schema).properties as Record<string, Json>) : undefined) ?? {}).map(
      ([name, { description, ...field }]) => ({
        name,
        in: place,
        required: place === 'path',
        ...(description !== undefined && { description }),
        schema: field,
      }),
    );
  return [...fields('path', route.params), ...fields('query', route.query)];
}

function requestBody(schema: z.ZodType, example: unknown, schemaOf: (schema: z.ZodType) => Json): Json {
  return {
    required: true,
    content: { 'application/json': { schema: schemaOf(schema), ...(example !== undefined && { example }) } },
  };
}

function successes(route: Route, schemaOf: (schema: z.ZodType) => Json): Json {
  const entries = Object.entries(route.replies).map(([status, { description, schema, example }]) => {
    const content = schema && {
      'application/json': { schema: schemaOf(schema), ...(example !== undefined && { example }) },
    };
    return [status, { description, ...(content && { content }) }];
  });
  return Object.fromEntries(entries);
}

/** One response a status, which names all the codes that it can carry. */
function failures(route: Route, schemaOf: (schema: z.ZodType) => Json): Json {
  const byStatus = Map.groupBy(failuresOf(route), (code) => problem(code).status);
  const entries = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, these]) => [
      String(status),
      {
        description: these.map((code) => `\`${code}\`: ${problem(code).detail}`).join('\n\n'),
        content: { 'application/problem+json': { schema: schemaOf(Problem) } },
      },
    ]);
  return Object.fromEntries(entries);
}

/** A schema whose named parts live in the document's components. */
function hoist(schema: z.ZodType, schemas: Json): Json {
  const { $schema, $defs, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Json;
  for (const [name, part] of Object.entries(($defs as Json) ?? {})) schemas[name] ??= tidy(part);
  return tidy(json) as Json;
}

/** Null means absent wherever it is taken, so the document does not speak of it. */
function tidy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(tidy);
  if (typeof value !== 'object' || value === null) return value;
  const { anyOf, id, $ref, ...rest } = value as Json & { anyOf?: Json[] };
  const others = anyOf?.filter((option) => option.type !== 'null');
  const fields = Object.fromEntries(Object.entries(rest).map(([key, part]) => [key, tidy(part)]));
  return {
    ...(typeof $ref === 'string' && { $ref: $ref.replace('#/$defs/', '#/components/schemas/') }),
    ...(others?.length === 1 ? (tidy(others[0]) as Json) : others && { anyOf: tidy(others) }),
    ...(id !== undefined && typeof id !== 'string' && { id: tidy(id) }),
    ...fields,
  };
}
