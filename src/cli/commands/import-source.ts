/** The applications and tokens that `sallyport import` copies, read from the API of another vault or from a file. */

import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FileLine, readFileLines } from '../../db/line-reader.ts';
import { findInexactNumber } from '../../domain/number-precision.ts';
import { canonicalContainer, compareTransforms, type Transform } from '../../domain/rule.ts';
import { runSteps } from '../../domain/steps.ts';
import { isObject } from '../../domain/token.ts';
import { CommandError } from '../errors.ts';
import { requireFile } from '../terminal/files.ts';

/** An application or token with the fields of the source. */
export type SourceRecord = Readonly<Record<string, unknown>>;

/** Where a record comes from. */
export interface Origin {
  /** Identifies the record in messages. */
  readonly place: string;
  /** The number of its line in a file, from 1. */
  readonly line?: number;
  readonly id?: string;
  readonly name?: string;
  /** The unparsed record, without a line feed. */
  readonly raw: () => string | Uint8Array;
}

/** Why a record is not copied. If the API would reject the record, too, `code` is that of the API. */
export interface Fault {
  readonly code:
    | 'invalid_json'
    | 'inexact_number'
    | 'id_missing'
    | 'id_repeated'
    | 'name_repeated'
    | 'data_missing'
    | 'several_containers'
    | 'mask_failed'
    | 'validation_failed'
    | 'too_large'
    | 'token_exists'
    | 'different'
    | 'copy_differs'
    | 'conflict';
  readonly error: string;
}

export type SourceItem = Origin & ({ readonly record: SourceRecord } | Fault);

export type Kind = 'applications' | 'tokens';

export interface Source {
  /** Throws the reason of `stop` when that is aborted. */
  read(kind: Kind, stop?: AbortSignal): AsyncIterable<SourceItem>;
  /** The number of records that the source says it has. Undefined if it does not say. */
  total(kind: Kind): Promise<number | undefined>;
}

export interface ApiSourceOptions {
  readonly url: string;
  readonly key: string;
  readonly keyHeader: string;
}

const pageSize = 100;
const timeout = 60_000;
const maxAttempts = 6;

export function apiSource(options: ApiSourceOptions): Source {
  return {
    read: (kind, stop) => readPages((path) => getJson(options, path, stop), `/${kind}`),
    total: async (kind) => totalOf(parsePage(await getJson(options, `/${kind}?page=1&size=1`), `/${kind}`)),
  };
}

interface Page {
  readonly data: readonly SourceRecord[];
  readonly pagination: Readonly<Record<string, unknown>>;
}

/**
 * Follows the cursor `next` or `after` if the source returns one, and counts pages otherwise. Returns a record once,
 * even if records that were added during the import moved it to another page.
 */
async function* readPages(get: (path: string) => Promise<unknown>, path: string): AsyncGenerator<SourceItem> {
  const seen = new Set<unknown>();
  let query = 'page=1';
  for (let page = 1; ; page++) {
    const { data, pagination } = parsePage(await get(`${path}?${query}&size=${pageSize}`), path);
    const before = seen.size;
    for (const record of data) {
      if (seen.has(record.id)) continue;
      seen.add(record.id);
      const id = String(record.id);
      yield { place: id, id, record, raw: () => JSON.stringify(record) };
    }
    const cursor = pagination.next ?? pagination.after;
    const next = typeof cursor === 'string' ? `start=${encodeURIComponent(cursor)}` : undefined;
    const isLast = query.startsWith('start=') || data.length === 0 || page === pagination.total_pages;
    if (next === undefined && isLast) return;
    // A source that ignores `page` or the cursor would return its first page forever.
    if (next === query || (next === undefined && seen.size === before))
      throw new CommandError(
        `the source returns the same page of ${path} again`,
        'export the source to JSON lines',
      );
    query = next ?? `page=${page + 1}`;
  }
}

function parsePage(body: unknown, path: string): Page {
  if (!isObject(body) || !Array.isArray(body.data) || !body.data.every(isObject))
    throw new CommandError(`the source returned no list for ${path}`, 'check --from-url');
  if (!body.data.every(({ id }) => typeof id === 'string'))
    throw new CommandError(`the source returned an entry without an id for ${path}`);
  return { data: body.data, pagination: isObject(body.pagination) ? body.pagination : {} };
}

function totalOf({ pagination }: Page): number | undefined {
  return typeof pagination.total_items === 'number' ? pagination.total_items : undefined;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: number;
}

/** Retries lost connections and the statuses 429 and 5xx. */
async function getJson(options: ApiSourceOptions, path: string, stop?: AbortSignal): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    const answer = await send(options, path, stop).catch((error: Error) => error);
    stop?.throwIfAborted();
    const isError = answer instanceof Error;
    if (!isError && answer.status === 200) return parseJson(answer.text, path);
    const isTemporary = isError || answer.status === 429 || answer.status >= 500;
    if (!isTemporary || attempt === maxAttempts) {
      const reason = isError ? answer.message : `status ${answer.status}`;
      const hint = 'check --from-url, --from-key-file and --from-key-header';
      const message = `GET ${path.split('?')[0]} of the source failed: ${reason}`;
      throw new CommandError(message, hint, isTemporary ? 3 : 4);
    }
    const seconds = isError ? Number.NaN : answer.retryAfter;
    const delay = Number.isFinite(seconds) ? Math.min(seconds, 60) * 1000 : 250 * 2 ** attempt;
    await sleep(delay, undefined, stop && { signal: stop }).catch(() => stop?.throwIfAborted());
  }
}

