/**
 * Sends one HTTP request to a checked address. Does not follow redirects and ignores proxy settings. Limits the time
 * and the size of the response.
 */
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import {
  AddressRefused,
  type AllowPrivate,
  checkedAddress,
  type Resolve,
  resolveBySystem,
} from '../../outbound/address.ts';
import { DeliveryError } from './sender.ts';

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

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined for GET. */
  readonly body?: string;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** At most 64 KiB; the rest is not read. */
  readonly body: string;
}

const maxBody = 65_536;

/** Throws `DeliveryError` for a timeout or an address that is not allowed. Rethrows network errors. */
export async function send(
  request: HttpRequest,
  target: HttpTarget,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const { allowPrivate, timeout, resolve = resolveBySystem } = target;
  const deadline = AbortSignal.timeout(timeout);
  const ended = AbortSignal.any([signal, deadline]);
  try {
    const resolving = checkedAddress(request.url.hostname, allowPrivate, resolve, target.setting);
    const address = await Promise.race([resolving, rejectOnAbort(ended)]);
    return await exchange(request, { address, ca: target.ca }, ended);
  } catch (error) {
    if (error instanceof AddressRefused) throw new DeliveryError(error.message);
    if (deadline.aborted) throw new DeliveryError(`no complete response within ${timeout / 1000} s`);
    throw error;
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}

function exchange(
  { method, url, headers, body }: HttpRequest,
  { address, ca }: { readonly address: string; readonly ca: string | undefined },
  signal: AbortSignal,
): Promise<HttpResponse> {
  const lookup: RequestOptions['lookup'] = (_, options, done) => {
    const family = isIP(address);
    if (options.all) done(null, [{ address, family }]);
    else done(null, address, family);
  };
  const length = body !== undefined && { 'content-length': String(Buffer.byteLength(body)) };
  const options = { method, headers: { ...headers, ...length }, agent: false, lookup, signal };
  return new Promise((resolve, reject) => {
    const sent: ClientRequest =
      url.protocol === 'https:'
        ? httpsRequest(url, { ...options, ...(ca !== undefined && { ca }) })
        : httpRequest(url, options);
    sent.on('error', reject);
    sent.on('response', (response) => readBody(response).then(resolve, reject));
    sent.end(body);
  });
}

async function readBody(response: IncomingMessage): Promise<HttpResponse> {
  const { statusCode: status = 0, headers } = response;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxBody) break;
  }
  response.destroy();
  return { status, headers, body: Buffer.concat(chunks).toString('utf8', 0, maxBody) };
}

/** Returns the `Retry-After` header in milliseconds. Undefined if it is absent or a date. */
export function retryAfter({ headers }: HttpResponse): number | undefined {
  const seconds = headers['retry-after'];
  return seconds !== undefined && /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}
