/**
 * Every place of every endpoint that takes a text, each with bad texts: path, query, headers, fields of the body, the body
 * as a whole and its framing. The places follow from the route table and the schemas, so a new endpoint needs nothing.
 */
import type { z } from 'zod';
import { bodyLimit as defaultBodyLimit } from '../../src/http/pipeline/read-input.ts';
import { type Route, takesBody } from '../../src/http/pipeline/route.ts';
import { jsonSchema, type Schema } from '../../src/http/reference/json-schema.ts';
import { requestHeaders } from '../../src/http/reference/openapi-headers.ts';
import { read, sources } from '../../test/support/source-files.ts';
import type { Random } from '../random.ts';
import { allTexts, type BadText, badTexts, badValues } from './grammar.ts';

/** A valid request. */
export interface Base {
  readonly path: string;
  readonly key: string | undefined;
  readonly body: unknown;
  readonly headers?: readonly string[];
}

/** A request to be sent. */
export interface Sent {
  readonly path: string;
  readonly key: string | undefined;
  readonly headers: readonly string[];
  readonly body?: string | undefined;
  /** Whether the body has no length, and each byte is a chunk. */
  readonly inChunks?: boolean;
  /** How often it is sent, without waiting for a response. */
  readonly times?: number;
}

export interface Variation {
  readonly name: string;
  /** The field of the body that has the place. Others can be left out if they are wrong now. */
  readonly field?: string | undefined;
  /** Whether a short run needs it, too. */
  readonly isTelling?: boolean;
  apply(base: Base): Sent;
}

/**
 * How many texts a place gets, or values. Fields that take any JSON get all. The same code reads most places of all
 * routes, so together these get all texts many times.
 */
const some = 10;
const few = 2;
/** Bytes of a path, a query or a header. Bun takes 16 KiB for all. */
const headBytes = 12_000;

export function variationsOf(route: Route, random: Random): Variation[] {
  return [
    { name: 'a valid request', apply: (base) => sent(route, base) },
    ...inPath(route, random),
    ...inQuery(route, random),
    ...inHeaders(route, random),
    ...framings(route),
    ...(takesBody(route) ? inBody(route, random) : []),
  ];
}

function sent(
  route: Route,
  { path, key, body, headers: given = [] }: Base,
  changes: Partial<Sent> = {},
): Sent {
  const isForm = route.kind === 'open' && route.bodyType !== undefined;
  const own = body === undefined ? undefined : isForm ? formOf(body) : JSON.stringify(body);
  const text = changes.body ?? own;
  const type = isForm ? route.bodyType : 'application/json';
  const headers = text === undefined ? given : [...given, `Content-Type: ${type}`];
  return { path, key, headers, ...changes, body: text };
}

function formOf(body: unknown): string {
  if (typeof body !== 'object' || body === null) return '';
  return new URLSearchParams(Object.entries(body).map(([name, value]) => [name, String(value)])).toString();
}

const encoded = (text: string) => encodeURIComponent(text.toWellFormed());

