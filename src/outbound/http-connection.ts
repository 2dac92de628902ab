/**
 * HTTP/1.1 over one connection. Connecting and sending are separate steps, so that a caller can write its audit entry in
 * between. Bun's `fetch` does both in one step; `node:https` needs a stream of `node:tls`, which takes a third more CPU
 * time than a socket of Bun. Replies are parsed strictly and are limited in size.
 */
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import type { Socket } from 'bun';
import type { Secret } from '../domain/key.ts';
import { areTooSmall } from '../domain/received-bytes.ts';
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
  readonly body?: string | Uint8Array | undefined;
}

/** The head of a reply, whose body is read as it arrives. */
export interface StreamedReply extends Omit<OutboundReply, 'body'> {
  /** The next bytes of the body, or undefined at its end. Throws `ExchangeError` as `exchange`. Call it again only then. */
  next(): Promise<Buffer | undefined>;
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
  /** Called before further bytes of the body are stored. If it throws, the exchange fails. */
  readonly reserve?: (bytes: number) => void;
}

/** The exchange failed after the request was written, at least in part. */
export class ExchangeError extends Error {
  readonly isTimeout: boolean;
  constructor(message: string, isTimeout = false) {
    super(message);
    this.isTimeout = isTimeout;
  }
}

/** No connection in time. Bun cannot cancel the attempt: its socket is open until the promise `attempt` settles. */
export class ConnectTimeout extends Error {
  readonly attempt: Promise<unknown>;
  constructor(attempt: Promise<unknown>) {
    super('no connection in time');
    this.attempt = attempt;
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
  const host = unbracketed(hostname);
  const connection = new HttpConnection();
  const tls = {
    // An address is no server name (RFC 6066).
    serverName: isIP(host) === 0 ? host : '',
    // Otherwise NODE_TLS_REJECT_UNAUTHORIZED decides.
    rejectUnauthorized: true,
    ALPNProtocols: '\x08http/1.1',
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { cert: certificate, key: privateKey?.reveal() }),
  };
  return new Promise((resolve, reject) => {
    const end = (error?: Error) => {
      signal.removeEventListener('abort', abort);
      if (!error) return resolve(connection);
      reject(error);
      connection.close();
    };
    const ended = (error?: Error) => {
      connection.ended(error);
      end(error ?? new Error('the connection was closed'));
    };
    const abort = () => end(new ConnectTimeout(attempt));
    signal.addEventListener('abort', abort, { once: true });
    const attempt = Bun.connect({
      hostname: address,
      port: Number(port || (isPlain ? 80 : 443)),
      ...(!isPlain && { tls }),
      socket: {
        open: (socket) => {
          connection.opened(socket);
          if (isPlain) end();
        },
        handshake: (socket, isComplete, error) => {
          const refused =
            isComplete && socket.authorized ? undefined : new Error('the certificate is not valid');
          end(error ?? refused ?? checkServerIdentity(host, socket.getPeerCertificate()));
        },
        data: (_, chunk) => connection.receive(chunk),
        drain: () => connection.flush(),
        error: (_, error) => ended(error),
        close: (_, error) => ended(error),
      },
    }).catch(end);
    if (signal.aborted) abort();
  });
}

const maxHead = 32_768;
const maxInterim = 5;
/** Neither a header of the request nor its path can start another line. */
const lineBreak = /[\r\n\0]/;

/** A stream is read no further while more bytes than this were not passed on. */
const maxUnread = 65_536;
/** Limits the time to read many small chunks that arrive together. */
const maxChunksAtOnce = 2000;

/** Waits for more bytes at each `yield`. With promises, the lines of a reply would take most of its time. */
type Reading<T> = Generator<undefined, T, void>;

