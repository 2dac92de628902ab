import { cut } from './escape.ts';

/** The error table: status, title and default detail of every error code. */
const table = {
  validation_failed: [
    400,
    'Invalid request',
    'The request is invalid. `errors` lists every field or parameter that must change.',
  ],
  request_not_listed: [
    400,
    'Request not listed',
    'The destination does not list a request with this method, path and query.',
  ],
  placeholder_not_allowed: [
    400,
    'Placeholder not allowed',
    'The request has a placeholder where the destination does not allow one, or too many of them.',
  ],
  placeholder_unusable: [
    400,
    'Data cannot be inserted',
    'The data of a token does not fit where its placeholder is. The request was not sent.',
  ],
  unauthenticated: [401, 'No valid key', 'Send a valid key in the `SVC-API-KEY` header.'],
  permission_missing: [
    403,
    'Permission missing',
    'Your key does not have the required permission. Use a key that has it.',
  ],
  grant_not_held: [
    403,
    'Permission not held',
    'You can only grant permissions that your key holds. Remove the others, or use a key that holds them.',
  ],
  key_type_refused: [
    403,
    'Wrong type of key',
    'This operation does not accept this type of key. The API reference lists the types that it accepts.',
  ],
  origin_refused: [
    403,
    'Origin not allowed',
    'The `Origin` of the request is not allowed to use this key. Add it to `allowed_origins` of the application.',
  ],
  network_refused: [
    403,
    'Network not allowed',
    'This key may not be used from your address. Use it from a network in `allowed_networks` of the application, or add yours.',
  ],
  quarantined: [
    403,
    'In quarantine',
    'The application or session of this key, or the application that authorized the session, is in quarantine: it can change nothing, and it reads tokens without their data. Ask an administrator to release it.',
  ],
  use_stopped: [
    403,
    'Use stopped',
    'The destination has repeated the data of a token to your application, so your application cannot use this token there. Somebody with `destination:update` can allow it again.',
  ],
  reveal_required: [
    403,
    'Access to the plaintext required',
    'To move this token, or to change its mask or part of its data, your key needs a rule with `token:update` and the transform `reveal`. An object in `data` is merged into a stored object, so it changes a part of it. To replace all of it without `reveal`, first send `{"data": "", "mask": null, "search": null}`, then the new values.',
  ],
  not_found: [404, 'Not found', 'No resource has this id. It may have been deleted or have expired.'],
  nonce_not_found: [404, 'Nonce not found', 'The nonce is unknown or has expired. Create a new session.'],
  path_unknown: [404, 'Unknown path', 'This path does not exist. `GET /openapi.json` lists all paths.'],
  method_not_allowed: [
    405,
    'Method not allowed',
    'This path does not support this method. The `Allow` header lists the supported methods.',
  ],
  nonce_used: [
    409,
    'Nonce already used',
    'The nonce has already been used, and a nonce works once. Create a new session.',
  ],
  too_many_keys: [409, 'Too many keys', 'An application can have at most 3 keys. Delete one first.'],
  token_exists: [
    409,
    'Token id taken',
    'A token with this id already exists. Choose another id, or omit `id` to have one generated.',
  ],
  destination_exists: [
    409,
    'Destination name taken',
    'A destination with this name already exists. Choose another name.',
  ],
  too_many_destinations: [
    409,
    'Too many destinations',
    'A tenant can have at most 100 destinations. Delete one first.',
  ],
  idempotency_running: [
    409,
    'Request in progress',
    'A request with this `Idempotency-Key` is still in progress. Retry shortly.',
  ],
  idempotency_outdated: [
    409,
    'Response no longer available',
    'The first request with this `Idempotency-Key` was carried out. The resource was changed again or deleted since, so the response cannot be repeated. Read the current state instead.',
  ],
  changed_meanwhile: [
    412,
    'Changed meanwhile',
    'The resource does not have the version in `If-Match`: it was changed after you read it. Your change was not made. Read it again, then repeat your change.',
  ],
  too_large: [
    413,
    'Body too large',
    'The request body is too large. The API reference states the limit of each operation.',
  ],
  unsupported_media_type: [
    415,
    'Unsupported media type',
    'Send the body as `application/json` in UTF-8. A PATCH also accepts `application/merge-patch+json`.',
  ],
  tenant_moved: [
    421,
    'Tenant moved',
    'The tenant of this key has moved to another installation of the service. Send the request to the address that its operator has given you.',
  ],
  idempotency_mismatch: [
    422,
    'Idempotency key used for another request',
    'This `Idempotency-Key` was already used for a different request or with another API key, or the permissions of your key have changed since. Use a new one.',
  ],
  too_many_requests: [
    429,
    'Too many requests',
    'You have sent too many requests. Wait for the number of seconds in `Retry-After`, then retry.',
  ],
  internal: [
    500,
    'Internal error',
    'The service failed to process the request. Report the `request_id` to its operator.',
  ],
  destination_unreachable: [
    502,
    'Destination unreachable',
    'Sallyport could not connect to the destination. The request was not sent.',
  ],
  destination_failed: [
    502,
    'No usable reply',
    'The request was sent, but the destination sent no usable reply. It may have processed the request.',
  ],
  destination_echoed_data: [
    502,
    'Reply contains data',
    'The request was sent. The reply is withheld, because it contains inserted data.',
  ],
  destination_suspended: [
    503,
    'Destination suspended',
    'The destination gets no requests at present, at least of your application. The request was not sent. Retry after the number of seconds in `Retry-After`.',
  ],
  destination_timeout: [
    504,
    'Destination too slow',
    'The request was sent, but the reply was not complete in time. The destination may have processed the request.',
  ],
  unavailable: [
    503,
    'Temporarily unavailable',
    'The service is temporarily unavailable. Wait for the number of seconds in `Retry-After`, then retry.',
  ],
  disk_full: [
    503,
    'Disk full',
    'The disk of the database is full. Changes that take access away, such as deleting a key, may still work. Retry the others when the operator of the service has freed space.',
  ],
  storage_full: [
    507,
    'Storage quota reached',
    'The application has reached its storage quota. Delete tokens, wait until its idempotency records expire after 24 hours, or ask the operator to raise `SALLYPORT_TOKEN_BYTES_PER_APPLICATION`.',
  ],
} as const satisfies Record<string, readonly [status: number, title: string, detail: string]>;

