/** A fast HTTP client: persistent connections with one request at a time. */
import type { Socket } from 'bun';

export interface ClientResponse {
  readonly status: number;
  readonly head: string;
  readonly text: string;
}

export interface RequestOptions {
  readonly key?: string | undefined;
  /** Strings are sent unchanged, other values as JSON. */
  readonly body?: unknown;
  readonly headers?: readonly string[];
}

/** The request as bytes: the head in Latin-1, one byte per character, and the body in UTF-8. */
export function written(
  method: string,
  path: string,
  { key, body, headers = [] }: RequestOptions = {},
): Buffer {
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  const bytes = text === undefined ? undefined : Buffer.from(text);
  const hasHost = headers.some((line) => /^host:/i.test(line));
  const lines = [`${method} ${path} HTTP/1.1`, ...(hasHost ? [] : ['Host: localhost']), ...headers];
  if (key !== undefined) lines.push(`SVC-API-KEY: ${key}`);
  const hasType = headers.some((line) => /^content-type:/i.test(line));
  if (bytes && !hasType) lines.push('Content-Type: application/json');
  if (bytes) lines.push(`Content-Length: ${bytes.length}`);
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  return bytes ? Buffer.concat([head, bytes]) : head;
}

/** The body in chunks of one byte. */
export function chunks(body: Uint8Array): Buffer {
  const [size, end] = [6, '0\r\n\r\n'];
  const bytes = Buffer.alloc(body.length * size + end.length, '1\r\n_\r\n');
  for (const [at, byte] of body.entries()) bytes[at * size + 3] = byte;
  bytes.write(end, body.length * size);
  return bytes;
}

interface Waiting {
  readonly resolve: (answer: ClientResponse) => void;
  readonly reject: (error: Error) => void;
  readonly noBody: boolean;
}

/** One connection. A request that is sent before the last response has arrived is pipelined. */
class Connection {
  /** Time of the last response. */
  usedAt = 0;
  #socket: Socket<undefined> | undefined;
  /** Received text that is not part of a complete response. Joined when it has `#needed` characters. */
  readonly #received: string[] = [];
  #length = 0;
  #needed = 0;
  readonly #unsent: Buffer[] = [];
  readonly #waiting: Waiting[] = [];

  async open(url: string): Promise<this> {
    const { hostname, port } = new URL(url);
    const close = () => this.#end(new Error('the server closed the connection'));
    this.#socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        data: (_, chunk) => this.#take(chunk.toString('latin1')),
        drain: () => this.#flush(),
        close,
        end: close,
        error: (_, error) => this.#end(error),
      },
    });
    return this;
  }

  get isOpen(): boolean {
    return this.#socket !== undefined;
  }

  ask(bytes: Buffer, noBody = false): Promise<ClientResponse> {
    return new Promise((resolve, reject) => {
      if (!this.#socket) return reject(new Error('the connection is closed'));
      this.#waiting.push({ resolve, reject, noBody });
      this.#unsent.push(bytes);
      this.#flush();
    });
  }

  #flush(): void {
    for (;;) {
      const bytes = this.#unsent[0];
      if (!bytes || !this.#socket) return;
      const sent = this.#socket.write(bytes);
      if (sent < bytes.length) {
        this.#unsent[0] = bytes.subarray(Math.max(sent, 0));
        return;
      }
      this.#unsent.shift();
    }
  }

  close(): void {
    this.#socket?.end();
    this.#socket = undefined;
  }

  #take(text: string): void {
    this.#received.push(text);
    this.#length += text.length;
    for (;;) {
      const waiting = this.#waiting[0];
      if (!waiting || this.#length < this.#needed) return;
      const received = this.#received.splice(0).join('');
      const first = firstAnswer(received, waiting.noBody);
      const rest = first.answer ? received.slice(first.length) : received;
      this.#received.push(rest);
      this.#length = rest.length;
      this.#needed = first.answer ? 0 : first.length;
      if (!first.answer) return;
      if (first.answer.status < 200) continue;
      this.#waiting.shift();
      waiting.resolve(first.answer);
      if (/\r\nconnection: *close/i.test(first.answer.head))
        this.#end(new Error('the server ends the connection'));
    }
  }

  #end(error: Error): void {
    this.#socket?.end();
    this.#socket = undefined;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

/** The first response in the text. If it is not complete, the length that the text must have at least. */
function firstAnswer(text: string, noBody: boolean): { answer?: ClientResponse; length: number } {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return { length: text.length + 1 };
  const head = text.slice(0, end);
  const status = Number(head.slice(9, 12));
  const start = end + 4;
  if (noBody || status === 204 || status === 304 || status < 200) {
    return { answer: { status, head, text: '' }, length: start };
  }
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const body = chunked(text, start);
    if (typeof body === 'number') return { length: body };
    return { answer: { status, head, text: decoded(body.text) }, length: body.end };
  }
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? Number.NaN);
  if (Number.isNaN(length)) throw new Error(`response without a length: ${head}`);
  if (text.length < start + length) return { length: start + length };
  return {
    answer: { status, head, text: decoded(text.slice(start, start + length)) },
    length: start + length,
  };
}

/** The decoded chunks from `start` on. Until the last one has arrived, the length that the text must have at least. */
function chunked(text: string, start: number): { text: string; end: number } | number {
  const parts: string[] = [];
  for (let at = start; ; ) {
    const line = text.indexOf('\r\n', at);
    if (line < 0) return text.length + 1;
    const size = Number.parseInt(text.slice(at, line), 16);
    const end = line + 2 + size + 2;
    if (text.length < end) return end;
    if (size === 0) return { text: parts.join(''), end };
    parts.push(text.slice(line + 2, line + 2 + size));
    at = end;
  }
}

function decoded(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

/** Milliseconds after which a connection is not reused. The server closes idle connections after ten seconds. */
const longestIdle = 5000;

/** Opens as many connections to one server as there are concurrent requests. */
export class Client {
  readonly url: string;
  readonly #idle: Connection[] = [];

  constructor(url: string) {
    this.url = url;
  }

  async send(bytes: Buffer, noBody = false): Promise<ClientResponse> {
    const connection = this.#take() ?? (await new Connection().open(this.url));
    try {
      return await connection.ask(bytes, noBody);
    } finally {
      connection.usedAt = performance.now();
      if (connection.isOpen) this.#idle.push(connection);
    }
  }

  call(method: string, path: string, asked?: RequestOptions): Promise<ClientResponse> {
    return this.send(written(method, path, asked), method === 'HEAD');
  }

  close(): void {
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  #take(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (!connection) return undefined;
      if (connection.isOpen && performance.now() - connection.usedAt < longestIdle) return connection;
      connection.close();
    }
  }
}
