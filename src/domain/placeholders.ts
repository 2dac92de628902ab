/** Requests with placeholders: which tokens they name, the request with the data inserted, and the parts of the reply that are returned. */
import {
  type DestinationRequest,
  formPrefix,
  headerPrefix,
  maxPlaceholders,
  type Placeholder,
} from './destination.ts';
import { minEcho } from './echoes.ts';
import { fail } from './error.ts';
import { cut } from './escape.ts';
import { maxFormFields, parseForm } from './form.ts';
import { jsonError } from './json-errors.ts';
import { jsonLimitError } from './json-limits.ts';
import { findInexactNumber } from './number-precision.ts';
import { findMismatch } from './request-schema.ts';
import type { Steps } from './steps.ts';

const placeholder = /^\{\{\s*token:\s*([A-Za-z0-9._:-]{3,200})\s*\}\}$/;
const anyPlaceholder = /\{\{\s*token:/i;

/** The parts of a caller's request that are passed on. Names of headers are in lower case. */
export interface CallerRequest {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: ReadonlyMap<string, string>;
  readonly body:
    | { readonly type: 'json' | 'form'; readonly text: string }
    | { readonly type: 'any'; readonly bytes: Uint8Array }
    | undefined;
}

export interface FilledRequest {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array | undefined;
  /** The inserted texts by token. None of them may be in the reply. */
  readonly inserted: ReadonlyMap<string, readonly string[]>;
}

export interface PreparedRequest {
  readonly tokens: readonly string[];
  /** Inserts the data of the tokens. Throws `placeholder_unusable` if data does not fit. */
  fill(dataOf: (token: string) => unknown): FilledRequest;
}

/** A part of a request that `GET /proxy` does not list. */
export function unlisted(what: string) {
  const detail = `The destination does not list ${what}. \`GET /proxy\` returns what it lists.`;
  return fail('request_not_listed', { detail });
}

/** Finds the placeholders. Throws `request_not_listed`, `placeholder_not_allowed` or `validation_failed`. */
export function* prepareRequest(listed: DestinationRequest, request: CallerRequest): Steps<PreparedRequest> {
  const { path, query, headers } = request;
  const names = [...query.keys()];
  const unknown = names.find((name) => !listed.query.includes(name));
  if (unknown !== undefined) throw unlisted(`the parameter ${cut(unknown, 200)} for this request`);
  if (new Set(names).size < names.length) throw unlisted('the same parameter twice');
  const anyBody = request.body?.type === 'any' ? request.body.bytes : undefined;
  const body =
    request.body?.type === 'json'
      ? yield* jsonBody(request.body.text)
      : request.body?.type === 'form'
        ? formBody(request.body.text)
        : undefined;
  yield;
  if (listed.schema) {
    if (!body) throw unlisted('this request without a body');
    const isForm = request.body?.type === 'form';
    const mismatch = yield* findMismatch(listed.schema, body.value(), isForm);
    if (mismatch) {
      const place = mismatch.at ? `\`${cut(mismatch.at, 200)}\` of the body` : 'the body';
      throw unlisted(`this body: ${place} ${mismatch.message}`);
    }
  }
  const found: { readonly at: Placeholder; readonly token: string }[] = [];
  const taken = (at: Placeholder, value: unknown): boolean => {
    const text = typeof value === 'string' ? value : '';
    const token = placeholder.exec(
      at.prefix && text.startsWith(at.prefix) ? text.slice(at.prefix.length) : text,
    )?.[1];
    if (token !== undefined) found.push({ at, token });
    return token !== undefined;
  };
  const passed: Record<string, string> = {};
  for (const name of listed.headers) {
    const value = headers.get(name);
    if (value !== undefined) passed[name] = value;
  }
  for (const at of listed.placeholders) {
    const header = at.at.startsWith(headerPrefix) ? at.at.slice(headerPrefix.length) : undefined;
    if (header === undefined) body?.replace(at.at, (value) => (taken(at, value) ? '' : undefined));
    else if (taken(at, headers.get(header))) delete passed[header];
  }
  const used = new Set(found.map(({ at }) => at.at));
  const others = [...headers].filter(([name]) => !used.has(headerPrefix + name)).map(([, value]) => value);
  const texts = [path, ...names, ...query.values(), ...others, ...(body?.texts() ?? [])];
  const tokens = [...new Set(found.map(({ token }) => token))];
  if (texts.some((text) => anyPlaceholder.test(text)) || tokens.length > maxPlaceholders)
    throw fail('placeholder_not_allowed');
  yield;
  const search = names.length === 0 ? '' : `?${query}`;
  return {
    tokens,
    fill: (dataOf) => {
      const inserted = new Map<string, string[]>();
      const filled = { ...passed };
      let shares = 0;
      for (const { at, token } of found) {
        const value = valueFor(at, dataOf(token));
        // Without the prefix: the reply may have the value alone.
        const data = at.prefix === undefined ? value : (value as string).slice(at.prefix.length);
        const texts = leavesOf(data).filter((text) => text.length >= minEcho);
        shares += sharesOf(
          typeof value === 'string' ? value.length : JSON.stringify(value).length,
          texts.length,
        );
        if (shares > maxPlaceholders) throw fail('placeholder_unusable');
        inserted.set(token, [...(inserted.get(token) ?? []), ...texts]);
        if (at.at.startsWith(headerPrefix)) filled[at.at.slice(headerPrefix.length)] = value as string;
        else body?.replace(at.at, () => value);
      }
      return { path: path + search, headers: filled, body: anyBody ?? body?.write(), inserted };
    },
  };
}

/** Characters of one share. Limits the time to insert the data. */
const shareSize = 13_000;
/** Texts of one share. Limits the time to look for them in a reply. */
const shareTexts = 5;

/**
 * How many of the `maxPlaceholders` shares of a request a value takes. With a limit on the sum of exact sizes, a caller
 * could measure hidden data beside own data of chosen size.
 */
function sharesOf(size: number, texts: number): number {
  const fits = (shares: number) => size <= shares * shareSize && texts <= shares * shareTexts;
  return [1, 4, maxPlaceholders].find(fits) ?? Number.POSITIVE_INFINITY;
}

function valueFor({ at, from, prefix = '' }: Placeholder, data: unknown): unknown {
  const value = from === undefined ? data : find(data, from);
  if (value === undefined) throw fail('placeholder_unusable');
  const isJson = !at.startsWith(headerPrefix) && !at.startsWith(formPrefix);
  if (isJson && prefix === '') return value;
  if (typeof value !== 'string' && typeof value !== 'number') throw fail('placeholder_unusable');
  const text = prefix + value;
  const fits = at.startsWith(headerPrefix) ? /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/ : /^\P{Cc}*$/u;
  if (!isJson && !fits.test(text)) throw fail('placeholder_unusable');
  return text;
}

/** A body that was parsed, to be written anew: the destination reads exactly what was checked. */
interface Body {
  /** For the schema. A form is an object of strings. */
  value(): unknown;
  /** Replaces the value at a place by the result of `by`, if that is defined. Ignores a place without a value. */
  replace(at: string, by: (value: unknown) => unknown): void;
  /** All names and texts. */
  texts(): string[];
  write(): string;
}

function* jsonBody(text: string): Steps<Body> {
  const error = jsonLimitError(text);
  if (error !== undefined) throw invalidBody(error);
  yield;
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    throw invalidBody(jsonError(text));
  }
  yield;
  if ((yield* findInexactNumber(text)) !== undefined)
    throw invalidBody('has a number that cannot be sent exactly');
  yield;
  // Every member of an object has one colon outside of strings. `JSON.parse` returns one of several with the same name.
  if (membersIn(root) !== colonsIn(text)) throw invalidBody('must not have the same name twice in an object');
  return {
    replace: (at, by) => {
      if (at.startsWith(formPrefix)) return;
      const parts = partsOf(at);
      const last = parts.pop() as string;
      const parent = parts.reduce(child, root);
      const value = child(parent, last);
      const next = value === undefined ? undefined : by(value);
      if (next !== undefined) (parent as Record<string, unknown>)[last] = next;
    },
    value: () => root,
    texts: () => namesAndTexts(root),
    write: () => JSON.stringify(root),
  };
}

/** The colons outside of strings. */
function colonsIn(text: string): number {
  let [colons, isInside] = [0, false];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isInside && code === 0x5c) at++;
    else if (code === 0x22) isInside = !isInside;
    else if (code === 0x3a && !isInside) colons++;
  }
  return colons;
}