export type Code = keyof typeof table;
export const codes = Object.keys(table) as Code[];

export function problem(code: Code): { status: number; title: string; detail: string } {
  const [status, title, detail] = table[code];
  return { status, title, detail };
}

/** Validation errors: dotted path of the field or parameter → messages. */
export type Errors = Record<string, string[]>;

/** Limits of `errors` in a response. */
export const maxErrors = 50;
const maxErrorBytes = 65_536;
/** Longer field names are truncated. */
const maxNameLength = 200;

/** Drops the errors beyond the limits of a response. */
function truncate(errors: Errors): Errors {
  const result: Errors = Object.create(null);
  let [count, bytes] = [0, 2];
  for (const name in errors) {
    const start = cut(name, maxNameLength);
    const path = start.length === name.length ? name : `${start}…`;
    for (const message of errors[name] ?? []) {
      bytes += new TextEncoder().encode(JSON.stringify(path) + JSON.stringify(message)).length + 4;
      if (++count > maxErrors || bytes > maxErrorBytes) return result;
      result[path] = [...(result[path] ?? []), message];
    }
  }
  return result;
}

interface FailureOptions {
  /** Replaces the default detail of the code. */
  readonly detail?: string | undefined;
  readonly errors?: Errors;
  /** Seconds until a retry can succeed, if known. */
  readonly retryAfter?: number;
  /** Whether the request was sent to a destination, at least in part. */
  readonly sent?: true;
  /** Logged, but never sent to the client. */
  readonly cause?: unknown;
  /**
   * Whether the failure is part of normal operation, such as a 503 during shutdown. It is then neither logged as an
   * error nor recorded as a denial.
   */
  readonly expected?: true;
}

export class Failure extends Error {
  readonly code: Code;
  readonly detail: string;
  errors: Errors | undefined;
  readonly retryAfter: number | undefined;
  readonly expected: boolean;
  readonly sent: boolean;

  constructor(code: Code, options: FailureOptions = {}) {
    super(code, { cause: options.cause });
    this.code = code;
    this.detail = options.detail ?? problem(code).detail;
    this.errors = options.errors && truncate(options.errors);
    this.retryAfter = options.retryAfter;
    this.expected = options.expected ?? false;
    this.sent = options.sent ?? false;
  }
}

/** The failure with these errors, which say more about the same problem. */
export function withErrors<F extends Failure>(failure: F, errors: Errors): F {
  failure.errors = truncate(errors);
  return failure;
}

/** Creates a failure to throw: `throw fail('nonce_used')`. */
export function fail(code: Code, options?: FailureOptions): Failure {
  return new Failure(code, options);
}

/** Throws `validation_failed` unless `errors` is empty. */
export function throwIfInvalid(errors: Errors): void {
  if (Object.keys(errors).length > 0) throw fail('validation_failed', { errors });
}

/** Returns the value. Throws `not_found` if it is undefined or false. */
export function orNotFound<T>(value: T | undefined | false): T {
  if (value === undefined || value === false) throw fail('not_found');
  return value;
}
