/** The OpenAPI 3.1 document, from the same declarations that check requests. */
import type { z } from 'zod';
import { type Code, codes, fail, problem } from '../../domain/error.ts';
import { Problem, problemBody } from '../pipeline/problem.ts';
import { bodyLimit, jsonTypes, mergePatchTypes } from '../pipeline/read-input.ts';
import { failuresOf, type Route } from '../pipeline/route.ts';
import introduction from './introduction.md' with { type: 'text' };
import { jsonSchema, type Schema, withoutNull } from './json-schema.ts';
import { headersOf, headersOfSuccess, requestHeaders, responseHeaders } from './openapi-headers.ts';
import type { Parameter, Reference } from './openapi-types.ts';
import { tags } from './tags.ts';

export interface Content {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly examples?: Record<string, Reference>;
}

export interface Answer {
  readonly description: string;
  readonly headers: Record<string, Reference>;
  readonly content?: Record<string, Content>;
}

export interface Operation {
  readonly operationId: string;
  readonly tags: [string];
  readonly summary: string;
  /** Its last paragraph says what the caller needs. */
  readonly description: string;
  readonly security?: Record<string, string[]>[];
  readonly 'x-permission'?: string;
  readonly 'x-callers'?: readonly string[];
  readonly parameters: Parameter[];
  readonly requestBody?: { description: string; required: true; content: Record<string, Content> };
  readonly responses: Record<string, Answer | Reference>;
}

export interface Document {
  readonly openapi: string;
  readonly info: { title: string; version: string; description: string; license: object };
  readonly servers: { url: string; description: string }[];
  readonly tags: { name: string; description: string }[];
  readonly security: Record<string, string[]>[];
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: {
    readonly securitySchemes: object;
    readonly headers: Record<string, object>;
    readonly examples: Record<string, { summary: string; value: unknown }>;
    readonly responses: Record<string, Answer>;
    readonly schemas: Record<string, Schema>;
  };
}

type SchemaOf = (schema: z.ZodType) => Schema;

export const problemJson = 'application/problem+json';

export function openApi(routes: readonly Route[], version: string): Document {
  const schemas: Record<string, Schema> = {};
  const schemaOf = eachOnce((schema: z.ZodType) => jsonSchema(schema, schemas));
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    const path = templateOf(route);
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation(route, schemaOf);
  }
  const used = new Set<string>(routes.map((route) => route.tag));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sallyport',
      version,
      description: introduction.trim(),
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'Where this document comes from.' }],
    tags: Object.entries(tags)
      .filter(([name]) => used.has(name))
      .map(([name, description]) => ({ name, description })),
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: {
        key: {
          type: 'apiKey',
          in: 'header',
          name: 'SVC-API-KEY',
          description: 'The key of an Application or of a Session.',
        },
      },
      headers: responseHeaders,
      examples: Object.fromEntries(codes.map((code) => [code, problemExample(code, routes, schemaOf)])),
      responses: {
        Problem: {
          description: 'Any other failure.',
          headers: headersOf('open'),
          content: { [problemJson]: { schema: schemaOf(Problem), examples: examplesOf(undeclared(routes)) } },
        },
      },
      schemas,
    },
  };
}

/** Most schemas are used many times over, and none changes. */
function eachOnce<A, B>(make: (given: A) => B): (given: A) => B {
  const made = new Map<A, B>();
  return (given) => {
    const value = made.get(given) ?? make(given);
    made.set(given, value);
    return value;
  };
}

function templateOf(route: Route): string {
  return route.path.replace(/:(\w+)/g, '{$1}');
}

function operation(route: Route, schemaOf: SchemaOf): Operation {
  const described = {
    operationId: route.name,
    tags: [route.tag] as [string],
    summary: route.summary,
    description: [route.description, need(route)].filter(Boolean).join('\n\n'),
    parameters: parameters(route, schemaOf),
  };
  const responses = {
    ...successes(route, schemaOf),
    ...failures(route, schemaOf),
    default: { $ref: '#/components/responses/Problem' },
  };
  if (route.kind === 'open') return { ...described, security: [], responses };
  const { permission, callers } = route;
  return {
    ...described,
    ...(permission && { security: [{ key: [permission] }], 'x-permission': permission }),
    ...(callers && { 'x-callers': callers }),
    ...(route.body && {
      requestBody: {
        description: `At most ${size(route.bodyLimit ?? bodyLimit)}.`,
        required: true,
        content: content(schemaOf(route.body), route.bodyExample, bodyTypes(route)),
      },
    }),
    responses,
  };
}

