/** Invalid requests to every route, generated from the API reference: what it does not allow is rejected by name. */
import { describe, expect, test } from 'bun:test';
import type { KeyedRoute } from '../../../src/http/pipeline/route.ts';
import type { Schema } from '../../../src/http/reference/json-schema.ts';
import { openApi } from '../../../src/http/reference/openapi.ts';
import { routes } from '../../../src/http/routes.ts';
import { allRows } from '../../support/database.ts';
import { authenticatedRoutes, routeCaller } from '../../support/route-access.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

type Invalid = readonly [part: string, what: string, sent: unknown];

// biome-ignore lint/suspicious/noExplicitAny: a JSON document
const document: any = openApi(routes, '1.0.0');
const operationOf = ({ path, method }: KeyedRoute) =>
  document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];

function resolve(schema: Schema): Schema {
  const names = schema.$ref?.slice(2).split('/');
  return names ? resolve(names.reduce((part, name) => part[name], document)) : schema;
}

const optionsOf = (schema: Schema): Schema[] => {
  const own = resolve(schema);
  return own.anyOf ? own.anyOf.flatMap(optionsOf) : [own];
};

const samples = { null: null, boolean: true, number: 1.5, string: 'x', array: [[]], object: {} };

/** Values that the schema does not allow. */
function* wrongValues(schema: Schema, isRequired: boolean): Generator<[what: string, value: unknown]> {
  const options = optionsOf(schema);
  for (const [type, value] of Object.entries(samples)) {
    const isAllowed = options.some(
      (option) => option.type === undefined || [option.type].flat().includes(type),
    );
    // In an optional field, null means absent.
    if (!isAllowed && (type !== 'null' || isRequired)) yield [`of type ${type}`, value];
  }
  const [only, ...others] = options.filter(({ type }) => type !== 'null');
  if (!only || others.length > 0) return;
  const { maxLength, minLength, minimum, maximum, maxItems, minItems } = only;
  if (only.enum || only.const) yield ['that is not listed', 'nonsense'];
  if (only.format === 'date-time') yield ['that is no time', 'soon'];
  if (only.pattern) yield ['of another form', '\u0001'];
  if (maxLength !== undefined) yield ['that is too long', 'a'.repeat(maxLength + 1)];
  if (minLength) yield ['that is too short', ''];
  if (minimum !== undefined) yield ['that is too small', minimum - 1];
  if (maximum !== undefined) yield ['that is too large', maximum + 1];
  if (maxItems !== undefined) yield ['that is too long', Array(maxItems + 1).fill('x')];
  if (minItems) yield ['that is empty', []];
}

/** The value with one part that the schema does not allow. With `isOpen`, unknown fields are ignored. */
function* invalid(schema: Schema, value: unknown, isOpen: boolean, at = ''): Generator<Invalid> {
  for (const option of optionsOf(schema)) {
    if (Array.isArray(value) && option.items)
      for (const [part, what, item] of invalid(option.items, value[0], isOpen, `${at}0.`))
        yield [part, what, [item, ...value.slice(1)]];
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !option.properties) continue;
    for (const [name, field] of Object.entries(option.properties)) {
      const [part, isRequired] = [at + name, option.required?.includes(name) ?? false];
      if (resolve(field).readOnly) continue;
      if (isRequired) yield [part, 'that is missing', { ...value, [name]: undefined }];
      for (const [what, wrong] of wrongValues(field, isRequired))
        yield [part, what, { ...value, [name]: wrong }];
      const own = (value as Record<string, unknown>)[name];
      for (const [inner, what, changed] of invalid(field, own, isOpen, `${part}.`))
        yield [inner, what, { ...value, [name]: changed }];
    }
    if (isOpen) continue;
    for (const name of ['colour', '__proto__', 'constructor', ''])
      for (const sent of ['x', null]) yield [at + name, 'that is unknown', withField(value, name, sent)];
  }
}

/** Also sets `__proto__` as a field. */
const withField = (value: object, name: string, sent: unknown) =>
  Object.defineProperty({ ...value }, name, { value: sent, enumerable: true });

