/**
 * Every way in which a request can fail, once. `detail` is the public sentence when the thrower has none of
 * its own; what caused the failure stays in `cause`, which only the log sees.
 */
const table = {
  validation_failed: [400, 'The request is not valid', 'See errors for each part that must change.'],
  unauthenticated: [401, 'No valid key', 'Send a valid key in the SVC-API-KEY header.'],
  permission_missing: [403, 'Permission missing', 'This key does not hold the permission that is needed.'],
  grant_not_held: [
    403,
    'Grant beyond your own',
    'This key may not hand out a permission that it does not hold.',
  ],
  key_type_refused: [403, 'Wrong type of key', 'This operation is not open to this type of key.'],
  origin_refused: [
    403,
    'Origin not allowed',
    'This key may not be used by pages of the origin that the request names.',
  ],
  reveal_required: [
    403,
    'Transform reveal required',
    'Moving this token, changing its mask or changing part of its data needs `token:update` with the transform `reveal` on this token. Or replace `data` as a whole in the same request.',
  ],
  not_found: [404, 'Not found', 'There is nothing with this id.'],
  nonce_not_found: [
    404,
    'Nonce not found',
    'The nonce is unknown or its Session has expired: create a new Session.',
  ],
  path_unknown: [404, 'Path unknown', 'There is no such path: GET /openapi.json lists those that exist.'],
  method_not_allowed: [
    405,
    'Method not allowed',
    'This path does not take this method: see the Allow header.',
  ],
  nonce_used: [409, 'Nonce already used', 'A nonce authorizes its Session once: create a new Session.'],
  too_many_keys: [409, 'Too many keys', 'An Application has at most 3 keys at once: delete one first.'],
  token_exists: [
    409,
    'Token id taken',
    'There is a Token with this id already: choose another, or leave it out.',
  ],
  idempotency_running: [
    409,
    'Request under way',
    'The same request is being answered at this moment: try again shortly.',
  ],
  too_large: [413, 'Body too large', 'The body is larger than this operation takes.'],
  unsupported_media_type: [
    415,
    'Unsupported media type',
    'Send the body as application/json in UTF-8, or that of a PATCH as application/merge-patch+json.',
  ],
  idempotency_mismatch: [
    422,
    'Idempotency key used for another request',
    'This Idempotency-Key came with another request, or when this key had other rights: use a new one.',
  ],
  too_many_requests: [429, 'Too many requests', 'Slow down, and try again after the time in Retry-After.'],
  internal: [500, 'Internal error', 'The service failed: quote the request id to its operator.'],
  unavailable: [503, 'Temporarily unavailable', 'The service cannot answer now: try again shortly.'],
  storage_full: [
    507,
    'Storage quota reached',
    'The application has stored as many bytes of tokens as it may: delete tokens, or ask the operator to raise SALLYPORT_TOKEN_BYTES_PER_APPLICATION.',
  ],
} as const satisfies Record<string, readonly [status: number, title: string, detail: string]>;

export type Code = keyof typeof table;
export const codes = Object.keys(table) as Code[];

export function problem(code: Code): { status: number; title: string; detail: string } {
  const [status, title, detail] = table[code];
  return { status, title, detail };
}

/** What is wrong with which part of the input: dotted path → sentences. */
export type Errors = Record<string, string[]>;

/** A response names at most so many errors, in at most so many bytes. */
export const maxErrors = 50;
const maxErrorBytes = 65_536;
/** Longer names of fields are cut. */
const maxNameLength = 200;

/** What a response has room for. */
function limited(errors: Errors): Errors {
  const kept: Errors = Object.create(null);
  let [count, bytes] = [0, 2];
  for (const name in errors) {
    const cut = name.length <= maxNameLength ? name : `${name.slice(0, maxNameLength).toWellFormed()}…`;
    for (const sentence of errors[name] ?? []) {
      bytes += Buffer.byteLength(JSON.stringify(cut)) + Buffer.byteLength(JSON.stringify(sentence)) + 4;
      if (++count > maxErrors || bytes > maxErrorBytes) return kept;
      kept[cut] = [...(kept[cut] ?? []), sentence];
    }
  }
  return kept;
}

interface FailureOptions {
  readonly detail?: string;
  readonly errors?: Errors;
  readonly retryAfter?: number;
  readonly cause?: unknown;
  readonly expected?: true;
}

export class Failure extends Error {
  readonly code: Code;
  readonly detail: string;
  readonly errors: Errors | undefined;
  /** After how many seconds to try again, where the thrower knows. */
  readonly retryAfter: number | undefined;
  /** Whether it is what an operator wanted, and so nothing to look into. */
  readonly expected: boolean;

  constructor(code: Code, options: FailureOptions = {}) {
    super(code, { cause: options.cause });
    this.code = code;
    this.detail = options.detail ?? problem(code).detail;
    this.errors = options.errors && limited(options.errors);
    this.retryAfter = options.retryAfter;
    this.expected = options.expected ?? false;
  }
}

/** `throw fail('nonce_used')` */
export function fail(code: Code, options?: FailureOptions): Failure {
  return new Failure(code, options);
}

/** Refuses when anything was found wrong; otherwise does nothing. */
export function throwIfInvalid(errors: Errors): void {
  if (Object.keys(errors).length > 0) throw fail('validation_failed', { errors });
}