function size(bytes: number): string {
  return bytes < 1024 * 1024 ? `${bytes / 1024} KiB` : `${bytes / 1024 / 1024} MiB`;
}

function need(route: Route): string {
  if (route.kind === 'open') return 'Needs no key.';
  if (route.permission) return `Needs the permission \`${route.permission}\`.`;
  if (!route.callers) return 'Takes any valid key.';
  return `Takes the key of a ${route.callers.join(' or ')} Application, and needs no permission.`;
}

function parameters(route: Route, schemaOf: SchemaOf): Parameter[] {
  const headers = requestHeaders(route);
  if (route.kind === 'open') return headers;
  const fields = (place: 'path' | 'query', schema: z.ZodType | undefined) =>
    Object.entries((schema && schemaOf(schema).properties) ?? {}).map(([name, field]) =>
      parameter(name, place, withoutNull(field)),
    );
  return [...fields('path', route.params), ...fields('query', route.query), ...headers];
}

function parameter(
  name: string,
  place: 'path' | 'query',
  { description, examples, ...field }: Schema,
): Parameter {
  return {
    name: field.type === 'object' ? `${name}.NAME` : name,
    in: place,
    required: place === 'path',
    ...(description !== undefined && { description }),
    ...(field.type === 'array' && { style: 'form', explode: true }),
    schema: entryOf(field),
    ...(examples && { example: examples[0] }),
  };
}

/** A map is sent as NAME=value with its own name before the dot, for which OpenAPI has no word. */
function entryOf(field: Schema): Schema {
  return typeof field.additionalProperties === 'object' ? field.additionalProperties : field;
}

function content(schema: Schema, example: unknown, types = jsonTypes): Record<string, Content> {
  const each = { schema, ...(example !== undefined && { example }) };
  return Object.fromEntries(types.map((type) => [type, each]));
}

/** The usual one first. */
function bodyTypes({ method }: Route): string[] {
  return method === 'PATCH' ? mergePatchTypes.toReversed() : jsonTypes;
}

function successes(route: Route, schemaOf: SchemaOf): Record<string, Answer> {
  const entries = Object.entries(route.replies).map(([status, { description, schema, example }]) => [
    status,
    {
      description,
      headers: headersOfSuccess(route),
      ...(schema && { content: content(schemaOf(schema), example) }),
    },
  ]);
  return Object.fromEntries(entries);
}

/** One response a status, which names all the codes that it can carry. */
function failures(route: Route, schemaOf: SchemaOf): Record<string, Answer> {
  const byStatus = Map.groupBy(failuresOf(route), (code) => problem(code).status);
  const entries = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, these]) => [
      String(status),
      {
        description: these.map((code) => `\`${code}\`: ${problem(code).detail}`).join('\n\n'),
        headers: headersOf(route.kind, status),
        content: { [problemJson]: { schema: schemaOf(Problem), examples: examplesOf(these) } },
      },
    ]);
  return Object.fromEntries(entries);
}

/** What can befall any request, so that no route names it. */
function undeclared(routes: readonly Route[]): Code[] {
  const declared = new Set(routes.flatMap(failuresOf));
  return codes.filter((code) => !declared.has(code));
}

function examplesOf(these: Code[]): Record<string, Reference> {
  return Object.fromEntries(these.map((code) => [code, { $ref: `#/components/examples/${code}` }]));
}

/** As the last route that can fail so would answer. */
function problemExample(code: Code, routes: readonly Route[], schemaOf: SchemaOf) {
  const route = routes.findLast((each) => failuresOf(each).includes(code));
  const path = route ? pathExample(templateOf(route), parameters(route, schemaOf)) : '/example';
  const errors = { 'rules.0.priority': ['must be an integer of at least 1'] };
  const failure = fail(code, code === 'validation_failed' ? { errors } : {});
  return { summary: problem(code).title, value: problemBody(failure, { path, requestId: 'checkout-7f3a' }) };
}

/** The path with the examples of its parameters in their places. */
export function pathExample(path: string, parameters: readonly Parameter[]): string {
  return path.replace(/\{(\w+)\}/g, (place, name) => {
    const example = parameters.find((each) => each.in === 'path' && each.name === name)?.example;
    return example === undefined ? place : encodeURIComponent(String(example));
  });
}
