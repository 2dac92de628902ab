/** Asks Sallyport for a decision about one request to your API. */
import type { Decision, PermissionName, Resource } from './api.ts';
import type { Sallyport } from './client.ts';
import { ProblemError, SallyportError, ValidationError } from './errors.ts';
import { isHost, proofOf } from './guard-proof.ts';
import { type Denial, denial, type FilterOptions } from './response-filter.ts';
import { randomId } from './transport.ts';

/** A request, independent of the framework. */
export interface GuardRequest<R = unknown> {
  readonly method: string;
  /** Path and query string. */
  readonly path: string;
  header(name: string): string | undefined;
  readonly params: Readonly<Record<string, string | undefined>>;
  /**
   * The absolute URL, as your server received it. Proofs of bound sessions need its scheme, host and port, unless
   * `publicUrl` is set.
   */
  readonly url?: string | undefined;
  /**
   * The request object of the framework, for example to read `req.user`: the request of Express or Fastify, the
   * context of Hono, or the `Request` of a `fetch` handler. It must be the same object for all guards of one request.
   */
  readonly original: R;
}

/** `R` is the request type of the framework, see `GuardRequest.original`. */
export interface GuardOptions<R = unknown> extends FilterOptions {
  readonly client: Sallyport;
  /** The permission that the caller needs, such as `invoice:read`. */
  readonly permission: PermissionName;
  /** The resource of the request. Without it, only grants on the root container apply. */
  readonly resource?: (request: GuardRequest<R>) => Resource | Promise<Resource>;
  /** The caller's key. Default: the `SVC-API-KEY` header. */
  readonly credential?: (request: GuardRequest<R>) => string | undefined | Promise<string | undefined>;
  /**
   * The URL of your service as browsers use it, such as `https://shop.example`, for the proofs of bound sessions. Set
   * it in production: without it, the `Host` header decides.
   */
  readonly publicUrl?: string | URL;
  /**
   * Whether the audit log of Sallyport records every decision. An allowed request is recorded before your handler
   * runs. If recording fails, the request is denied with 503. The client needs the key of a private or management
   * application.
   */
  readonly record?: boolean;
  /** Why the request is made, for the audit log. */
  readonly purpose?: (request: GuardRequest<R>) => string | undefined | Promise<string | undefined>;
}

/** `requestId` is in the problem of a denial, and in Sallyport's audit log. */
export type CheckResult =
  | { readonly allowed: true; readonly decision: Decision; readonly requestId: string }
  /** `decision` has the reason, for your own log. Absent if the key or resource is invalid, or the check failed. */
  | ({ readonly allowed: false; readonly decision?: Decision; readonly requestId: string } & Denial);

