/** Generates the OpenAPI 3.1 document from the route declarations, whose schemas also validate requests. */
import { z } from 'zod';
import { type Code, codes, fail, problem } from '../../domain/error.ts';
import { applicationKinds } from '../../domain/key.ts';
import { Problem, problemBody } from '../pipeline/problem.ts';
import { bodyLimit, jsonTypes, mergePatchTypes } from '../pipeline/read-input.ts';
import { failuresOf, type Route } from '../pipeline/route.ts';
import { jsonSchema, type Schema, withoutNull } from './json-schema.ts';
import {
  type Parameter,
  type Reference,
  requestHeaders,
  responseHeaders,
  responseHeadersOf,
  successHeaders,
} from './openapi-headers.ts';
import { tags } from './tags.ts';

export interface Content {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly examples?: Record<string, Reference>;
}

export interface OpenApiResponse {
  readonly description: string;
  readonly headers: Record<string, Reference>;
  readonly content?: Record<string, Content>;
}

export interface Operation {
  readonly operationId: string;
  readonly tags: [string];
  readonly summary: string;
  /** The last paragraph states the required key or permission. */
  readonly description: string;
  readonly deprecated?: true;
  readonly security?: Record<string, string[]>[];
  readonly 'x-permission'?: string;
  readonly 'x-callers'?: readonly string[];
  readonly parameters: Parameter[];
  readonly requestBody?: { description: string; required: boolean; content: Record<string, Content> };
  readonly responses: Record<string, OpenApiResponse | Reference>;
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
    readonly responses: Record<string, OpenApiResponse>;
    readonly schemas: Record<string, Schema>;
  };
}

export const OpenApi = z
  .looseObject({
    openapi: z.string().describe('Version of OpenAPI.'),
    info: z.looseObject({}).describe('Title and version of the API.'),
    paths: z.looseObject({}).describe('Every operation, by path and method.'),
  })
  .meta({ id: 'OpenApi' });

const introduction = `Sallyport issues API keys to services and short-lived keys to browsers, stores sensitive data encrypted, and decides on every request what each key may see.

Send your key in the \`SVC-API-KEY\` header. \`/docs/reference/api\` describes what all endpoints share: authentication, errors, pagination, idempotency, concurrent changes and rate limits.`;

type SchemaOf = (schema: z.ZodType) => Schema;

export const problemJson = 'application/problem+json';

export function openApi(routes: readonly Route[], version: string): Document {
  const schemas: Record<string, Schema> = {};
  const schemaOf = memoized((schema: z.ZodType) => jsonSchema(schema, schemas));
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    const path = pathTemplate(route);
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation(route, schemaOf);
  }
  const used = new Set<string>(routes.map((route) => route.tag));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sallyport',
      version,
      description: introduction,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The service that serves this document.' }],
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
          description: 'Key of an application or session.',
        },
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'AuthZEN and `/proxy/` only: the same key as `Authorization: Bearer KEY`.',
        },
      },
      headers: responseHeaders,
      examples: Object.fromEntries(codes.map((code) => [code, problemExample(code, routes, schemaOf)])),
      responses: {
        Problem: {
          description: 'Any other error.',
          headers: responseHeadersOf({ kind: 'open' }),
          content: {
            [problemJson]: { schema: schemaOf(Problem), examples: examplesOf(undeclaredCodes(routes)) },
          },
        },
      },
      schemas,
    },
  };
}

function memoized<A, B>(compute: (input: A) => B): (input: A) => B {
  const results = new Map<A, B>();
  return (input) => {
    const result = results.get(input) ?? compute(input);
    results.set(input, result);
    return result;
  };
}

/** The path of a route as in OpenAPI. `{path}` is the rest of the path, which may contain slashes. */
export function pathTemplate({ path }: Pick<Route, 'path'>): string {
  return path.replace(/:(\w+)/g, '{$1}').replace(/\*$/, '{path}');
}

function operation(route: Route, schemaOf: SchemaOf): Operation {
  const common = {
    operationId: route.name,
    tags: [route.tag] as [string],
    summary: route.summary,
    description: [route.description, deprecationOf(route), requirementOf(route)].filter(Boolean).join('\n\n'),
    ...(route.deprecated && { deprecated: true as const }),
    parameters: parameters(route, schemaOf),
  };
  const responses = {
    ...successResponses(route, schemaOf),
    ...errorResponses(route, schemaOf),
    default: { $ref: '#/components/responses/Problem' },
  };
  const requestBody = route.body && {
    requestBody: {
      description: `At most ${size(route.bodyLimit ?? bodyLimit)}.`,
      required: !('bodyIfMissing' in route),
      content: content(schemaOf(route.body), route.bodyExample, bodyTypes(route)),
    },
  };
  if (route.kind === 'open') return { ...common, security: [], ...requestBody, responses };
  const { permission, callers } = route;
  return {
    ...common,
    ...(route.conventions && { security: [{ key: [] }, { bearer: [] }] }),
    ...(permission && { 'x-permission': permission }),
    ...(callers && { 'x-callers': callers }),
    ...requestBody,
    responses,
  };
}

