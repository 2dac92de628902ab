/**
 * HTTP/1.1 over one TLS connection. Connecting and sending are separate steps, so that a caller can write its audit
 * entry in between: Bun's `fetch` and `node:https` do both at once. Replies are parsed strictly and are limited in size.
 */
import { connect, type TLSSocket } from 'node:tls';
import type { Secret } from '../domain/key.ts';

export interface TlsTarget {
  /** The checked address. The name is not resolved again. */
  readonly address: string;
  readonly port: number;
  /** The name that the certificate must have. */
  readonly host: string;
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

/** The exchange failed after the request was written, at least in part. */
export class ExchangeError extends Error {
  readonly isTimeout: boolean;
  constructor(message: string, isTimeout = false) {
    super(message);
    this.isTimeout = isTimeout;
  }
}

/** Rejects if the connection is not ready before `signal` aborts, or if the certificate is not valid. */
export function connectTls(target: TlsTarget, signal: AbortSignal): Promise<HttpConnection> {
  const { address, port, host, ca, certificate, privateKey } = target;
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: address,
      port,
      servername: host,
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
    socket.once('secureConnect', () => {
      signal.removeEventListener('abort', abort);
      socket.off('error', end);
      if (socket.authorized) resolve(new HttpConnection(socket));
      else end(new Error('the certificate is not valid'));
    });
  });
}

const maxHead = 32_768;
const maxInterim = 5;
/** Neither a header of the request nor its path can start another line. */
const lineBreak = /[\r\n\0]/;

export class HttpConnection {
  readonly #socket: TLSSocket;
  #received: Buffer[] = [];
  #error: Error | undefined;
  #hasEnded = false;
  #wake: () => void = () => {};
  #isReusable = true;
  #isExchanging = false;

  constructor(socket: TLSSocket) {
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
   * not valid, or has more than `maxBody` bytes. The body is read only if `maxBody` is given. Closes the connection
   * unless the reply was complete.
   */
  async exchange(
    { method, path, headers, body = '' }: OutboundRequest,
    signal: AbortSignal,
    maxBody?: number,
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
      if (maxBody === undefined && reading !== 0) this.#isReusable = false;
      const content = maxBody === undefined ? undefined : await this.#readBody(reading, maxBody);
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

  async #readBody(reading: BodyLength, max: number): Promise<Buffer> {
    if (typeof reading === 'number') {
      if (reading > max) throw new ExchangeError('the reply is too large');
      return this.#take(reading);
    }
    const parts: Buffer[] = [];
    let size = 0;
    const add = (part: Buffer) => {
      size += part.length;
      if (size > max) throw new ExchangeError('the reply is too large');
      parts.push(part);
    };
    if (reading === 'until close') {
      for (let part = await this.#next(); part; part = await this.#next()) add(part);
      return Buffer.concat(parts);
    }
    for (;;) {
      const [, digits] = /^([0-9a-f]{1,7})(?:[ \t]*;.*)?$/i.exec(await this.#readLine(1000)) ?? [];
      if (digits === undefined) throw new ExchangeError('the reply has an invalid chunk');
      const length = Number.parseInt(digits, 16);
      if (length === 0) break;
      if (size + length > max) throw new ExchangeError('the reply is too large');
      add(await this.#take(length));
      if ((await this.#readLine(2)) !== '') throw new ExchangeError('the reply has an invalid chunk');
    }
    for (let trailers = 0; (await this.#readLine(1000)) !== ''; trailers++)
      if (trailers > 20) throw new ExchangeError('the reply has too many trailers');
    return Buffer.concat(parts);
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

  async #take(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let missing = length; missing > 0; ) {
      const part = await this.#next();
      if (!part) throw new ExchangeError('the reply ended early');
      if (part.length > missing) this.#received.unshift(part.subarray(missing));
      parts.push(part.subarray(0, missing));
      missing -= Math.min(part.length, missing);
    }
    return Buffer.concat(parts);
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
