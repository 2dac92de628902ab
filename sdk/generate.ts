/**
 * Writes src/api.ts, the types and the table of operations, from the declarations that the server validates
 * requests with. `--check` only reports whether the file is up to date.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { version } from '../src/config/version.ts';
import { builtIn, Permission } from '../src/domain/permission.ts';
import type { KeyedRoute } from '../src/http/pipeline/route.ts';
import { jsonSchema, type Schema, withoutNull } from '../src/http/reference/json-schema.ts';
import { openApi } from '../src/http/reference/openapi.ts';
import { routes } from '../src/http/routes.ts';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly {
    name: string;
    in: string;
    required: boolean;
    schema: Schema;
    description?: string;
  }[];
  readonly requestBody?: { required: boolean; content: Record<string, { schema: Schema }> };
  readonly responses: Record<string, { content?: Record<string, { schema: Schema }> }>;
}

const document = openApi(routes, version) as unknown as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

/** Endpoints that serve pages and documents, or that `proxy` of the client calls. */
const excluded = ['getOpenApi', 'getHome'];
const isExcluded = (name: string) => excluded.includes(name) || name.startsWith('proxy');
const primitives: Record<string, string> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};

/** Permission names are recognised by their pattern, because their descriptions differ from field to field. */
const permissionPattern = jsonSchema(Permission, {}).pattern;

function typeOf(schema: Schema): string {
  if (schema.pattern !== undefined && schema.pattern === permissionPattern) return 'PermissionName';
  if (schema.$ref) return schema.$ref.split('/').at(-1) as string;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(' | ');
  if (schema.type === 'array') return `Array<${typeOf(schema.items ?? {})}>`;
  if (schema.type === 'object') return objectOf(schema);
  return primitives[schema.type ?? ''] ?? 'unknown';
}

function objectOf({ properties, required = [], additionalProperties }: Schema): string {
  if (!properties || Object.keys(properties).length === 0)
    return `Record<string, ${typeof additionalProperties === 'object' ? typeOf(additionalProperties) : 'unknown'}>`;
  const fields = Object.entries(properties).map(([name, field]) =>
    [
      comment(field.description),
      `${quoted(name)}${required.includes(name) ? '' : '?'}: ${typeOf(withoutNull(field))};`,
    ].join(''),
  );
  return `{\n${fields.join('\n')}\n}`;
}

function comment(text: string | undefined): string {
  return text === undefined ? '' : `/** ${text.replaceAll('*/', '* /').replace(/\s+/g, ' ')} */\n`;
}

function quoted(name: string): string {
  return /^[a-z_]\w*$/i.test(name) ? name : JSON.stringify(name);
}

function inputOf(operation: Operation): string {
  const group = (location: string) =>
    (operation.parameters ?? []).filter((parameter) => parameter.in === location);
  const fields = (location: string) =>
    group(location).map(
      ({ name, required, schema, description }) =>
        `${comment(description)}${name}${required ? '' : '?'}: ${typeOf(schema)};`,
    );
  const [path, query] = [fields('path'), fields('query')];
  const body = operation.requestBody && Object.values(operation.requestBody.content)[0];
  const parts = [
    ...(path.length > 0 ? [`params: {\n${path.join('\n')}\n};`] : []),
    ...(query.length > 0
      ? [`query${group('query').some(({ required }) => required) ? '' : '?'}: {\n${query.join('\n')}\n};`]
      : []),
    ...(body ? [`body${operation.requestBody?.required ? '' : '?'}: ${typeOf(body.schema)};`] : []),
  ];
  return parts.length > 0 ? `{ ${parts.join(' ')} }` : 'Record<never, never>';
}

function replyOf({ responses }: Operation): string {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
  const content = success?.content && Object.values(success.content)[0];
  return content ? typeOf(content.schema) : 'undefined';
}

function generated(): string {
  const schemas = Object.entries(document.components.schemas).filter(([name]) => name !== 'OpenApi');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { operationId }]) => !isExcluded(operationId))
      .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const types = schemas.map(([name, schema]) =>
    schema.type === 'object' && schema.properties
      ? `export interface ${name} ${objectOf(schema)}\n`
      : `export type ${name} = ${typeOf(schema)};\n`,
  );
  const shapes = operations.map(
    ({ operation }) =>
      `${comment(operation.summary)}${operation.operationId}: { input: ${inputOf(operation)}; reply: ${replyOf(operation)} };`,
  );
  const table = operations.map(
    ({ path, method, operation }) => `${operation.operationId}: ${JSON.stringify([method, path])},`,
  );
  const required = operations.flatMap(({ operation: { operationId } }) => {
    const { permission } = routes.find(({ name }) => name === operationId) as KeyedRoute;
    return permission ? [`${operationId}: ${JSON.stringify(permission)},`] : [];
  });
  return [
    '// Generated by npm run sdk from the declarations in src/http. Do not edit.',
    '/** The permissions that Sallyport checks. */',
    `export type BuiltInPermission = ${builtIn.map((name) => JSON.stringify(name)).join(' | ')};\n`,
    '/** A built-in or a custom permission, such as `invoice:read`. */',
    'export type PermissionName = BuiltInPermission | (string & Record<never, never>);\n',
    ...types,
    `export interface Operations {\n${shapes.join('\n')}\n}\n`,
    `export const operations = { ${table.join('\n')} } as const satisfies Record<keyof Operations, readonly [method: string, path: string]>;\n`,
    '/** The permission that an operation needs. A table of its own, which the frames do not load. */',
    `export const requiredPermissions: { readonly [Name in keyof Operations]?: BuiltInPermission } = { ${required.join('\n')} };\n`,
  ].join('\n');
}

const target = join(import.meta.dirname, 'src/api.ts');
const formatted = await new Response(
  Bun.spawn(['biome', 'format', '--stdin-file-path', target], {
    stdin: new Blob([generated()]),
    env: { ...process.env, PATH: `${join(import.meta.dirname, '../node_modules/.bin')}:${process.env.PATH}` },
  }).stdout,
).text();
const current = (await Bun.file(target).exists()) ? readFileSync(target, 'utf8') : '';
if (process.argv.includes('--check')) {
  if (current !== formatted) {
    console.error('sdk/src/api.ts is not up to date: run npm run sdk');
    process.exitCode = 1;
  }
} else if (current !== formatted) writeFileSync(target, formatted);
