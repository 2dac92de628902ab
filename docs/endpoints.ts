/** Generates reference/endpoints.md from the OpenAPI document. */
import { version } from '../src/config/version.ts';
import type { Schema } from '../src/http/reference/json-schema.ts';
import { type Operation, openApi, problemJson, requestTarget } from '../src/http/reference/openapi.ts';
import type { Parameter } from '../src/http/reference/openapi-headers.ts';
import { documentedRoutes } from '../src/http/routes.ts';
import { lines, table } from './markdown.ts';

const document = openApi(
  documentedRoutes.filter(({ path }) => path !== '/'),
  version,
);
const { schemas } = document.components;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
);
const headers = new Map(
  operations.flatMap(({ operation }) =>
    operation.parameters.flatMap((each) => (each.in === 'header' ? [[each.name, each] as const] : [])),
  ),
);
/** Errors of every endpoint that needs a key. */
const commonErrors = operations
  .filter(({ operation }) => operation.security?.length !== 0)
  .map(({ operation }) => errorsOf(operation).map(([, code]) => code))
  .reduce((all, some) => all.filter((code) => some.includes(code)));

export function endpointsPage(): string {
  const groups = document.tags.map(({ name, description }) =>
    lines(
      `## ${name}`,
      description,
      ...operations.filter(({ operation }) => operation.tags.includes(name as never)).map(section),
    ),
  );
  return lines(
    '# Endpoints',
    'Every endpoint with its parameters, fields and errors. [API](api.md) describes what they share. A running service has the same as OpenAPI 3.1 at `/openapi.json`. An optional field may be left out of a request, and may be missing in a response.',
    `Every endpoint that needs a key also returns ${listOf(commonErrors.map(linkToError))}.`,
    '## Request headers',
    table(
      ['header', 'meaning'],
      [...headers].map(([name, { description = '' }]) => [`\`${name}\``, description]),
    ),
    ...groups,
    '## Objects',
    ...Object.entries(schemas)
      .filter(([, schema]) => fieldsOf(schema).length > 0)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, schema]) => lines(`### Object ${name}`, fieldTable(fieldsOf(schema)))),
  );
}

const linkToError = (code: string) => `[\`${code}\`](errors.md#${code})`;

function listOf(items: readonly string[]): string {
  return items.length < 2 ? items.join() : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}

function errorsOf({ responses }: Operation): [status: string, code: string][] {
  return Object.entries(responses).flatMap(([status, response]) =>
    '$ref' in response
      ? []
      : Object.keys(response.content?.[problemJson]?.examples ?? {}).map((code): [string, string] => [
          status,
          code,
        ]),
  );
}

/** The anchor of an endpoint on the page. */
export function anchorOf({ summary }: Pick<Operation, 'summary'>): string {
  return summary
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

function section({ method, path, operation }: Entry): string {
  const { summary, description, requestBody, parameters } = operation;
  const own = parameters.filter((each) => each.in !== 'header');
  const names = parameters.flatMap((each) => (each.in === 'header' ? [`\`${each.name}\``] : []));
  const body = requestBody && Object.values(requestBody.content)[0];
  const [shape = '', ...rest] = body ? shapeOf(body.schema) : [];
  return lines(
    `### ${summary}`,
    `\`${method} ${path}\``,
    description,
    ...(own.length > 0 ? [parameterTable(own)] : []),
    ...(body ? [`**Request body** ${shape} ${requestBody.description}`, ...rest] : []),
    ...responses(operation),
    `[Headers](#request-headers): ${listOf(names)}.`,
    example(method, path, operation),
  );
}

function parameterTable(parameters: readonly Parameter[]): string {
  const rows = parameters.map(({ name, in: place, required, schema, description }) => [
    `\`${name}\``,
    place,
    typeOf(schema),
    meaning({ ...schema, ...(description !== undefined && { description }) }, required),
  ]);
  return table(['parameter', 'in', 'type', 'meaning'], rows);
}

/** The type, and a table of the fields of an object that has no name. */
function shapeOf(schema: Schema): string[] {
  const fields = schema.$ref === undefined ? fieldsOf(schema) : [];
  return fields.length > 0 ? ['An object.', fieldTable(fields)] : [`${typeOf(schema)}.`];
}

function responses(operation: Operation): string[] {
  const errors = errorsOf(operation)
    .filter(([, code]) => !commonErrors.includes(code))
    .map(([status, code]) => `${status} ${linkToError(code)}`);
  const successes = Object.entries(operation.responses).flatMap(([status, response]) => {
    if ('$ref' in response || response.content?.[problemJson]) return [];
    const schema = response.content?.['application/json']?.schema;
    const [shape = '', ...rest] = schema ? shapeOf(schema) : ['No body.'];
    return [`**${status}** ${response.description} ${shape}`, ...rest];
  });
  return [...successes, ...(errors.length > 0 ? [`**Errors** ${errors.join(', ')}.`] : [])];
}

function example(method: string, path: string, operation: Operation): string {
  const request = operation.requestBody && Object.entries(operation.requestBody.content)[0];
  const value = request?.[1].example;
  const isForm = request?.[0] === 'application/x-www-form-urlencoded';
  const body = isForm
    ? new URLSearchParams(value as Record<string, string>).toString()
    : JSON.stringify(value, null, 2);
  const lead = `${method} ${requestTarget(path, operation.parameters)}`;
  const reply = Object.values(operation.responses)
    .flatMap((response) => ('content' in response ? [response.content?.['application/json']?.example] : []))
    .find((each) => each !== undefined);
  return lines(
    `\`\`\`http\n${lead}${value === undefined ? '' : `\n\n${body}`}\n\`\`\``,
    ...(reply === undefined ? [] : [`\`\`\`json\n${JSON.stringify(reply, null, 2)}\n\`\`\``]),
  );
}

interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
}

