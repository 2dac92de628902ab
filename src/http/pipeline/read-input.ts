/** Reads and validates path, query and body. */
import { z } from 'zod';
import { Failure, fail, throwIfInvalid } from '../../domain/error.ts';
import { maxFormFields, parseForm } from '../../domain/form.ts';
import { jsonError, utf8Error } from '../../domain/json-errors.ts';
import { jsonLimitError } from '../../domain/json-limits.ts';
import { findInexactNumber } from '../../domain/number-precision.ts';
import type { Principal } from '../../domain/principal.ts';
import { collect } from '../../domain/received-bytes.ts';
import { runSteps, type Steps } from '../../domain/steps.ts';
import { validate } from '../../domain/validate.ts';
import { matchAny, readIfMatch } from './etag.ts';
import type { RequestInfo } from './request-info.ts';
import { smallBytes } from './request-memory.ts';
import { type Call, type KeyedRoute, takesIfMatch } from './route.ts';
import { sharedTurn } from './shared-turn.ts';

export const jsonTypes = ['application/json'];
export const formType = 'application/x-www-form-urlencoded';
export const mergePatchTypes = ['application/merge-patch+json', ...jsonTypes];

/** Maximum size of a body in bytes. An endpoint can declare another maximum. */
export const bodyLimit = 65_536;

export interface Json {
  /** Undefined without a body. */
  readonly value: unknown;
  readonly text: string;
}

/** `readJson` throws `failure` later, so that a caller without access gets 401 or 403 first. */
export interface ReceivedBody {
  readonly bytes: Uint8Array;
  readonly failure?: Failure;
  /**
   * Whether the service had to wait for the body, because it was not complete in the turn of the event loop that
   * received the headers. The key is then checked again, because it may have been revoked.
   */
  readonly late: boolean;
}

/** A request with its path parameters. Bun parses them on the first access, so access them only if needed. */
export type RoutedRequest = Request & { readonly params?: Readonly<Record<string, string>> };

/** Validates all input of a request. Throws `validation_failed`, `too_large` or `unsupported_media_type`. */
export function readInput(
  route: KeyedRoute,
  principal: Principal,
  request: RoutedRequest,
  received: ReceivedBody | undefined,
  requestInfo: RequestInfo,
): Call {
  if (route.isRaw) return rawInput(principal, request, received, requestInfo);
  const json = received && parseBody(route, received, request.headers);
  if (json) runSteps(requireExactNumbers(json));
  return validateInput(route, principal, request, json, requestInfo);
}

/** Like `readInput`, for a large body. */
export function* inputSteps(
  route: KeyedRoute,
  principal: Principal,
  request: RoutedRequest,
  received: ReceivedBody,
  requestInfo: RequestInfo,
): Steps<Call> {
  if (route.isRaw) return rawInput(principal, request, received, requestInfo);
  const json = parseBody(route, received, request.headers);
  yield;
  yield* requireExactNumbers(json);
  yield;
  return validateInput(route, principal, request, json, requestInfo);
}

function rawInput(
  principal: Principal,
  request: RoutedRequest,
  body: ReceivedBody | undefined,
  requestInfo: RequestInfo,
): Call {
  const unread = { params: undefined, query: undefined, bodyText: '', requireMatch: matchAny };
  return { ...unread, principal, body, requestInfo, request };
}

function validateInput(
  route: KeyedRoute,
  principal: Principal,
  request: RoutedRequest,
  json: Json | undefined,
  requestInfo: RequestInfo,
): Call {
  const params = route.params && validate(route.params, request.params, 'path');
  const query = readQuery(route.query, request.url);
  const body = json && validateBody(route, json.value);
  const requireMatch = takesIfMatch(route) ? readIfMatch(request.headers) : matchAny;
  return { principal, params, query, body, bodyText: json?.text ?? '', requireMatch, requestInfo };
}

const noBody: Json = { value: undefined, text: '' };

/** Bodies with more bytes than this are read one after the other, so that they do not delay other requests. */
export const largeBody = 16_384;

/** Some clients always send a JSON object, so an operation without a body accepts an empty one. */
const NoFields = z.strictObject({});

function parseBody({ method, conventions }: KeyedRoute, received: ReceivedBody, headers: Headers): Json {
  const types = method === 'PATCH' ? mergePatchTypes : jsonTypes;
  return parseJson(received, headers, types, conventions?.wrongContentType);
}

function validateBody({ body, bodyIfMissing }: KeyedRoute, value: unknown): unknown {
  if (body) return validate(body, value ?? bodyIfMissing, 'body');
  return value === undefined ? undefined : validate(NoFields, value, 'body');
}

/** What schemas make of no query. */
const withoutQuery = new WeakMap<z.ZodType, unknown>();

/** Without a schema, rejects every parameter. */
export function readQuery(schema: z.ZodType | undefined, url: string): unknown {
  const queryStart = url.indexOf('?');
  if (queryStart < 0) {
    if (!schema || withoutQuery.has(schema)) return schema && withoutQuery.get(schema);
    const query = validate(schema, {}, 'query');
    withoutQuery.set(schema, Object.freeze(query));
    return query;
  }
  const text = url.slice(queryStart + 1);
  requireUtf8(text);
  const search = new URLSearchParams(text);
  return schema
    ? validate(schema, queryFields(search), 'query')
    : validate(NoFields, Object.fromEntries(search), 'query');
}

