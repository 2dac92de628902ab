/**
 * Sends single requests to checked addresses: to sinks and issuers. Follows no redirects and ignores proxy settings.
 * Limits the time and the size of the response.
 */
import { type AllowPrivate, beforeAbort, checkedAddress, type Resolve, resolveBySystem } from './address.ts';
import { connect, type OutboundReply, type OutboundRequest } from './http-connection.ts';

export interface HttpTarget {
  readonly allowPrivate: AllowPrivate;
  /** Maximum milliseconds for request and response together. */
  readonly timeout: number;
  /** CA certificates in PEM that are trusted instead of those of the system. */
  readonly ca?: string | undefined;
  readonly resolve?: Resolve | undefined;
  /** How the operator allows an address, for errors. */
  readonly setting?: string;
}

export interface HttpRequest extends Omit<OutboundRequest, 'path'> {
  readonly url: URL;
}

export interface HttpResponse extends Omit<OutboundReply, 'body'> {
  /** At most 64 KiB; the rest is not read. */
  readonly body: string;
}

const maxBody = 65_536;

/** Throws `AddressRefused` for an address that is not allowed. */
export async function send(
  { method, url, headers, body }: HttpRequest,
  { allowPrivate, timeout, ca, resolve = resolveBySystem, setting }: HttpTarget,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const deadline = AbortSignal.timeout(timeout);
  const ended = AbortSignal.any([signal, deadline]);
  try {
    const checking = checkedAddress(url.hostname, allowPrivate, resolve, setting);
    const connection = await connect(url, await beforeAbort(checking, ended), { ca }, ended);
    const length = body !== undefined && { 'content-length': String(Buffer.byteLength(body)) };
    const all = { host: url.host, connection: 'close', ...headers, ...length };
    const request = { method, path: url.pathname + url.search, headers: all, body };
    const limit = { bytes: maxBody, isCut: true } as const;
    const reply = await connection.exchange(request, ended, limit).finally(() => connection.close());
    return { ...reply, body: reply.body?.toString() ?? '' };
  } catch (error) {
    if (deadline.aborted) throw new Error(`no complete response within ${timeout / 1000} s`);
    throw error;
  }
}

/** Returns the `Retry-After` header in milliseconds. Undefined if it is absent or a date. */
export function retryAfter({ headers }: HttpResponse): number | undefined {
  const seconds = headers['retry-after'];
  return seconds !== undefined && /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}

const documentTimeout = 5000;
const noSignal = new AbortController().signal;

/** Returns the body of a document, at most 64 KiB. Throws if the response is not 200. */
export async function fetchDocument(url: URL, allowPrivate: AllowPrivate): Promise<string> {
  const request = { method: 'GET', url, headers: { accept: 'application/json' } };
  const target = { allowPrivate, timeout: documentTimeout, setting: 'set SALLYPORT_ISSUER_NETWORKS' };
  const { status, body } = await send(request, target, noSignal);
  if (status !== 200) throw new Error(`${url.origin} replied with status ${status}`);
  return body;
}