/** Texts in percent-encoding, and unchanged if a request line can have them. */
function inLine(random: Random, count: number): BadText[] {
  const escaped = badTexts(random, count, headBytes, encoded).map(({ name, text }) => ({
    name,
    text: () => encoded(text()),
  }));
  const raw = badTexts(random, count, headBytes, String).map(({ name, text }) => ({
    name: `${name}, not encoded`,
    text: () => text().replace(/[^!"$-;=>@-~]/g, '_'),
  }));
  return [...escaped, ...raw];
}

function inPath(route: Route, random: Random): Variation[] {
  return route.path.split('/').flatMap((part, at) =>
    !/^[:*]/.test(part)
      ? []
      : inLine(random, few).map(({ name, text }) => ({
          name: `path ${part}: ${name}`,
          apply: (base) => {
            const [path = '', ...query] = base.path.split('?');
            const changed = path.split('/').with(at, text()).join('/');
            return sent(route, base, { path: [changed, ...query].join('?') });
          },
        })),
  );
}

function inQuery(route: Route, random: Random): Variation[] {
  const schema = route.kind === 'open' ? undefined : schemaOf(route.query);
  const starts = Object.entries(schema?.properties ?? {}).flatMap(([name, { type }]) =>
    type === 'object' ? [`${name}[a]=`, `${name}[`] : [`${name}=`],
  );
  return ['', 'unknown=', ...starts].flatMap((start) =>
    inLine(random, few).map(({ name, text }) => ({
      name: `query ${start}: ${name}`,
      apply: (base) => {
        const [path, query] = base.path.split('?');
        const others = new URLSearchParams(query);
        others.delete(start.slice(0, -1));
        const end = start.endsWith('[') ? ']=v' : '';
        return sent(route, base, { path: `${path}?${others}&${start}${text()}${end}` });
      },
    })),
  );
}

/** Names of headers that the source reads, apart from those of the framing. */
const headersInSource = new Set(
  sources
    .flatMap((path) => [...read(path).matchAll(/headers\.(?:get|has)\('([\w-]+)'\)/g)])
    .map(([, name]) => (name as string).toLowerCase())
    .filter((name) => !['content-length', 'transfer-encoding'].includes(name)),
);

function inHeaders(route: Route, random: Random): Variation[] {
  const names = [
    ...new Set([...headersInSource, ...requestHeaders(route).map(({ name }) => name.toLowerCase())]),
  ];
  return names.flatMap((header) =>
    badTexts(random, few, headBytes, String).map(({ name, text }) => ({
      name: `header ${header}: ${name}`,
      apply: (base) => {
        const value = Buffer.from(text())
          .toString('latin1')
          .replace(/[\0\r\n]/g, ' ');
        const start = header === 'authorization' ? random.one(['Bearer ', 'DPoP ', '']) : '';
        const ownKey = header === 'svc-api-key' ? undefined : base.key;
        const changed = sent(route, { ...base, key: ownKey });
        const others = changed.headers.filter((line) => !line.toLowerCase().startsWith(`${header}:`));
        return { ...changed, headers: [...others, `${header}: ${start}${value}`] };
      },
    })),
  );
}

/** The valid body after white space, whole and in chunks of one byte, with a key and without. */
function framings(route: Route): Variation[] {
  const limit = route.bodyLimit ?? defaultBodyLimit;
  const padded = (base: Base, bytes: number) => {
    const own = sent(route, base).body ?? '';
    return own.padStart(bytes - Buffer.byteLength(own) + own.length);
  };
  const framed = (name: string, apply: Variation['apply']): Variation => ({
    name: `body: ${name}`,
    isTelling: takesBody(route),
    apply,
  });
  const inChunks = true;
  const nobody = (base: Base) => ({ ...base, key: undefined });
  const times = 20_000;
  return [
    framed('white space', (base) => sent(route, base, { body: padded(base, limit) })),
    framed('chunks of one byte', (base) => sent(route, base, { body: padded(base, limit), inChunks })),
    framed('chunks of one byte, without a key', (base) =>
      sent(route, nobody(base), { body: padded(base, limit), inChunks }),
    ),
    framed('chunks of one byte, too many', (base) =>
      sent(route, base, { body: ' '.repeat(limit + 1000), inChunks }),
    ),
    framed('many requests at once', (base) => sent(route, { ...base, body: undefined }, { times })),
    framed('many requests at once, without a key', (base) =>
      sent(route, { ...nobody(base), body: undefined }, { times }),
    ),
  ];
}

interface Step {
  readonly key: string | number;
  /** The value there. */
  readonly schema: Schema;
}

function inBody(route: Route, random: Random): Variation[] {
  const limit = route.bodyLimit ?? defaultBodyLimit;
  const isRaw = route.kind !== 'open' && route.isRaw;
  const schema = schemaOf(route.body) ?? { type: 'object', properties: isRaw ? { note: {} } : {} };
  const isForm = route.kind === 'open' && route.bodyType !== undefined;
  const whole = (name: string, body: () => string): Variation => ({
    name: `body: ${name}`,
    apply: (base) => sent(route, base, { body: body() }),
  });
  const wholes: Variation[] = [
    ...badTexts(random, some, limit, String).map(({ name, text }) => whole(name, text)),
    ...random
      .shuffled(badValues)
      .slice(0, some)
      .map(({ name, json }) => whole(name, () => json(limit, route.bodyExample))),
  ];
  const fields = () => Array.from({ length: limit / 5 }, (_, at) => at.toString(36)).join('&');
  const forms = [...badTexts(random, allTexts, limit, String), { name: 'fields, a&b&c', text: fields }];
  if (isRaw) wholes.push(...forms.map((bad) => asForm(route, bad)));
  if (isForm) {
    const fields = Object.keys(schema.properties ?? {});
    const inFields = fields.flatMap((field) =>
      badTexts(random, some, limit - 1000, encoded).map(({ name, text }) => ({
        name: `form ${field}: ${name}`,
        apply: (base: Base) => sent(route, { ...base, body: { ...(base.body as object), [field]: text() } }),
      })),
    );
    return [...wholes, ...inFields];
  }
  const inPlaces = placesOf(schema).flatMap((steps): Variation[] => {
    const place = (steps.at(-1) as Step).schema;
    const name = steps.map(({ key }) => key).join('.');
    const field = String(steps[0]?.key);
    const isAny = isAnything(place);
    const room = limit - Buffer.byteLength(JSON.stringify(route.bodyExample ?? {})) - 2000;
    const at = (what: string, json: (example: unknown) => string, isTelling = false): Variation => ({
      name: `field ${name}: ${what}`,
      field,
      isTelling,
      apply: (base) => {
        const body = base.body ?? route.bodyExample ?? sample(schema);
        return sent(route, base, { body: withJson(body, steps, json) });
      },
    });
    const isText = isAny || typesOf(place).includes('string');
    const most = place.maxLength;
    const isWhole = isAny && steps.length === 1;
    const count = isWhole ? allTexts : place.enum ? few : some;
    const ofText = (bytes: number, characters?: number) =>
      badTexts(random, count, bytes, JSON.stringify, characters).map(({ name, text }) =>
        at(name, () => JSON.stringify(text())),
      );
    const structured = isAny || typesOf(place).some((type) => type === 'object' || type === 'array');
    return [
      ...(isText ? ofText(room) : []),
      ...(isText && (isAny || most) ? ofText(room, most ?? 1000) : []),
      ...(structured ? random.shuffled(badValues).slice(0, isWhole ? badValues.length : some) : []).map(
        (bad) => at(bad.name, (example) => bad.json(room, example), isWhole && bad.isTelling),
      ),
    ];
  });
  return [...wholes, ...inPlaces];
}

/** The text as the form that a route takes beside JSON. */
function asForm(route: Route, { name, text }: BadText): Variation {
  return {
    name: `form: ${name}`,
    isTelling: name.includes('&'),
    apply: ({ headers = [], ...base }) => {
      const type = 'Content-Type: application/x-www-form-urlencoded';
      const { headers: _, ...request } = sent(route, base, { body: text() });
      return { ...request, headers: [...headers, type] };
    },
  };
}

function schemaOf(type: z.ZodType | undefined): Schema | undefined {
  if (!type) return undefined;
  return resolved(jsonSchema(type, components));
}

const components: Record<string, Schema> = {};

function resolved(schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1);
  if (name === undefined) return schema;
  const { $ref: _, ...own } = schema;
  return { ...components[name], ...own };
}

function typesOf(schema: Schema): string[] {
  const own = [schema.type ?? []].flat();
  return [...own, ...(schema.anyOf ?? []).flatMap((option) => typesOf(resolved(option)))];
}

/** Whether the place takes any JSON. */
function isAnything(schema: Schema): boolean {
  return typesOf(schema).length === 0 && schema.enum === undefined && schema.const === undefined;
}

const deepest = 8;

/** All places of a body, from the root. The first element of a list stands for all. */
function placesOf(schema: Schema, before: readonly Step[] = []): Step[][] {
  const options = [schema, ...(schema.anyOf ?? [])].map(resolved);
  if (before.length >= deepest) return [];
  return options.flatMap(({ properties = {}, items, additionalProperties, ...own }) => {
    const inner = Object.entries(properties).map(([key, each]): Step => ({ key, schema: resolved(each) }));
    if (items) inner.push({ key: 0, schema: resolved(items) });
    if (typeof additionalProperties === 'object' && Object.keys(additionalProperties).length > 0)
      inner.push({ key: 'number', schema: resolved(additionalProperties) });
    const last = before.at(-1)?.key ?? 'number';
    if (isAnything(own) && last !== 'number') inner.push({ key: 'number', schema: {} });
    return inner.flatMap((step) => {
      const steps = [...before, step];
      return [steps, ...placesOf(step.schema, steps)];
    });
  });
}

/** A value that the schema accepts, where it says enough. */
function sample(schema: Schema): unknown {
  const { const: only, enum: options, examples, anyOf, properties, required = [], items, minItems } = schema;
  const [first] = examples ?? options ?? [];
  if (only !== undefined || first !== undefined) return only ?? first;
  if (anyOf) return sample(resolved(anyOf[0] as Schema));
  const [type] = typesOf(schema);
  if (type === 'object') {
    const needed = Object.entries(properties ?? {}).filter(([name]) => required.includes(name));
    return Object.fromEntries(needed.map(([name, each]) => [name, sample(resolved(each))]));
  }
  if (type === 'array') return minItems ? [sample(resolved(items ?? {}))] : [];
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1;
  if (type === 'boolean') return false;
  if (schema.format === 'date-time') return new Date(Date.now() + 3_600_000).toISOString();
  return schema.format === 'uuid' ? crypto.randomUUID() : 'x'.repeat(schema.minLength ?? 1);
}

const marker = '@here@';

/** The body as text, with other JSON at a place. Values on the way there are created. */
function withJson(body: unknown, steps: readonly Step[], json: (example: unknown) => string): string {
  const root = structuredClone(body) as Record<string | number, unknown>;
  let parent = root;
  for (const { key, schema } of steps.slice(0, -1)) {
    const isParent = typeof parent[key] === 'object' && parent[key] !== null;
    if (!isParent) parent[key] = sample(schema);
    if (typeof parent[key] !== 'object' || parent[key] === null) parent[key] = {};
    parent = parent[key] as Record<string | number, unknown>;
  }
  const { key, schema } = steps.at(-1) as Step;
  const example = parent[key] ?? sample(schema);
  parent[key] = marker;
  return JSON.stringify(root).replace(`"${marker}"`, () => json(example));
}