function deprecationOf({ deprecated }: Route): string | undefined {
  if (!deprecated) return undefined;
  const { since, sunset, link } = deprecated;
  return `Deprecated since ${since}, and available until ${sunset}: see <${link}>.`;
}

function size(bytes: number): string {
  return bytes < 1024 * 1024 ? `${bytes / 1024} KiB` : `${bytes / 1024 / 1024} MiB`;
}

function requirementOf(route: Route): string {
  if (route.kind === 'open') return 'No key required.';
  if (route.permission) return `Requires the permission \`${route.permission}\`.`;
  if (!route.callers?.every((kind) => kind in applicationKinds)) return 'Requires any valid key.';
  return `Requires the key of a ${route.callers.join(' or ')} application. No permission is needed.`;
}

function parameters(route: Route, schemaOf: SchemaOf): Parameter[] {
  const headers = requestHeaders(route);
  if (route.kind === 'open') return headers;
  const fields = (location: 'path' | 'query', schema: z.ZodType | undefined) => {
    const { properties = {}, required = [] } = schema ? schemaOf(schema) : {};
    return Object.entries(properties).map(([name, field]) =>
      parameter(name, location, required.includes(name), withoutNull(field)),
    );
  };
  return [...fields('path', route.params), ...fields('query', route.query), ...headers];
}

function parameter(
  name: string,
  location: 'path' | 'query',
  required: boolean,
  { description, examples, ...field }: Schema,
): Parameter {
  return {
    name,
    in: location,
    required,
    ...(description !== undefined && { description }),
    ...(field.type === 'array' && { style: 'form', explode: true }),
    ...(field.type === 'object' && { style: 'deepObject', explode: true }),
    schema: field,
    ...(examples && { example: examples[0] }),
  };
}

function content(schema: Schema, example: unknown, types = jsonTypes): Record<string, Content> {
  const media = { schema, ...(example !== undefined && { example }) };
  return Object.fromEntries(types.map((type) => [type, media]));
}

/** Puts `application/json` first. */
function bodyTypes(route: Route): string[] {
  if (route.kind === 'open' && route.bodyType !== undefined) return [route.bodyType];
  return route.method === 'PATCH' ? mergePatchTypes.toReversed() : jsonTypes;
}

function successResponses(route: Route, schemaOf: SchemaOf): Record<string, OpenApiResponse> {
  const entries = Object.entries(route.replies).map(([status, { description, schema, example, headers }]) => [
    status,
    {
      description,
      headers: successHeaders(route, headers),
      ...(schema && { content: content(schemaOf(schema), example) }),
    },
  ]);
  return Object.fromEntries(entries);
}

function errorResponses(route: Route, schemaOf: SchemaOf): Record<string, OpenApiResponse> {
  const byStatus = Map.groupBy(failuresOf(route), (code) => problem(code).status);
  const entries = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, statusCodes]) => [
      String(status),
      {
        description: statusCodes.map((code) => `\`${code}\`: ${problem(code).detail}`).join('\n\n'),
        headers: responseHeadersOf(route, status),
        content: { [problemJson]: { schema: schemaOf(Problem), examples: examplesOf(statusCodes) } },
      },
    ]);
  return Object.fromEntries(entries);
}

/** Error codes that no route declares, because any request can cause them. */
function undeclaredCodes(routes: readonly Route[]): Code[] {
  const declared = new Set(routes.flatMap(failuresOf));
  return codes.filter((code) => !declared.has(code));
}

function examplesOf(errorCodes: Code[]): Record<string, Reference> {
  return Object.fromEntries(errorCodes.map((code) => [code, { $ref: `#/components/examples/${code}` }]));
}

/** Makes an example with the path of the last route that declares the code. */
function problemExample(code: Code, routes: readonly Route[], schemaOf: SchemaOf) {
  const route = routes.findLast((each) => failuresOf(each).includes(code));
  const path = route ? pathExample(pathTemplate(route), parameters(route, schemaOf)) : '/example';
  const errors = { 'rules.0.priority': ['must be an integer of at least 1'] };
  const failure = fail(code, code === 'validation_failed' ? { errors } : {});
  return { summary: problem(code).title, value: problemBody(failure, { path, requestId: 'checkout-7f3a' }) };
}

/** The path of a sample request, and those query parameters that have an example for it. */
export function requestTarget(path: string, parameters: readonly Parameter[]): string {
  const query = parameters.filter((each) => each.in === 'query' && typeof each.example === 'string');
  const pairs = query.map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
  return pathExample(path, parameters) + (pairs.length > 0 ? `?${pairs.join('&')}` : '');
}

function pathExample(path: string, parameters: readonly Parameter[]): string {
  return path.replace(/\{(\w+)\}/g, (parameter, name) => {
    const example = parameters.find((each) => each.in === 'path' && each.name === name)?.example;
    return example === undefined ? parameter : String(example).split('/').map(encodeURIComponent).join('/');
  });
}
