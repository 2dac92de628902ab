/**
 * HTTP/1.1 over one connection. Connecting and sending are separate steps, so that a caller can write its audit entry in
 * between: Bun's `fetch` and `node:https` do both at once. Replies are parsed strictly and are limited in size.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Secret } from '../domain/key.ts';
import { unbracketed } from './address.ts';

export interface Certificates {
  /** CA certificates in PEM that are trusted instead of those of the system. */
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly privateKey?: Secret | undefined;
}

export interface OutboundRequest {
  readonly method: string;
  /** Path and query, escaped. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export interface OutboundReply {
  readonly status: number;
  /** Names in lower case. Values of repeated headers are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined if it was not asked for. */
  readonly body: Buffer | undefined;
}

export interface BodyLimit {
  readonly bytes: number;
  /** Whether a longer body is cut. Otherwise it is an error. */
  readonly isCut?: true;
}

/** The exchange failed after the request was written, at least in part. */
export class ExchangeError extends Error {
  readonly isTimeout: boolean;
  constructor(message: string, isTimeout = false) {
    super(message);
    this.isTimeout = isTimeout;
  }
}

/**
 * Connects to the checked address of the host in `url`; the name is not resolved again. Rejects if the connection is not
 * ready before `signal` aborts, or if the certificate is not valid for the host.
 */
export function connect(
  { protocol, hostname, port }: URL,
  address: string,
  { ca, certificate, privateKey }: Certificates,
  signal: AbortSignal,
): Promise<HttpConnection> {
  const isPlain = protocol === 'http:';
  const to = { host: address, port: Number(port || (isPlain ? 80 : 443)) };
  const host = unbracketed(hostname);
  return new Promise((resolve, reject) => {
    const socket: Socket = isPlain
      ? connectTcp(to)
      : connectTls({
          ...to,
          ...(isIP(host) === 0 && { servername: host }),
          minVersion: 'TLSv1.2',
          ALPNProtocols: ['http/1.1'],
          ...(ca !== undefined && { ca }),
          ...(certificate !== undefined && { cert: certificate, key: privateKey?.reveal() }),
        });
    const end = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    const abort = () => end(new Error('no connection in time'));
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    socket.once('error', end);
    socket.once('close', () => reject(new Error('the connection was closed')));
    socket.once(isPlain ? 'connect' : 'secureConnect', () => {
      signal.removeEventListener('abort', abort);
      socket.off('error', end);
      if (isPlain || (socket as TLSSocket).authorized) resolve(new HttpConnection(socket));
      else end(new Error('the certificate is not valid'));
    });
  });
}

const maxHead = 32_768;
const maxInterim = 5;
/** Neither a header of the request nor its path can start another line. */
const lineBreak = /[\r\n\0]/;

