import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { z } from 'zod';
import { type Code, codes, problem } from '../../../src/domain/error.ts';
import { Problem } from '../../../src/http/pipeline/problem.ts';
import { type Route, sendsEtag } from '../../../src/http/pipeline/route.ts';
import { type Schema, withoutNull } from '../../../src/http/reference/json-schema.ts';
import {
  type Content,
  type OpenApiResponse,
  openApi,
  problemJson,
} from '../../../src/http/reference/openapi.ts';
import { tags } from '../../../src/http/reference/tags.ts';
import { routes } from '../../../src/http/routes.ts';
import { OpenApi } from '../../support/openapi.ts';

const document = openApi(routes, '1.2.3');
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
);
const responsesOf = (responses: (typeof operations)[number]['responses']) =>
  Object.entries(responses).filter((entry): entry is [string, OpenApiResponse] => !('$ref' in entry[1]));
const routeOf = (name: string) => routes.find((route) => route.name === name) as Route;
const named = operations.map((operation) => [operation.operationId, operation] as const);

describe('the OpenAPI document', () => {
  test('conforms to OpenAPI 3.1', () => {
    expect(OpenApi.safeParse(document).error?.issues).toBeUndefined();
  });

  test('contains no dangling references and no unused components', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1]);
    expect(references.length).toBeGreaterThan(50);
    const dangling = references.filter((reference) => lookUp(reference as string) === undefined);
    expect(dangling).toEqual([]);
    const { securitySchemes: _, ...components } = document.components;
    const defined = Object.entries(components).flatMap(([kind, entries]) =>
      Object.keys(entries).map((name) => `#/components/${kind}/${name}`),
    );
    expect(defined.filter((reference) => !references.includes(reference))).toEqual([]);
  });

  test('contains every route under a unique operation id', () => {
    const names = operations.map(({ operationId }) => operationId);
    expect(new Set(names).size).toBe(names.length);
    expect(names.sort()).toEqual(routes.map(({ name }) => name).sort());
  });

  test('contains only the used tags, each with a description', () => {
    const used = new Set<string>(operations.map((operation) => operation.tags[0]));
    expect(document.tags.map(({ name }) => name)).toEqual(Object.keys(tags).filter((tag) => used.has(tag)));
    expect(document.tags.every(({ description }) => description.endsWith('.'))).toBe(true);
  });

  test('describes every field and parameter, and read-only fields have a type', () => {
    const missing: string[] = [];
    const visit = (schema: Schema, at: string) => {
      for (const [name, field] of Object.entries(schema.properties ?? {})) {
        const target = field.$ref ? (lookUp(field.$ref) as Schema) : field;
        const isObject = field.$ref !== undefined && target.properties !== undefined;
        if (!field.description && !isObject) missing.push(`${at}.${name}`);
        if (field.readOnly && !withoutNull(field).type) missing.push(`${at}.${name}`);
        visit(field, `${at}.${name}`);
      }
      if (schema.items) visit(schema.items, `${at}.*`);
      for (const option of schema.anyOf ?? []) visit(option, at);
    };
    for (const [name, schema] of Object.entries(document.components.schemas)) visit(schema, name);
    for (const { operationId, parameters, requestBody, responses } of operations) {
      for (const { name, description } of parameters) {
        if (!description) missing.push(`${operationId} ${name}`);
      }
      const bodies = [requestBody, ...responsesOf(responses).map(([, response]) => response)];
      for (const { schema } of bodies.flatMap((body) => Object.values(body?.content ?? {}))) {
        visit(schema, operationId);
      }
    }
    expect(missing).toEqual([]);
  });

  test('contains an example of every error code', () => {
    expect(Object.keys(document.components.examples)).toEqual(codes);
    for (const code of codes) {
      const value = Problem.strict().parse(document.components.examples[code]?.value);
      expect(value).toMatchObject({ code, ...problem(code), type: `/docs/reference/errors#${code}` });
    }
  });

  test('describes the encoding of query parameters', () => {
    const parameters = document.paths['/applications']?.get?.parameters ?? [];
    const find = (name: string) => parameters.find((parameter) => parameter.name === name);
    const items = { type: 'string', format: 'uuid' };
    expect(find('id')).toMatchObject({ style: 'form', explode: true });
    expect(find('id')?.schema).toEqual({ type: 'array', items, maxItems: 100 });
    expect(find('size')?.schema).toEqual({ type: 'integer', minimum: 1, maximum: 100, default: 20 });
  });

  test('describes a map in the query as a deepObject', () => {
    const parameters = document.paths['/tokens']?.get?.parameters ?? [];
    expect(parameters.find(({ name }) => name.startsWith('metadata'))).toMatchObject({
      name: 'metadata',
      required: false,
      style: 'deepObject',
      explode: true,
      schema: { type: 'object', maxProperties: 10, additionalProperties: { type: 'string' } },
      example: { customer: '42' },
    });
  });

  test('no field of a body has a default, because openapi-typescript would make it required', () => {
    const { schemas } = document.components;
    expect(schemas.ApplicationCreate?.required).toEqual(['name', 'type']);
    const fields = Object.values(schemas).flatMap(({ properties = {} }) => Object.values(properties));
    expect(fields.filter((field) => 'default' in field)).toEqual([]);
  });

  test('every object has fields or entries, because openapi-typescript would allow only an empty one', () => {
    const empty: string[] = [];
    const isObject = ({ type }: { type?: unknown }) => [type].flat().includes('object');
    const visit = (value: unknown, path: string) => {
      if (typeof value !== 'object' || value === null) return;
      if (isObject(value) && !('properties' in value) && !('additionalProperties' in value)) empty.push(path);
      for (const [name, part] of Object.entries(value))
        if (!/^examples?$/.test(name)) visit(part, `${path}/${name}`);
    };
    visit(document, '');
    expect(empty).toEqual([]);
  });

  test('allows any JSON in data and masks', () => {
    const { Token, TokenCreate, TokenPatch } = document.components.schemas;
    expect(Object.keys(Token?.properties?.data ?? {})).toEqual(['description']);
    expect(withoutNull(TokenCreate?.properties?.mask ?? {}).type).toEqual(['string', 'object', 'array']);
    expect(Object.keys(TokenPatch?.properties?.data ?? {})).toEqual(['description']);
    expect(TokenPatch?.properties?.type?.type).toEqual(['string', 'null']);
  });

  test('allows null only in request bodies', () => {
    const parameters = operations.flatMap((operation) => operation.parameters);
    const { Application, Session, Token } = document.components.schemas;
    expect(JSON.stringify([parameters, Application, Session, Token])).not.toContain('"null"');
  });

  test('lists both content types of a patch', () => {
    const typesOf = (operation = document.paths['/tokens']?.post) =>
      Object.keys(operation?.requestBody?.content ?? {});
    expect(typesOf()).toEqual(['application/json']);
    const patch = document.paths['/tokens/{id}']?.patch;
    expect(typesOf(patch)).toEqual(['application/json', 'application/merge-patch+json']);
  });
});