/** A redirect is an error, because it would send the key to another address. */
async function send(
  { url, key, keyHeader }: ApiSourceOptions,
  path: string,
  stop: AbortSignal | undefined,
): Promise<Answer> {
  const headers = { [keyHeader]: key, Accept: 'application/json' };
  const response = await fetch(url + path, {
    headers,
    redirect: 'error',
    signal: AbortSignal.any([AbortSignal.timeout(timeout), ...(stop ? [stop] : [])]),
  });
  const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN);
  return { status: response.status, text: await response.text(), retryAfter };
}

function parseJson(text: string, path: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CommandError(`the source returned no JSON for ${path.split('?')[0]}`, 'check --from-url');
  }
  const inexact = runSteps(findInexactNumber(text));
  if (inexact === undefined) return value;
  throw new CommandError(
    `the source returned a number with too many digits: ${inexact}`,
    'export the source to JSON lines, with this number as a string',
  );
}

/** Throws CommandError unless the key of the source reads the plaintext of all its tokens. */
export async function requireReveal(options: ApiSourceOptions): Promise<void> {
  const hint =
    'use a key with one rule for the container / with transform reveal and permission token:read, or pass --skip-reveal-check';
  const application = await getJson(options, '/applications/key').catch((error: CommandError) => {
    throw new CommandError(
      `cannot find out whether the source key reveals all tokens: ${error.message}`,
      hint,
    );
  });
  if (!isObject(application) || !revealsAll(application))
    throw new CommandError('the source key does not reveal all tokens, so masked data would be copied', hint);
}

interface SourceRule {
  readonly priority: number;
  readonly container?: string;
  readonly transform: Transform;
  readonly permissions: readonly string[];
}

/** Whether a rule reveals all tokens, and no rule with precedence over it masks or redacts some. */
function revealsAll({ rules }: SourceRecord): boolean {
  const reading = (Array.isArray(rules) ? (rules as SourceRule[]) : [])
    .filter(({ permissions }) => permissions?.includes('token:read'))
    .toSorted((a, b) => a.priority - b.priority || compareTransforms(a.transform, b.transform));
  for (const { container, transform } of reading) {
    if (transform !== 'reveal') return false;
    if (canonicalContainer(container ?? '/') === '/') return true;
  }
  return false;
}

interface Line {
  readonly text: string;
  readonly raw: Origin['raw'];
}

/**
 * Reads one object per line. A line with `permissions` or `rules` is an application, any other a token. A line that
 * cannot be read could be either: it is reported when the records of the kind `errorsWith` are read.
 */
export function linesSource(lines: () => AsyncIterable<Line>, errorsWith: Kind): Source {
  async function* read(kind: Kind, stop?: AbortSignal): AsyncGenerator<SourceItem> {
    const places = new Map<string, string>();
    let number = 0;
    for await (const line of lines()) {
      stop?.throwIfAborted();
      const place = `line ${++number}`;
      if (line.text.trim() === '') continue;
      const item = parseLine(line, number);
      if (kind !== ('error' in item ? errorsWith : kindOf(item.record))) continue;
      const earlier = places.get(item.place);
      if (earlier === undefined) yield item;
      else yield { ...item, place, code: 'id_repeated', error: `has the same id as ${earlier}` };
      places.set(item.place, place);
    }
  }
  const total = async (kind: Kind) => {
    let count = 0;
    for await (const _ of read(kind)) count++;
    return count;
  };
  return { read, total };
}

function kindOf(record: SourceRecord): Kind {
  return 'permissions' in record || 'rules' in record ? 'applications' : 'tokens';
}

/** Replaces a line that is not UTF-8. It is not valid JSON, so the line is reported. */
const notUtf8 = '\ufffd';

/** Each call of the result reads the lines from the start. Standard input, `-`, is read once by `readStandard`. */
export function linesOf(path: string, readStandard: () => Promise<string>): () => AsyncIterable<Line> {
  if (path !== '-') return () => fileLines(path);
  let text: Promise<string> | undefined;
  return async function* () {
    text ??= readStandard();
    for (const line of (await text).split('\n'))
      yield { text: line.includes(notUtf8) ? notUtf8 : line, raw: () => line };
  };
}

/** `readFileLines` returns an empty text for a line that is not UTF-8. Its length in bytes shows the difference. */
async function* fileLines(path: string): AsyncGenerator<Line> {
  requireFile(path);
  const toLine = ({ text, start }: FileLine, end: number): Line =>
    text === '' && end > start
      ? { text: notUtf8, raw: () => readBytes(path, start, end) }
      : { text, raw: () => text };
  let previous: FileLine | undefined;
  for await (const line of readFileLines(path)) {
    if (previous) yield toLine(previous, line.start - 1);
    previous = line;
  }
  if (previous) yield toLine(previous, statSync(path).size);
}

function readBytes(path: string, start: number, end: number): Uint8Array {
  const bytes = Buffer.alloc(end - start);
  const file = openSync(path, 'r');
  try {
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, start));
  } finally {
    closeSync(file);
  }
}

function parseLine({ text, raw }: Line, line: number): SourceItem {
  const json = text.replace(/^\ufeff/, '');
  const place = `line ${line}`;
  let record: unknown;
  try {
    record = JSON.parse(json);
  } catch {
    return { place, line, raw, code: 'invalid_json', error: 'is not valid JSON in UTF-8' };
  }
  if (!isObject(record)) return { place, line, raw, code: 'invalid_json', error: 'is not a JSON object' };
  const origin =
    typeof record.id === 'string' ? { place: record.id, id: record.id, line, raw } : { place, line, raw };
  const inexact = runSteps(findInexactNumber(json));
  if (inexact === undefined) return { ...origin, record };
  const error = `${inexact} is a number with too many digits: write it as a string`;
  return { ...origin, code: 'inexact_number', error };
}
