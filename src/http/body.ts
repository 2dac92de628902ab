/** Reads a JSON body within limits. Nothing of it is trusted before its schema has seen it. */
import { fail } from '../domain/error.ts';

const deepest = 32;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Undefined when there is no body. */
export async function readJson(request: Request, limit: number): Promise<unknown> {
  const declared = request.headers.get('content-length');
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit);
  const bytes =
    declared !== null || !request.body ? await request.bytes() : await collect(request.body, limit);
  if (bytes.length === 0) return undefined;
  if (!isJson(request.headers.get('content-type'))) throw fail('unsupported_media_type');
  return parse(bytes);
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

function isJson(contentType: string | null): boolean {
  return /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?;?\s*$/i.test(contentType ?? '');
}

function parse(bytes: Uint8Array): unknown {
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(bytes));
  } catch {
    throw invalid('is not JSON in UTF-8');
  }
  if (isDeeper(value, deepest)) throw invalid(`must not be nested deeper than ${deepest} levels`);
  return value;
}

function invalid(sentence: string) {
  return fail('validation_failed', { errors: { body: [sentence] } });
}

/** Level by level, since a recursive look could run out of stack. */
function isDeeper(value: unknown, levels: number): boolean {
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []));
  }
  return false;
}