/** Throws if an option is missing or has the wrong type, so that callers without type checks find out at startup. */
export function checkOptions<R>(guard: string, options: GuardOptions<R>): void {
  const reject = (message: string): never => {
    throw new SallyportError(`${guard}: ${message}`);
  };
  const { client, permission, fields, notJson } = options ?? {};
  if (typeof client?.decide !== 'function') reject('`client` must be a Sallyport client');
  if (typeof permission !== 'string' || !permission.includes(':'))
    reject('`permission` must be the name of a permission, such as "invoice:read"');
  if (!Array.isArray(fields) || !fields.every((field) => typeof field === 'string'))
    reject(
      '`fields` must list the names of the JSON fields to filter; with [] only the permission is checked',
    );
  if (notJson !== undefined && notJson !== 'deny' && notJson !== 'pass')
    reject('`notJson` must be "deny" or "pass"');
  for (const name of ['mask', 'resource', 'credential', 'purpose'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'function')
      reject(`\`${name}\` must be a function`);
}

const noHost = 'The Host header must be a host name or an IP address, optionally with a port.';
const noKey = 'Send a valid key in the SVC-API-KEY header.';
const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * Checks one request. Denies it if the service cannot be reached. The response to the caller omits the decision's
 * reason, which could reveal your containers and the rules of a session's authorizer. Rejects if a function in
 * `options` throws.
 */
export async function check<R>(
  options: GuardOptions<R>,
  request: GuardRequest<R>,
  signal?: AbortSignal,
): Promise<CheckResult> {
  const given = request.header('svc-request-id');
  const requestId = given !== undefined && validRequestId.test(given) ? given : randomId();
  const deny = (status: Denial['status'], code: string, detail: string, dpop?: Decision['dpop']) =>
    ({ allowed: false, requestId, ...denial(status, code, detail, requestId, dpop) }) as const;
  if (!isHost(request.header('host') ?? 'localhost')) return deny(400, 'host_invalid', noHost);
  const credential = await (options.credential ? options.credential(request) : request.header('svc-api-key'));
  if (!credential) return deny(401, 'unauthenticated', noKey);
  const { client, permission, record } = options;
  const resource = await options.resource?.(request);
  const purpose = await options.purpose?.(request);
  try {
    const proof = proofOf(request, options.publicUrl);
    const question = {
      credential,
      permission,
      ...(proof && { proof }),
      ...(resource && { resource }),
      ...(record && { record }),
      ...(purpose && { purpose }),
    };
    const decision = await client.decide(question, {
      requestId,
      ...(signal && { signal }),
    });
    if (decision.allowed) return { allowed: true, decision, requestId };
    if (!decision.principal)
      return {
        ...(decision.dpop && { decision }),
        ...deny(401, 'unauthenticated', noKey, decision.dpop),
      };
    const detail = `You cannot use \`${permission}\` on this resource.`;
    return { decision, ...deny(403, 'permission_missing', detail) };
  } catch (error) {
    const invalid = invalidInput(error);
    if (invalid) return deny(403, 'resource_invalid', `The request is invalid: ${invalid}.`);
    const cause = error instanceof ProblemError ? error.code : 'unreachable';
    return deny(503, 'unavailable', `Access could not be checked (${cause}).`);
  }
}

const inputNames: Readonly<Record<string, string>> = {
  'resource.id': 'id',
  'resource.container': 'container',
  purpose: 'purpose',
};

/** The error messages if only the id, container or purpose is invalid. Undefined for all other errors. */
function invalidInput(error: unknown): string | undefined {
  if (!(error instanceof ValidationError)) return undefined;
  const messages = Object.entries(error.errors).map(([field, [reason]]) =>
    inputNames[field] === undefined ? undefined : `${inputNames[field]} ${reason}`,
  );
  return messages.includes(undefined) ? undefined : messages.join(', ');
}

/** The fields that Express and Fastify requests share. `params` is left out, because its type depends on the path. */
export interface NodeRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  /** As determined by the framework, for example behind a trusted proxy. */
  readonly protocol?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Names and values in turn. Express has them here, Fastify in `raw`. */
  readonly rawHeaders?: readonly string[];
  readonly raw?: { readonly rawHeaders?: readonly string[] };
}

export function fromNodeRequest<R extends NodeRequest>(request: R): GuardRequest<R> {
  const host = hostOf(request);
  const header = (name: string) => {
    if (name.toLowerCase() === 'host') return host;
    const value = request.headers[name.toLowerCase()];
    return Array.isArray(value) ? undefined : value;
  };
  const path = request.originalUrl ?? request.url;
  const { protocol } = request;
  return {
    method: request.method,
    path,
    header,
    params: (request as { params?: GuardRequest['params'] }).params ?? {},
    url: protocol && host ? `${protocol}://${host}${path}` : undefined,
    original: request,
  };
}

/** Repeated and different hosts are joined by commas, as in a `Request`. Node drops all but the first. */
function hostOf({ headers, rawHeaders, raw }: NodeRequest): string | undefined {
  const lines = rawHeaders ?? raw?.rawHeaders ?? [];
  const repeated = lines.filter((_, index) => index % 2 === 1 && lines[index - 1]?.toLowerCase() === 'host');
  const distinct = new Set([headers.host, headers[':authority']].filter((host) => host !== undefined));
  const hosts = repeated.length > 1 ? repeated : [...distinct];
  return hosts.length === 0 ? undefined : hosts.join(', ');
}