export class HttpConnection {
  #socket: Socket | undefined;
  #unsent: Uint8Array = new Uint8Array();
  /** Follows `#unsent`. */
  #unsentBody: Uint8Array | undefined;
  /** What arrived, in Latin-1: strings are faster to search and to cut than buffers. It is read from `#at` on. */
  #received = '';
  #at = 0;
  /** Counts what arrived for the current reply, and its chunks. */
  #parts = 0;
  #error: Error | undefined;
  #hasEnded = false;
  #wake: () => void = () => {};
  #isReusable = true;
  #isExchanging = false;
  /** Whether the socket is told to read no more until what arrived was read. */
  #isPaused = false;
  #mayPause = false;

  opened(socket: Socket): void {
    this.#socket = socket;
    if (!this.#isReusable) this.close();
  }

  receive(chunk: Buffer): void {
    if (this.#isExchanging) {
      this.#received = this.#received.slice(this.#at) + chunk.toString('latin1');
      this.#at = 0;
      this.#parts++;
      if (this.#mayPause && this.#received.length > maxUnread) {
        this.#isPaused = true;
        this.#socket?.pause();
      }
      this.#wake();
    } else this.close(); // Unsolicited: the bytes would fill the memory, or be read as the next reply.
  }

  ended(error?: Error): void {
    this.#error ??= error;
    this.#hasEnded = true;
    this.#wake();
  }

  /** Writes as many bytes as the socket takes. The rest follows when it takes more. */
  flush(): void {
    if (this.#unsent.length === 0) return;
    const rest = this.#unsent.subarray(Math.max(0, this.#socket?.write(this.#unsent) ?? 0));
    // An empty part of the buffer would refer to all of it, so the data would stay in memory.
    this.#unsent = rest.length > 0 ? rest : new Uint8Array();
    if (rest.length > 0 || !this.#unsentBody) return;
    [this.#unsent, this.#unsentBody] = [this.#unsentBody, undefined];
    this.flush();
  }

  /** Whether another request can be sent. False if the server has closed the connection or sent something unasked. */
  get isOpen(): boolean {
    return this.#isReusable && !this.#hasEnded && this.#isAllRead && this.#unsent.length === 0;
  }

  get #isAllRead(): boolean {
    return this.#at === this.#received.length;
  }

  /** Whether the server has sent something since the last request. */
  get hasAnswered(): boolean {
    return this.#parts > 0;
  }

  close(): void {
    this.#isReusable = false;
    this.#socket?.terminate();
  }

  /**
   * Sends the request and reads the reply. Throws `ExchangeError` if the reply is not complete when `signal` aborts, is
   * not valid, or has more bytes than `limit`. The body is read only if there is a `limit`. Closes the connection unless
   * the reply was complete.
   */
  exchange(request: OutboundRequest, signal: AbortSignal, limit?: BodyLimit): Promise<OutboundReply> {
    return this.#whileOpen(signal, () => {
      this.#send(request);
      return this.#run(this.#readReply(limit));
    });
  }

  /**
   * Sends the request and reads the head of the reply. The bytes of the body are read by `next`, and the socket waits
   * while they are not. If `signal` aborts, the connection is closed and `next` throws. The caller closes the connection
   * unless it has read the end.
   */
  async stream(request: OutboundRequest, signal: AbortSignal): Promise<StreamedReply> {
    let isReusable = false;
    const { status, headers, reading } = await this.#whileOpen(
      signal,
      async () => {
        this.#mayPause = true;
        this.#send(request);
        const head = await this.#run(this.#readHeadOfReply());
        isReusable = this.#isReusable;
        // Until the end of the body.
        this.#isReusable = false;
        return head;
      },
      true,
    );
    const parts = this.#bodyParts(reading);
    const next = () =>
      this.#whileOpen(
        signal,
        async () => {
          const part = await this.#run(this.#nextPart(parts));
          if (part) return part;
          this.#mayPause = false;
          this.#isReusable = isReusable && !this.#hasEnded;
          return undefined;
        },
        true,
      );
    return { status, headers, next };
  }

  #send({ method, path, headers, body = '' }: OutboundRequest): void {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    lines.unshift(`${method} ${path} HTTP/1.1`);
    if (lines.some((line) => lineBreak.test(line))) throw new Error('a header or the path has a line break');
    const head = `${lines.join('\r\n')}\r\n\r\n`;
    this.#unsent = Buffer.from(typeof body === 'string' ? head + body : head);
    // A copy of a large body would take as much memory again.
    if (typeof body !== 'string') this.#unsentBody = body;
    this.flush();
  }

  /** Closes the connection if the work fails, or unless it can be used again or `continues`. */
  async #whileOpen<T>(signal: AbortSignal, work: () => Promise<T>, continues = false): Promise<T> {
    const late = new ExchangeError('no complete reply in time', true);
    const abort = () => this.ended(late);
    signal.addEventListener('abort', abort, { once: true });
    if (!this.#isExchanging) this.#parts = 0;
    this.#isExchanging = true;
    let isOver = true;
    try {
      if (signal.aborted) throw late;
      const result = await work();
      isOver = !continues || result === undefined;
      return result;
    } catch (error) {
      this.#isReusable = false;
      throw error instanceof ExchangeError ? error : new ExchangeError((error as Error).message);
    } finally {
      signal.removeEventListener('abort', abort);
      if (isOver) {
        this.#isExchanging = false;
        if (!this.isOpen) this.close();
      }
    }
  }

  #run<T>(reading: Reading<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#wake = () => {
        try {
          const { done, value } = reading.next();
          if (!done) return;
          resolve(value);
        } catch (error) {
          reject(error);
        }
        this.#wake = () => {};
      };
      this.#wake();
    });
  }

  *#readReply(limit: BodyLimit | undefined): Reading<OutboundReply> {
    const { status, headers, reading } = yield* this.#readHeadOfReply();
    if (!limit && reading !== 0) this.#isReusable = false;
    return { status, headers, body: limit && (yield* this.#readBody(reading, limit)) };
  }

  *#readHeadOfReply() {
    const { status, headers } = yield* this.#readHead();
    const reading = bodyOf(status, headers);
    if (headers.connection?.toLowerCase().includes('close') || reading === untilClose)
      this.#isReusable = false;
    // Against the standard, some servers send a body after 204.
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
    if ((status === 204 || status === 304) && (length !== '0' || encoding !== undefined))
      this.#isReusable = false;
    return { status, headers, reading };
  }

  /** What has arrived of the body. Yields nothing at its end. */
  *#bodyParts(reading: BodyLength): Generator<string | undefined, void, void> {
    for (;;) {
      let left = reading === 'chunked' ? yield* this.#readChunkLength() : reading;
      if (left === 0) return;
      while (left > 0 && (yield* this.#arrives(left === untilClose))) {
        const from = this.#at;
        this.#at = Math.min(this.#received.length, from + left);
        left -= this.#at - from;
        yield this.#received.slice(from, this.#at);
      }
      if (reading !== 'chunked') return;
      if ((yield* this.#readLine(2)) !== '') throw new ExchangeError('the reply has an invalid chunk');
    }
  }

  /** The next bytes: all that have arrived, up to a number of chunks. Undefined at the end of the body. */
  *#nextPart(parts: Generator<string | undefined, void, void>): Reading<Buffer | undefined> {
    let text = '';
    for (let count = 0; count < maxChunksAtOnce; ) {
      if (this.#isAllRead && this.#isPaused) {
        this.#isPaused = false;
        this.#socket?.resume();
      }
      const { done, value } = parts.next();
      if (done) break;
      if (value !== undefined) {
        text += value;
        count++;
      } else if (text === '') yield;
      else break;
    }
    return text === '' ? undefined : Buffer.from(text, 'latin1');
  }

  *#readHead(): Reading<{ status: number; headers: Record<string, string> }> {
    for (let interim = 0; interim <= maxInterim; interim++) {
      const [, version, status] =
        /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?$/.exec(yield* this.#readLine(maxHead)) ?? [];
      if (version === '0') this.#isReusable = false;
      if (status === undefined || status === '101')
        throw new ExchangeError('the reply is not valid HTTP/1.1');
      const headers: Record<string, string> = Object.create(null);
      let room = maxHead;
      for (let line = yield* this.#readLine(room); line !== ''; line = yield* this.#readLine(room)) {
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

  *#readBody(reading: BodyLength, { bytes, isCut, reserve }: BodyLimit): Reading<Buffer> {
    let body = '';
    for (let isLast = false; !isLast; ) {
      const length = reading === 'chunked' ? yield* this.#readChunkLength() : reading;
      isLast = reading !== 'chunked' || length === 0;
      const end = Math.min(body.length + length, bytes + 1);
      while (body.length < end && (yield* this.#arrives(length === untilClose))) {
        const from = this.#at;
        this.#at = Math.min(this.#received.length, from + end - body.length);
        reserve?.(this.#at - from);
        body += this.#received.slice(from, this.#at);
        if (areTooSmall(this.#parts, body.length))
          throw new ExchangeError('the reply arrives in too many small chunks');
      }
      if (body.length > bytes) {
        if (!isCut) throw new ExchangeError('the reply is too large');
        this.#isReusable = false;
        break;
      }
      if (!isLast && (yield* this.#readLine(2)) !== '')
        throw new ExchangeError('the reply has an invalid chunk');
    }
    return Buffer.from(body.slice(0, bytes), 'latin1');
  }

  /** Reads the trailers, too, if the length is 0. */
  *#readChunkLength(): Reading<number> {
    const [, digits] = /^([0-9a-f]{1,7})(?:[ \t]*;.*)?$/i.exec(yield* this.#readLine(100)) ?? [];
    if (digits === undefined) throw new ExchangeError('the reply has an invalid chunk');
    this.#parts++;
    const length = Number.parseInt(digits, 16);
    for (let trailers = 0; length === 0 && (yield* this.#readLine(1000)) !== ''; trailers++)
      if (trailers > 20) throw new ExchangeError('the reply has too many trailers');
    return length;
  }

  /** Waits for bytes to read. With `mayEnd`, returns false if the server has closed the connection. */
  *#arrives(mayEnd = false): Reading<boolean> {
    while (this.#isAllRead) {
      if (this.#error) throw this.#error;
      if (this.#hasEnded && mayEnd) return false;
      if (this.#hasEnded) throw new ExchangeError('the reply ended early');
      yield;
    }
    // Bytes that arrived before the deadline do not count after it.
    if (this.#error instanceof ExchangeError) throw this.#error;
    return true;
  }

  /** The next line, without its end. */
  *#readLine(max: number): Reading<string> {
    let line = '';
    for (let end = -1; end < 0; ) {
      yield* this.#arrives();
      end = this.#received.indexOf('\n', this.#at);
      line += this.#received.slice(this.#at, end < 0 ? undefined : end);
      this.#at = end < 0 ? this.#received.length : end + 1;
      if (line.length > max) throw new ExchangeError('the reply has a line that is too long');
    }
    if (!line.endsWith('\r')) throw new ExchangeError('the reply has a line without a carriage return');
    return line.slice(0, -1);
  }
}

type BodyLength = number | 'chunked';
const untilClose = Number.POSITIVE_INFINITY;

/** Throws if the length of the body is ambiguous. */
function bodyOf(status: number, headers: Readonly<Record<string, string>>): BodyLength {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  if (status === 204 || status === 304) return 0;
  if (encoding !== undefined) {
    if (encoding.toLowerCase() === 'chunked' && length === undefined) return 'chunked';
    throw new ExchangeError('the reply has an unknown transfer encoding');
  }
  if (length === undefined) return untilClose;
  if (!/^\d{1,15}$/.test(length)) throw new ExchangeError('the reply has an invalid length');
  return Number(length);
}
