/** The part of JSON Schema 2020-12 that requests to destinations can be checked with. */
import { containsNoSecret, isWellFormed, secretError } from './common-fields.ts';
import type { Steps } from './steps.ts';

const types = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
type Type = (typeof types)[number];

export type RequestSchema = {
  readonly type?: Type | readonly Type[];
  readonly properties?: Readonly<Record<string, RequestSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | RequestSchema;
  readonly items?: RequestSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly description?: string;
};

const maxBytes = 8192;
const maxDepth = 20;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isType = (value: unknown) => types.includes(value as Type);

/** Whether the value of each keyword is valid, apart from the schemas in it. */
const keywords: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: (value) => isType(value) || (Array.isArray(value) && value.length > 0 && value.every(isType)),
  properties: isObject,
  required: (value) => Array.isArray(value) && value.every((name) => typeof name === 'string'),
  additionalProperties: (value) => typeof value === 'boolean' || isObject(value),
  items: isObject,
  enum: (value) => Array.isArray(value) && value.length > 0,
  const: () => true,
  minimum: (value) => typeof value === 'number',
  maximum: (value) => typeof value === 'number',
  maxLength: (value) => Number.isInteger(value) && (value as number) >= 0,
  description: (value) => typeof value === 'string',
};

/** What is wrong with a schema, or undefined. */
export function requestSchemaError(schema: unknown): string | undefined {
  if (!isObject(schema)) return 'must be an object';
  const text = JSON.stringify(schema);
  if (new TextEncoder().encode(text).length > maxBytes) return `may have at most ${maxBytes} bytes`;
  if (!isWellFormed(schema)) return 'must be well-formed Unicode';
  if (!containsNoSecret(text)) return secretError;
  return errorIn(schema, '', 0);
}

function errorIn(schema: Record<string, unknown>, at: string, depth: number): string | undefined {
  if (depth > maxDepth) return `may have at most ${maxDepth} levels`;
  const place = at && ` at ${at}`;
  for (const [keyword, value] of Object.entries(schema)) {
    if (!Object.hasOwn(keywords, keyword))
      return `has the keyword ${JSON.stringify(keyword)}${place}: only ${Object.keys(keywords).join(', ')} are supported`;
    if (!keywords[keyword]?.(value)) return `has an invalid value of ${keyword}${place}`;
  }
  const { properties, items, additionalProperties } = schema;
  const named = Object.entries(isObject(properties) ? properties : {});
  if (named.some(([name]) => name === '__proto__')) return `must not have a property named __proto__${place}`;
  const inner: (readonly [string, unknown])[] = named.map(([name, one]) => [`${at}/${escaped(name)}`, one]);
  if (items !== undefined) inner.push([`${at}/0`, items]);
  if (isObject(additionalProperties)) inner.push([`${at}/*`, additionalProperties]);
  for (const [path, one] of inner) {
    if (!isObject(one)) return `must have an object at ${path}`;
    const error = errorIn(one, path, depth + 1);
    if (error !== undefined) return error;
  }
  return undefined;
}

/** A part of a JSON pointer. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The first place of a value that does not meet the schema, with what is wrong there. */
export interface Mismatch {
  readonly at: string;
  readonly message: string;
}

/** `isForm`: all values are strings. A number is read from its digits, `true` and `false` are booleans. */
export function* findMismatch(
  schema: RequestSchema,
  value: unknown,
  isForm = false,
): Steps<Mismatch | undefined> {
  return yield* mismatch(schema, value, '', isForm);
}

function* mismatch(
  schema: RequestSchema,
  value: unknown,
  at: string,
  isForm: boolean,
): Steps<Mismatch | undefined> {
  yield;
  const message = messageFor(schema, value, isForm);
  if (message !== undefined) return { at, message };
  if (Array.isArray(value)) {
    if (schema.items)
      for (const [index, item] of value.entries()) {
        const found = yield* mismatch(schema.items, item, `${at}/${index}`, false);
        if (found) return found;
      }
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { properties = {}, additionalProperties = true } = schema;
  for (const [name, inner] of Object.entries(value)) {
    const path = `${at}/${escaped(name)}`;
    const known = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
    if (known === false) return { at: path, message: 'is not listed' };
    const found = isObject(known) ? yield* mismatch(known, inner, path, isForm) : undefined;
    if (found) return found;
  }
  return undefined;
}

function messageFor(schema: RequestSchema, value: unknown, isForm: boolean): string | undefined {
  const { type, required = [], minimum, maximum, maxLength } = schema;
  const read = isForm && typeof value === 'string' ? readingsOf(value) : [value];
  const allowed = type === undefined ? undefined : [type].flat();
  if (allowed && !read.some((one) => allowed.some((name) => hasType(one, name))))
    return `must be of the type ${allowed.join(' or ')}`;
  const missing = isObject(value) && required.find((name) => !Object.hasOwn(value, name));
  if (typeof missing === 'string') return `must have ${JSON.stringify(missing)}`;
  const isOneOf = (values: readonly unknown[]) =>
    read.some((one) => values.some((each) => isSameJson(each, one)));
  if ('const' in schema && !isOneOf([schema.const])) return 'must be the listed constant';
  if (schema.enum && !isOneOf(schema.enum)) return 'must be one of the listed values';
  const number = read.find((one) => typeof one === 'number');
  // Digits that are no number would otherwise pass a limit.
  if (isForm && number === undefined && typeof value === 'string' && (minimum ?? maximum) !== undefined)
    return 'must be a number';
  if (minimum !== undefined && number !== undefined && number < minimum) return `must be at least ${minimum}`;
  if (maximum !== undefined && number !== undefined && number > maximum) return `must be at most ${maximum}`;
  const isLong =
    typeof value === 'string' && maxLength !== undefined && lengthOf(value, maxLength) > maxLength;
  return isLong ? `may have at most ${maxLength} characters` : undefined;
}

/** What a form field can mean: text, and a number or boolean. */
function readingsOf(text: string): unknown[] {
  if (text === 'true' || text === 'false') return [text, text === 'true'];
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(text) ? [text, Number(text)] : [text];
}

function hasType(value: unknown, type: Type): boolean {
  if (type === 'object') return isObject(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'integer') return Number.isInteger(value);
  return type === 'null' ? value === null : typeof value === type;
}

/** In code points. Stops after twice the limit in code units, which is more than the limit. */
function lengthOf(text: string, limit: number): number {
  return text.length > 2 * limit ? text.length : [...text].length;
}

/** Ignores the order of names. */
function isSameJson(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((each, at) => isSameJson(each, other[at]));
  if (!isObject(one) || !isObject(other)) return one === other;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSameJson(one[name], other[name]))
  );
}
