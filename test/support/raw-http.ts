/** Sends raw bytes over a socket, for requests that an HTTP client would not send. */
import { connect, type Socket } from 'node:net';

export interface RawResponse {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/**
 * Sends the text (one byte per character) and returns everything received until the server closes. Sends `next` when
 * something was received.
 */
export function sendRaw(url: string, text: string, next = ''): Promise<string> {
  return exchange(url, (socket) => {
    if (next !== '') socket.once('data', () => socket.write(next, 'latin1'));
    socket.write(text, 'latin1');
  });
}

/** Sends the text and closes the sending side. */
export async function sendAndClose(url: string, text: string): Promise<void> {
  await exchange(url, (socket) => socket.end(text, 'latin1'));
}

function exchange(url: string, send: (socket: Socket) => void): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), hostname, () => send(socket));
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    socket.on('close', () => resolve(received));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
  });
}

/** Sends one request with `Connection: close`. */
export async function rawRequest(
  url: string,
  line: string,
  headers: readonly string[] = [],
  body = '',
): Promise<RawResponse> {
  const host = headers.some((header) => /^host:/i.test(header)) ? [] : ['Host: localhost'];
  const lines = [`${line} HTTP/1.1`, ...host, ...headers, 'Connection: close', '', body];
  const received = await sendRaw(url, lines.join('\r\n'));
  const end = received.indexOf('\r\n\r\n');
  return {
    status: Number(received.split(' ', 2)[1] ?? 0),
    head: received.slice(0, end),
    body: received.slice(end + 4),
  };
}