/** Fields of unnamed objects are listed with those that contain them. */
function fieldsOf({ properties = {}, required = [] }: Schema, prefix = ''): Field[] {
  return Object.entries(properties).flatMap(([name, field]) => {
    const own = { name: prefix + name, schema: field, required: required.includes(name) };
    const inner = (field.anyOf ?? [field]).flatMap((each) =>
      each.$ref === undefined
        ? [each, ...(each.items && each.items.$ref === undefined ? [each.items] : [])]
        : [],
    );
    const suffix = (each: Schema) => (inner.some(({ items }) => items === each) ? '[].' : '.');
    return [own, ...inner.flatMap((each) => fieldsOf(each, own.name + suffix(each)))];
  });
}

function fieldTable(fields: readonly Field[]): string {
  return table(
    ['field', 'type', 'meaning'],
    fields.map(({ name, schema, required }) => [`\`${name}\``, typeOf(schema), meaning(schema, required)]),
  );
}

function meaning(schema: Schema, required: boolean): string {
  const values = schema.enum?.map((value) => `\`${value}\``).join(', ');
  const parts = [
    schema.readOnly ? 'Read-only.' : !required && 'Optional.',
    schema.description,
    values && `One of ${values}.`,
    ...[
      range(schema.minLength, schema.maxLength, ' characters'),
      range(schema.minimum, schema.maximum),
      range(schema.minItems, schema.maxItems, ' items'),
      schema.default !== undefined && `Default: \`${JSON.stringify(schema.default)}\``,
    ].map((limit) => limit && `${limit}.`),
  ];
  return parts.filter(Boolean).join(' ').replace(/\s+/g, ' ');
}

function range(min: number | undefined, max: number | undefined, unit = ''): string | false {
  const known = max === Number.MAX_SAFE_INTEGER ? undefined : max;
  if (min === undefined && known === undefined) return false;
  const [from, to] = [min?.toLocaleString('en'), known?.toLocaleString('en')];
  if (from === undefined) return `At most ${to}${unit}`;
  return to === undefined ? `At least ${from}${unit}` : `${from} to ${to}${unit}`;
}

function typeOf(schema: Schema): string {
  const name = schema.$ref?.slice(schema.$ref.lastIndexOf('/') + 1);
  if (name !== undefined)
    return schemas[name] && fieldsOf(schemas[name]).length > 0
      ? `[${name}](#object-${name.toLowerCase()})`
      : typeOf(schemas[name] ?? {});
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeOf))].join(' or ');
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.type === 'array') return schema.items ? `list of ${typeOf(schema.items)}` : 'list';
  const values = schema.additionalProperties;
  if (schema.type === 'object' && typeof values === 'object') return `map of ${typeOf(values)}`;
  return schema.format ?? [schema.type ?? 'any JSON'].flat().join(' or ');
}
