/** Reads a JSON body within limits. Nothing of it is trusted before its schema has seen it. */
import { Failure, fail } from '../../domain/error.ts';
import { findInexactNumber } from '../../domain/number-precision.ts';

export const jsonTypes = ['application/json'];
export const mergePatchTypes = ['application/merge-patch+json', ...jsonTypes];

const maxDepth = 32;
const utf8 = new TextDecoder('utf-8', { fatal: true });

export interface Json {
  /** Undefined when there is no body. */
  readonly value: unknown;
  /** As it was sent. */
  readonly text: string;
}

/** What came of reading the bytes of a body: who is refused for another reason is told that, and not this. */
export interface RequestBody {
  readonly bytes: Uint8Array;
  readonly failure?: Failure;
  /** Whether it came after its headers, and not together with them. */
  readonly late: boolean;
}

export async function readBody(request: Request, limit: number): Promise<RequestBody> {
  const began = thisTurn();
  try {
    const bytes = await receive(request, limit);
    return { bytes, late: thisTurn() !== began };
  } catch (error) {
    const failure = error instanceof Failure ? error : invalid('did not arrive whole');
    return { bytes: nothing, failure, late: thisTurn() !== began };
  }
}

const nothing = new Uint8Array();

let turn = 0;
let isCounted = false;

/** Of the event loop: what is read from a connection at once is handed out within one. */
function thisTurn(): number {
  if (!isCounted) {
    isCounted = true;
    setImmediate(() => {
      isCounted = false;
      turn++;
    });
  }
  return turn;
}

export function readJson({ bytes, failure }: RequestBody, headers: Headers, types: readonly string[]): Json {
  if (failure) throw failure;
  if (bytes.length === 0) return { value: undefined, text: '' };
  if (!isOneOf(types, headers.get('content-type'))) throw fail('unsupported_media_type');
  return parse(bytes);
}

async function receive(request: Request, limit: number): Promise<Uint8Array> {
  const declared = request.headers.get('content-length');
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit);
  if (declared === null && request.body) return collect(request.body, limit);
  return request.bytes();
}

/** A body of unannounced length is read only as far as the limit. */
async function collect(body: ReadableStream<Uint8Array>, limit: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > limit) throw tooLarge(limit);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function tooLarge(limit: number) {
  return fail('too_large', { detail: `The body may have at most ${limit} bytes.` });
}

/** With no parameter, or with the only charset that JSON has. */
function isOneOf(types: readonly string[], contentType: string | null): boolean {
  if (contentType !== null && types.includes(contentType)) return true;
  const [type, ...parameters] = (contentType ?? '')
    .toLowerCase()
    .split(';')
    .map((part) => part.trim());
  return (
    types.includes(type as string) && parameters.every((one) => /^(charset\s*=\s*"?utf-8"?)?$/.test(one))
  );
}

function parse(bytes: Uint8Array): Json {
  if (isDeeper(bytes, maxDepth)) throw invalid(`must not be nested deeper than ${maxDepth} levels`);
  const { value, text } = decode(bytes);
  const path = findInexactNumber(text);
  if (path !== undefined) throw invalid('is a number that cannot be kept exactly: send it as text', path);
  return { value, text };
}

function decode(bytes: Uint8Array): Json {
  try {
    const text = utf8.decode(bytes);
    return { value: JSON.parse(text), text };
  } catch {
    throw invalid('is not JSON in UTF-8');
  }
}

function invalid(sentence: string, path?: string) {
  return fail('validation_failed', { errors: { [path || 'body']: [sentence] } });
}

const [quote, backslash, openList, closeList, openObject, closeObject] = Buffer.from('"\\[]{}');

/** Before it is parsed: a parser takes long to find out that it cannot go on. */
function isDeeper(json: Uint8Array, levels: number): boolean {
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === quote) at = endOfText(json, at + 1);
    else if (byte === openList || byte === openObject) depth++;
    else if (byte === closeList || byte === closeObject) depth--;
    if (depth > levels) return true;
  }
  return false;
}

/** Where the closing quote is. */
function endOfText(json: Uint8Array, from: number): number {
  let at = from;
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1;
  return at;
}