function formBody(text: string): Body {
  const fields = parseForm(text);
  if (!fields) throw invalidBody(`must have at most ${maxFormFields} fields`);
  const names = [...fields.keys()];
  if (new Set(names).size < names.length) throw invalidBody('must not have the same field twice');
  return {
    replace: (at, by) => {
      const name = at.startsWith(formPrefix) ? at.slice(formPrefix.length) : undefined;
      const value = name === undefined ? null : fields.get(name);
      const next = value === null ? undefined : by(value);
      if (name !== undefined && next !== undefined) fields.set(name, String(next));
    },
    value: () => Object.fromEntries(fields),
    texts: () => [...fields].flat(),
    write: () => fields.toString(),
  };
}

function invalidBody(message: string) {
  return fail('validation_failed', { errors: { body: [message] } });
}

function partsOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function child(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value) && !/^(0|[1-9]\d{0,5})$/.test(name)) return undefined;
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

/** The value at a JSON pointer (RFC 6901). Undefined if it does not exist. */
function find(value: unknown, pointer: string): unknown {
  return partsOf(pointer).reduce(child, value);
}

function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const values: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  let members = Array.isArray(value) ? 0 : values.length;
  for (const each of values) members += membersIn(each);
  return members;
}

/** The strings and numbers in a value, as text. */
function leavesOf(value: unknown): string[] {
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(leavesOf);
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : [];
}

/** Adds to one list: to copy the texts of each level would take the depth times as long. */
function namesAndTexts(value: unknown, texts: string[] = []): string[] {
  if (typeof value === 'string' || typeof value === 'number') texts.push(String(value));
  if (typeof value !== 'object' || value === null) return texts;
  if (!Array.isArray(value)) for (const name of Object.keys(value)) texts.push(name);
  // `Object.values` of a long list is slow.
  for (const inner of Array.isArray(value) ? value : Object.values(value)) namesAndTexts(inner, texts);
  return texts;
}

/** The listed parts of a JSON value, in their places. Undefined if none exists. Other elements of lists are null. */
export function selectParts(value: unknown, pointers: readonly string[]): unknown {
  if (pointers.includes('')) return value;
  let result: unknown;
  for (const pointer of pointers) {
    const found = find(value, pointer);
    if (found === undefined) continue;
    let source = value;
    result ??= Array.isArray(source) ? [] : {};
    let target = result as Record<string, unknown>;
    const parts = partsOf(pointer);
    for (const [at, name] of parts.entries()) {
      source = child(source, name);
      if (Array.isArray(target))
        for (let index = target.length; index < Number(name); index++) target[index] = null;
      const inner = Array.isArray(source) ? [] : {};
      const next = at === parts.length - 1 ? found : (Object.hasOwn(target, name) && target[name]) || inner;
      Object.defineProperty(target, name, {
        value: next,
        enumerable: true,
        writable: true,
        configurable: true,
      });
      target = next as Record<string, unknown>;
    }
  }
  return result;
}