/**
 * Operations that ignore Idempotency-Key. A replay of `createSession` would give its session key to another holder of
 * the public key. The others can be repeated.
 */
const notIdempotent = [
  ...['createSession', 'exchangeToken', 'revokeKey', 'decide', 'evaluate', 'evaluateAll'],
  ...['searchSubjects', 'searchResources', 'searchActions', 'searchTokens'],
  ...['proxyPost', 'proxyPut', 'proxyPatch'], // The header is for the destination.
];

test('docs/reference/api.md names the changes without Idempotency-Key, and the resources with an ETag', async () => {
  const page = await Bun.file(join(import.meta.dirname, '../../../docs/reference/api.md')).text();
  const section = (heading: string) => page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0];
  const others = routes.filter(({ name, kind }) => notIdempotent.includes(name) && kind !== 'read');
  const named = /except ([^.]*)\./
    .exec(section('Idempotency') ?? '')?.[1]
    ?.split(/, | and /)
    .sort();
  expect(named).toEqual(others.map(({ method, path }) => `\`${method} ${path}\``).sort());
  const kinds = routes.filter(sendsEtag).map(({ path }) => path.split('/')[1]?.slice(0, -1));
  expect(new Set(kinds)).toEqual(new Set(['application', 'token', 'destination']));
  for (const kind of kinds) expect(section('Concurrent changes')).toContain(` ${kind}`);
});

/** Operations that check If-Match. */
const conditional = [
  ...[
    'updateApplication',
    'deleteApplication',
    'regenerateKey',
    'quarantineApplication',
    'releaseApplication',
  ],
  ...['replaceToken', 'updateToken', 'deleteToken', 'updateDestination', 'deleteDestination'],
];
const withEtag = [
  ...['createApplication', 'getApplication', 'getApplicationByKey', 'updateApplication', 'regenerateKey'],
  ...['quarantineApplication', 'createToken', 'getToken', 'updateToken', 'replaceToken'],
  ...['createDestination', 'getDestination', 'updateDestination'],
];