/** Bytes that are not UTF-8 all become U+FFFD, so that a subject with them would be that of others. */
function requireUtf8(query: string): void {
  try {
    decodeURIComponent(query.replace(/%(?![\da-f]{2})/gi, '%25'));
  } catch {
    throwIfInvalid({ query: ['must be percent-encoded UTF-8'] });
  }
}

/**
 * A repeated parameter becomes a list; `NAME[KEY]=VALUE` becomes an entry of `NAME`. Maps are not nested, so that
 * `NAME[KEY][KEY]` is an unknown parameter.
 */
function queryFields(search: URLSearchParams): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  const maps: Record<string, Record<string, unknown>> = Object.create(null);
  const values = new Map<string, string[]>();
  for (const [name, value] of search) {
    const known = values.get(name);
    if (known) known.push(value);
    else values.set(name, [value]);
  }
  for (const [name, given] of values) {
    const value = given.length === 1 ? given[0] : given;
    const [, map, entry = ''] = /^(\w+)\[((?:(?!\]\[).)+)\]$/s.exec(name) ?? [];
    if (map === undefined) query[name] = value;
    else {
      maps[map] ??= Object.create(null) as Record<string, unknown>;
      maps[map][entry] = value;
    }
  }
  // A parameter with the name of a map is not overwritten, so that the schema rejects it.
  return { ...maps, ...query };
}

/** Bytes of memory per byte of a large body: the body, its text, its value, and what is stored and returned. */
const bodyCost = 4;

/** The memory to reserve before `receiveBody`. 0 for a small body, and for one that is refused without being read. */
export function memoryOfBody(request: Request, limit: number): number {
  const length = declaredLength(request) ?? limit;
  return length > smallBytes && length <= limit ? bodyCost * length : 0;
}

/** Undefined if the body comes in chunks. */
export function declaredLength(request: Request): number | undefined {
  const declared = request.headers.get('content-length');
  if (declared !== null) return Number(declared);
  return isChunked(request) ? undefined : 0;
}

/** Whether the length of the body is unknown, so that Bun reads it until its end. */
export function isChunked({ headers }: Request): boolean {
  return headers.has('transfer-encoding');
}

/** Whether so much of a body that was not read may follow that the connection cannot be used again. */
export function hasLargeBody(request: Request): boolean {
  return (declaredLength(request) ?? Number.POSITIVE_INFINITY) > smallBytes;
}

/** Receives the body up to the limit. Never rejects. */
export async function receiveBody(request: Request, limit: number): Promise<ReceivedBody> {
  const turn = sharedTurn();
  try {
    const bytes = await receiveBytes(request, limit);
    return { bytes, late: sharedTurn() !== turn };
  } catch (error) {
    const failure = error instanceof Failure ? error : invalid('did not arrive completely');
    return { bytes: new Uint8Array(), failure, late: sharedTurn() !== turn };
  }
}

function receiveBytes(request: Request, limit: number): Promise<Uint8Array> {
  const declared = declaredLength(request);
  if (declared !== undefined && declared > limit) throw tooLarge(`may have at most ${limit} bytes`);
  if (declared === undefined && request.body) return collect(request.body, limit, tooLarge);
  return request.bytes();
}

function tooLarge(problem: string) {
  return fail('too_large', { detail: `The body ${problem}.` });
}

/** Parses a body. Throws `validation_failed` if it has a number that cannot be stored exactly. */
export function readJson(...received: Parameters<typeof parseJson>): Json {
  const json = parseJson(...received);
  runSteps(requireExactNumbers(json));
  return json;
}

function parseJson(
  { bytes, failure }: ReceivedBody,
  headers: Headers,
  types: readonly string[],
  wrongContentType = () => fail('unsupported_media_type'),
): Json {
  if (failure) throw failure;
  if (bytes.length === 0) return noBody;
  if (!isContentType(types, headers.get('content-type'))) throw wrongContentType();
  return parse(bytes);
}

/** Parses a form. Throws `unsupported_media_type` for other bodies, and `too_large` for too many fields. */
export function readForm({ bytes, failure }: ReceivedBody, headers: Headers): URLSearchParams {
  if (failure) throw failure;
  if (!isContentType([formType], headers.get('content-type')))
    throw fail('unsupported_media_type', { detail: `The body must be ${formType}.` });
  const form = parseForm(Buffer.from(bytes).toString());
  if (!form) throw tooLarge(`may have at most ${maxFormFields} fields`);
  return form;
}

function* requireExactNumbers({ text }: Json): Steps<void> {
  const path = yield* findInexactNumber(text);
  if (path !== undefined)
    throw invalid('is a number that cannot be stored exactly: send it as a string', path);
}

/** Accepts no parameter other than `charset=utf-8`. */
export function isContentType(types: readonly string[], contentType: string | null): boolean {
  if (contentType !== null && types.includes(contentType)) return true;
  const [type, ...parameters] = (contentType ?? '')
    .toLowerCase()
    .split(';')
    .map((part) => part.trim());
  return (
    types.includes(type as string) && parameters.every((each) => /^(charset\s*=\s*"?utf-8"?)?$/.test(each))
  );
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parse(bytes: Uint8Array): Json {
  const text = readText(bytes);
  const error = jsonLimitError(text);
  if (error !== undefined) throw invalid(error);
  try {
    return { value: JSON.parse(text), text };
  } catch {
    throw invalid(jsonError(text));
  }
}

/** Throws `validation_failed` if the bytes are not UTF-8. */
export function readText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalid(utf8Error(bytes));
  }
}

function invalid(message: string, path?: string) {
  return fail('validation_failed', { errors: { [path || 'body']: [message] } });
}
