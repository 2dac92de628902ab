/** Facts about a request: id, path, client, and the values of its rate limit and DPoP response headers. */
import type { ProofErrorCode } from '../../domain/dpop.ts';
import { throwIfInvalid } from '../../domain/error.ts';
import { cut } from '../../domain/escape.ts';
import { redactSecrets } from '../../domain/key.ts';
import type { Principal } from '../../domain/principal.ts';
import { Purpose, purposeError } from '../../domain/purpose.ts';
import { networkOf, type Sender } from './client-address.ts';
import type { Reservation } from './request-memory.ts';

const maxUserAgentLength = 200;
const purposeHeader = 'svc-purpose';

/** The server's information about the connection of a request. */
export interface Connections {
  senderOf(request: Request): Sender | undefined;
  /** Extends the idle timeout of the connection, for a response that takes long. `always`: disables it. */
  keepOpen(request: Request, always?: 'always'): void;
}

export const noConnections: Connections = { senderOf: () => undefined, keepOpen: () => {} };

/** Most requests need few of these values, so they are computed on demand. */
export class RequestInfo {
  readonly method: string;
  readonly requestId: string;
  /** By `performance.now()`. */
  readonly startedAt = performance.now();
  readonly rateLimits = new RateLimitStatus();
  /** The nonce for the client's next DPoP proof, and why the proof of this request was not accepted. */
  dpop: { readonly nonce: string; readonly error?: ProofErrorCode } | undefined;
  /** The memory that the request holds, if it is large. */
  reservation: Reservation | undefined;
  /** The error of a response with a status from 500 on, for traces. */
  failure: unknown;
  readonly #request: Request;
  readonly #connections: Connections;
  #traceId: string | undefined;
  #sender: Sender | undefined | null = null;
  #purpose: ReturnType<typeof Purpose.safeParse> | undefined | null = null;

  constructor(request: Request, connections: Connections, requestIdHeader?: string | undefined) {
    this.method = request.method;
    this.requestId = requestIdOf(request.headers, requestIdHeader);
    this.#request = request;
    this.#connections = connections;
  }

  /**
   * Without the query, which may contain sensitive values. Percent-encoded keys are redacted here, other keys where the
   * path is logged or sent.
   */
  get path(): string {
    return redactPath(pathOf(this.#request.url));
  }

  /** The trace id that was set, or else that of the W3C `traceparent` header. */
  get traceId(): string | undefined {
    if (this.#traceId !== undefined) return this.#traceId;
    const header = this.#request.headers.get('traceparent');
    return header === null ? undefined : /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(header)?.[1];
  }

  set traceId(id: string | undefined) {
    this.#traceId = id;
  }

  /** Why the request is made, from the `SVC-PURPOSE` header. Undefined if the header is absent, empty or invalid. */
  get purpose(): string | undefined {
    return this.#parsePurpose()?.data;
  }

  /** Throws `validation_failed` if the `SVC-PURPOSE` header is invalid, or not one of the tenant's purposes. */
  checkPurpose({ purposes }: Pick<Principal, 'purposes'>): void {
    const parsed = this.#parsePurpose();
    if (!parsed) return;
    const unlisted = parsed.success ? purposeError(parsed.data, purposes) : undefined;
    const messages = parsed.error?.issues.map(({ message }) => message) ?? (unlisted ? [unlisted] : []);
    if (messages.length > 0) throwIfInvalid({ [purposeHeader]: messages });
  }

  #parsePurpose() {
    if (this.#purpose === null) {
      const given = this.#request.headers.get(purposeHeader);
      this.#purpose = given ? Purpose.safeParse(decodeHeader(given)) : undefined;
    }
    return this.#purpose;
  }

  /** Call this before work that can take longer than a connection may be idle. */
  keepOpen(always?: 'always'): void {
    this.#connections.keepOpen(this.#request, always);
  }

  /** The client's address, behind trusted proxies. */
  address(): string | undefined {
    return this.#findSender()?.address;
  }

  /** The client's address, or the /64 of an IPv6 address. */
  network(): string | undefined {
    const address = this.address();
    return address && networkOf(address);
  }

  /** The client's address for access decisions. Undefined if the proxy headers disagree or have no address. */
  certainAddress(): string | undefined {
    const sender = this.#findSender();
    return sender?.isCertain ? sender.address : undefined;
  }

  #findSender(): Sender | undefined {
    if (this.#sender === null) this.#sender = this.#connections.senderOf(this.#request);
    return this.#sender;
  }

  /** The client's address and user agent, as the audit log stores them. */
  from(): { ip?: string; user_agent?: string } {
    const ip = this.address();
    const agent = this.#request.headers.get('user-agent');
    return {
      ...(ip !== undefined && { ip }),
      ...(agent !== null && { user_agent: cut(redactSecrets(agent), maxUserAgentLength) }),
    };
  }
}

/** Bun decodes headers as Latin-1, but most clients send UTF-8. Returns the value unchanged if it is not UTF-8. */
function decodeHeader(value: string): string {
  const bytes = Buffer.from(value, 'latin1');
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes) ? text : value;
}

/** The values of the `RateLimit-Policy` and `RateLimit` headers (IETF draft). */
export class RateLimitStatus {
  policies = '';
  remaining = '';

  add(policy: string, remaining: string): void {
    this.policies = this.policies === '' ? policy : `${this.policies}, ${policy}`;
    this.remaining = this.remaining === '' ? remaining : `${this.remaining}, ${remaining}`;
  }
}

export function logFields({ method, path, requestId, traceId }: RequestInfo) {
  return { method, path, request_id: requestId, ...(traceId !== undefined && { trace_id: traceId }) };
}

/** Redacts percent-encoded keys. Other keys are redacted where the path is logged or sent. */
function redactPath(path: string): string {
  if (!path.includes('%')) return path;
  const decoded = path.replace(/%([0-9a-f]{2})/gi, (_, code) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
  const redacted = redactSecrets(decoded);
  return redacted === decoded ? path : redacted.replace(/[^\x21-\x7e]/g, '?');
}

/** Returns the path without the query. If the Host header is invalid, `url` has no origin. */
export function pathOf(url: string): string {
  const path = url.startsWith('/') ? url : url.slice(url.indexOf('/', 8));
  const queryStart = path.indexOf('?');
  return queryStart < 0 ? path : path.slice(0, queryStart);
}

/** The URL that the client used. Ignores forwarded headers, because any client can send them. */
export function urlOf({ url }: Request, publicUrl: string | undefined): string {
  return publicUrl === undefined ? url : publicUrl + pathOf(url);
}

/** The cookie of a person who signed in to the console by name. */
export const sessionCookie = '__Host-sallyport-session';

/** The value of a cookie. Empty if the request has none with this name. */
export function cookieIn(headers: Headers, name: string): string {
  const cookies = headers.get('cookie')?.split(/; */) ?? [];
  return cookies.find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/;

/** The caller's `SVC-REQUEST-ID` or else `otherHeader`, if it is valid and contains no key. Otherwise a new id. */
function requestIdOf(headers: Headers, otherHeader?: string | undefined): string {
  const given = headers.get('svc-request-id') ?? (otherHeader ? headers.get(otherHeader) : null);
  const isValid = given !== null && validRequestId.test(given) && redactSecrets(given) === given;
  return isValid ? given : crypto.randomUUID();
}