/** Values for a parameter that is sent as text. */
function* invalidQueries(route: KeyedRoute): Generator<Invalid> {
  for (const name of ['colour', '__proto__', 'constructor', 'PAGE'])
    yield [name, 'that is unknown', `${name}=1`];
  for (const given of operationOf(route).parameters ?? []) {
    const { in: place, name, schema } = given.$ref ? (resolve(given) as unknown as typeof given) : given;
    if (place !== 'query' || name.includes('[')) continue;
    const [only] = optionsOf(schema);
    yield [name, 'that is empty', `${name}=`];
    if (only?.type === 'integer')
      for (const text of ['x', '1.5', '1e3', '+1', '9'.repeat(20)])
        yield [name, text, `${name}=${encodeURIComponent(text)}`];
    for (const [what, value] of wrongValues(schema, false))
      if (!what.startsWith('of type') && !Array.isArray(value))
        yield [name, what, `${name}=${encodeURIComponent(String(value))}`];
    if (only?.type !== 'array') yield [name, 'that is repeated', `${name}=1&${name}=1`];
  }
}

const named = (route: KeyedRoute) => [route.name, route] as const;
/** `evaluateAll` rejects an invalid evaluation alone, in a response of status 200. */
const withBody = authenticatedRoutes.filter(
  (route) => operationOf(route)?.requestBody && route.name !== 'evaluateAll',
);
const schemaOf = (route: KeyedRoute): Schema =>
  operationOf(route).requestBody.content['application/json'].schema;

/** The example of the route, with the prepared values in place of secrets. Changing the data of a token needs reveal. */
function validBody({ name, bodyExample = {} }: KeyedRoute, prepared: unknown): object {
  const shown = Object.entries(bodyExample as object).filter(([, value]) => !String(value).includes('…'));
  return { ...(name !== 'updateToken' && (prepared as object)), ...Object.fromEntries(shown) };
}

/** AuthZEN wants unknown fields to be ignored. */
const isAuthZen = ({ path }: KeyedRoute) => path.startsWith('/access/v1/');

describe('an invalid request', async () => {
  const server = await openTestServer(sqlite, { SALLYPORT_RATE_PER_KEY: '0' });
  const { prepare } = routeCaller((...asked) => server.call(...asked));
  const rows = async () => {
    const all = Object.entries(await allRows(server.config.databaseUrl));
    return Object.fromEntries(all.filter(([table]) => !table.startsWith('audit_')));
  };
  const partsOf = ({ errors = {} }: { errors?: object }) => Object.keys(errors);

  test.each(withBody.map(named))(
    'of %s is rejected by the name of its field, and changes nothing',
    async (_, route) => {
      const { path, key, body } = await prepare(route, await server.tenant());
      const valid = validBody(route, body);
      const before = await rows();
      const send = (sent: unknown) => server.call(route.method, path, { key, body: JSON.stringify(sent) });
      const found: unknown[] = [];
      for (const [part, what, sent] of invalid(schemaOf(route), valid, isAuthZen(route))) {
        const answer = await send(sent);
        const isNamed = partsOf(answer.body).some((name) => name === part || name.startsWith(`${part}.`));
        if (answer.status !== 400 || !isNamed) found.push([part, what, answer.status, partsOf(answer.body)]);
      }
      for (const sent of [...('bodyIfMissing' in route ? [] : [null, undefined]), [], 'x', 1]) {
        const answer = await send(sent);
        if (answer.status !== 400 || partsOf(answer.body).join() !== 'body')
          found.push([sent, answer.status]);
      }
      expect(found).toEqual([]);
      expect(await rows()).toEqual(before);
      expect((await send(valid)).status).toBeLessThan(300);
    },
  );

  // No key of `prepare` holds `token:use`.
  const withQuery = authenticatedRoutes.filter(({ permission }) => permission !== 'token:use');
  test.each(withQuery.map(named))('of %s is rejected by the name of its parameter', async (_, route) => {
    const { path, key, body } = await prepare(route, await server.tenant());
    const before = await rows();
    const found: unknown[] = [];
    for (const [part, what, query] of invalidQueries(route)) {
      const at = `${path.split('?')[0]}?${query}`;
      const answer = await server.call(route.method, at, { key, body });
      const isNamed = partsOf(answer.body).some((name) => name === part || name.startsWith(`${part}.`));
      if (answer.status !== 400 || !isNamed)
        found.push([part, what, query, answer.status, partsOf(answer.body)]);
    }
    expect(found).toEqual([]);
    expect(await rows()).toEqual(before);
  });

  const withoutBody = authenticatedRoutes.filter(
    (route) => route.method === 'POST' && !operationOf(route)?.requestBody,
  );
  test.each(withoutBody.map(named))(
    'of %s is rejected by the name of its field, if it takes none',
    async (_, route) => {
      const { path, key } = await prepare(route, await server.tenant());
      const { status, body } = await server.call(route.method, path, { key, body: { colour: 1 } });
      expect([status, partsOf(body)]).toEqual([400, ['colour']]);
    },
  );
});