describe.each(named)('%s in the OpenAPI document', (name, operation) => {
  const route = routeOf(name);

  test('declares exactly the parameters of its path', () => {
    const inPath = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string);
    const declared = operation.parameters.filter((parameter) => parameter.in === 'path');
    expect(declared.map((parameter) => parameter.name)).toEqual(inPath);
    expect(declared.every((parameter) => parameter.required && parameter.example !== undefined)).toBe(true);
    expect(operation.path).not.toContain(':');
  });

  test('states the required key or permission', () => {
    const permission = route.kind === 'open' ? undefined : route.permission;
    expect(operation['x-permission']).toBe(permission);
    if (permission) {
      expect(operation.description.split('\n\n').at(-1)).toContain(`\`${permission}\``);
    }
    // If `security` is undefined, the requirement of the whole document applies.
    const keys = route.conventions ? [{ key: [] }, { bearer: [] }] : undefined;
    expect(operation.security).toEqual(route.kind === 'open' ? [] : keys);
  });

  test('lists its error codes under their statuses', () => {
    const failures = responsesOf(operation.responses).flatMap(([status, { content }]) =>
      Object.keys(content?.[problemJson]?.examples ?? {}).map((code) => [code, Number(status)]),
    );
    for (const [code, status] of failures) {
      expect(codes).toContain(code as Code);
      expect(problem(code as Code).status).toBe(status as number);
    }
    expect(failures.length).toBeGreaterThanOrEqual(route.kind === 'open' ? 0 : 3);
    expect(operation.responses.default).toEqual({ $ref: '#/components/responses/Problem' });
  });

  test('has the request id in every response', () => {
    for (const [, { headers }] of responsesOf(operation.responses)) {
      expect(headers['SVC-REQUEST-ID']).toEqual({ $ref: '#/components/headers/SVC-REQUEST-ID' });
    }
  });

  test('declares the request id, and Idempotency-Key and the purpose if it supports them', () => {
    const headers = operation.parameters.filter((parameter) => parameter.in === 'header');
    const isIdempotent = ['post', 'put', 'patch'].includes(operation.method) && !notIdempotent.includes(name);
    const expected = [
      ...(isIdempotent ? ['Idempotency-Key'] : []),
      ...(conditional.includes(name) ? ['If-Match'] : []),
      'SVC-REQUEST-ID',
      ...(route.conventions ? ['X-Request-ID'] : []),
      ...(route.kind === 'open' ? [] : ['SVC-PURPOSE', 'DPoP']),
    ];
    expect(headers.map((parameter) => parameter.name)).toEqual(expected);
    expect(
      headers.every((parameter) =>
        new RegExp(parameter.schema.pattern ?? '').test(String(parameter.example)),
      ),
    ).toBe(true);
    const replayed = responsesOf(operation.responses).filter(
      ([, response]) => 'Idempotency-Replayed' in response.headers,
    );
    const successes = responsesOf(operation.responses).filter(([status]) => Number(status) < 300);
    expect(replayed).toEqual(isIdempotent ? successes : []);
    expect('412' in operation.responses).toBe(conditional.includes(name));
    const versioned = successes.filter(([, response]) => 'ETag' in response.headers);
    expect(versioned).toEqual(withEtag.includes(name) ? successes : []);
  });

  test('has examples that the service accepts and returns', () => {
    if (route.kind !== 'open' && route.body)
      expect(route.body.safeParse(route.bodyExample).error).toBeUndefined();
    for (const { schema, example } of Object.values(route.replies)) {
      if (schema) expect(schema.parse(example)).toEqual(example);
    }
  });

  test('allows null in an optional field if and only if the service does', () => {
    const body = operation.requestBody?.content['application/json'];
    if (!body || route.kind === 'open') return;
    const { properties = {}, required = [] } = lookUp(body.schema.$ref ?? '') as Schema;
    const schema = fromDocument(body.schema);
    for (const field of Object.keys(properties)) {
      if (required.includes(field)) continue;
      const sent = { ...(body.example as object), [field]: null };
      const isAccepted = route.body?.safeParse(sent).success === true;
      expect([field, schema.safeParse(sent).success]).toEqual([field, isAccepted]);
    }
  });

  test('has examples that match its JSON schemas', () => {
    const bodies: (Content | undefined)[] = [
      operation.requestBody?.content['application/json'],
      ...responsesOf(operation.responses).map(([, { content }]) => content?.['application/json']),
    ];
    for (const body of bodies) {
      if (!body) continue;
      expect(body.example).toBeDefined();
      expect(fromDocument(body.schema).safeParse(body.example).error).toBeUndefined();
    }
  });
});

function lookUp(reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], document);
}

function fromDocument(schema: Schema): z.ZodType {
  const whole = JSON.stringify({ ...schema, $defs: document.components.schemas });
  return z.fromJSONSchema(JSON.parse(whole.replaceAll('#/components/schemas/', '#/$defs/')));
}