export class HttpConnection {
  readonly #socket: Socket;
  #received: Buffer[] = [];
  #error: Error | undefined;
  #hasEnded = false;
  #wake: () => void = () => {};
  #isReusable = true;
  #isExchanging = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    const end = (error?: Error) => {
      this.#error ??= error;
      this.#hasEnded = true;
      this.#wake();
    };
    socket.on('data', (chunk: Buffer) => {
      // Nothing was asked for: the bytes would fill the memory, or be read as the reply to the next request.
      if (!this.#isExchanging) return this.close();
      this.#received.push(chunk);
      this.#wake();
    });
    socket.on('end', () => end());
    socket.on('close', () => end());
    socket.on('error', end);
  }

  /** Whether another request can be sent. False if the server has closed the connection or sent something unasked. */
  get isOpen(): boolean {
    return this.#isReusable && !this.#hasEnded && this.#received.length === 0 && !this.#socket.destroyed;
  }

  close(): void {
    this.#isReusable = false;
    this.#socket.destroy();
  }

  /**
   * Sends the request and reads the reply. Throws `ExchangeError` if the reply is not complete when `signal` aborts, is
   * not valid, or has more bytes than `limit`. The body is read only if there is a `limit`. Closes the connection unless
   * the reply was complete.
   */
  async exchange(
    { method, path, headers, body = '' }: OutboundRequest,
    signal: AbortSignal,
    limit?: BodyLimit,
  ): Promise<OutboundReply> {
    const abort = () => {
      this.#error ??= new ExchangeError('no complete reply in time', true);
      this.#hasEnded = true;
      this.#wake();
    };
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    this.#isExchanging = true;
    try {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      if ([method, path, ...lines].some((line) => lineBreak.test(line)))
        throw new Error('a header or the path has a line break');
      this.#socket.write(`${[`${method} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n${body}`);
      const { status, headers: received } = await this.#readHead();
      const reading = bodyOf(status, received);
      if (received.connection?.toLowerCase().includes('close') || reading === 'until close')
        this.#isReusable = false;
      if (!limit && reading !== 0) this.#isReusable = false;
      const content = limit && (await this.#readBody(reading, limit));
      return { status, headers: received, body: content };
    } catch (error) {
      this.#isReusable = false;
      throw error instanceof ExchangeError ? error : new ExchangeError((error as Error).message);
    } finally {
      signal.removeEventListener('abort', abort);
      this.#isExchanging = false;
      if (!this.isOpen) this.close();
    }
  }

  async #readHead(): Promise<{ status: number; headers: Record<string, string> }> {
    for (let interim = 0; interim <= maxInterim; interim++) {
      const [, status] =
        /^HTTP\/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?$/.exec(await this.#readLine(maxHead)) ?? [];
      if (status === undefined || status === '101')
        throw new ExchangeError('the reply is not valid HTTP/1.1');
      const headers: Record<string, string> = Object.create(null);
      let room = maxHead;
      for (let line = await this.#readLine(room); line !== ''; line = await this.#readLine(room)) {
        room -= line.length;
        const colon = line.indexOf(':');
        const key = line.slice(0, Math.max(colon, 0)).toLowerCase();
        // No expression that backtracks: the destination chooses the line.
        if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(key) || /[^\t\x20-\x7e\x80-\xff]/.test(line))
          throw new ExchangeError('the reply has an invalid header');
        const value = line.slice(colon + 1).trim();
        headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`;
      }
      if (!status.startsWith('1')) return { status: Number(status), headers };
    }
    throw new ExchangeError('the reply has too many interim responses');
  }

  async #readBody(reading: BodyLength, { bytes, isCut }: BodyLimit): Promise<Buffer> {
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of reading === 'chunked' ? this.#chunks() : this.#take(reading)) {
      parts.push(part);
      size += part.length;
      if (size <= bytes) continue;
      if (!isCut) throw new ExchangeError('the reply is too large');
      this.#isReusable = false;
      break;
    }
    return Buffer.concat(parts, Math.min(size, bytes));
  }

  async *#chunks(): AsyncGenerator<Buffer> {
    for (;;) {
      const [, digits] = /^([0-9a-f]{1,7})(?:[ \t]*;.*)?$/i.exec(await this.#readLine(1000)) ?? [];
      if (digits === undefined) throw new ExchangeError('the reply has an invalid chunk');
      const length = Number.parseInt(digits, 16);
      if (length === 0) break;
      yield* this.#take(length);
      if ((await this.#readLine(2)) !== '') throw new ExchangeError('the reply has an invalid chunk');
    }
    for (let trailers = 0; (await this.#readLine(1000)) !== ''; trailers++)
      if (trailers > 20) throw new ExchangeError('the reply has too many trailers');
  }

  /** The next bytes of this number, in parts as they arrive. */
  async *#take(length: number | 'until close'): AsyncGenerator<Buffer> {
    for (let missing = length === 'until close' ? Number.POSITIVE_INFINITY : length; missing > 0; ) {
      const part = await this.#next();
      if (!part && length === 'until close') return;
      if (!part) throw new ExchangeError('the reply ended early');
      if (part.length > missing) this.#received.unshift(part.subarray(missing));
      yield part.subarray(0, missing);
      missing -= part.length;
    }
  }

  /** The next bytes that arrive. Undefined if the server has closed the connection. */
  async #next(): Promise<Buffer | undefined> {
    while (this.#received.length === 0) {
      if (this.#error) throw this.#error;
      if (this.#hasEnded) return undefined;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    // Bytes that arrived before the deadline do not count after it.
    if (this.#error instanceof ExchangeError) throw this.#error;
    return this.#received.shift();
  }

  /** The next line, without its end. */
  async #readLine(max: number): Promise<string> {
    const parts: Buffer[] = [];
    let size = 0;
    for (;;) {
      const part = await this.#next();
      if (!part) throw new ExchangeError('the reply ended early');
      const end = part.indexOf('\n');
      const line = end < 0 ? part : part.subarray(0, end);
      size += line.length;
      if (size > max) throw new ExchangeError('the reply has a line that is too long');
      parts.push(line);
      if (end < 0) continue;
      if (end + 1 < part.length) this.#received.unshift(part.subarray(end + 1));
      const text = Buffer.concat(parts).toString('latin1');
      if (!text.endsWith('\r')) throw new ExchangeError('the reply has a line without a carriage return');
      return text.slice(0, -1);
    }
  }
}

type BodyLength = number | 'chunked' | 'until close';

/** Throws if the length of the body is ambiguous. */
function bodyOf(status: number, headers: Readonly<Record<string, string>>): BodyLength {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  if (status === 204 || status === 304) return 0;
  if (encoding !== undefined) {
    if (encoding.toLowerCase() === 'chunked' && length === undefined) return 'chunked';
    throw new ExchangeError('the reply has an unknown transfer encoding');
  }
  if (length === undefined) return 'until close';
  if (!/^\d{1,15}$/.test(length)) throw new ExchangeError('the reply has an invalid length');
  return Number(length);
}
