/** A destination on the loopback interface: a TLS server with its own CA that records requests and can misbehave. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import { createCertificates } from './certificates.ts';
import { closeLater } from './cleanup.ts';

export interface Receiver {
  readonly origin: string;
  /** The same server by its address. */
  readonly addressOrigin: string;
  readonly ca: string;
  readonly clientCertificate: string;
  /** Every request, as text. */
  readonly received: string[];
  /** The number of connections so far. */
  connections(): number;
  /** Sets the function that answers the next requests. */
  answer(reply: (socket: TLSSocket, request: string) => void): void;
  close(): Promise<void>;
}

export const json = (body: unknown, head = 'HTTP/1.1 200 OK') => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return `${head}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};

/** A request with placeholders, as a destination lists it. */
export const chargeRequest = {
  method: 'POST',
  path: '/v1/charges/:id',
  placeholders: [
    { at: '/card/number', from: '/number' },
    { at: 'header:x-card', from: '/number', prefix: 'Card ' },
  ],
  query: ['expand'],
  headers: ['accept-language'],
  reply: ['/id', 'header:request-id'],
};

/** A rule that allows the use of all tokens of a container at these destinations. */
export const tokenUseRule = (container: string, destinations: readonly string[]) => ({
  priority: 1,
  container,
  transform: 'redact',
  permissions: ['token:use'],
  destinations,
});

/**
 * Creates the destination `payments`, and an application that may use every token there. `post` returns the body of the
 * response. Returns the key of the application.
 */
export async function createUser(
  post: (path: string, body: object) => Promise<unknown>,
  destination: object,
): Promise<string> {
  const { id } = (await post('/destinations', { name: 'payments', ...destination })) as { id: string };
  const application = { name: 'user', type: 'private', permissions: [], rules: [tokenUseRule('/', [id])] };
  return ((await post('/applications', application)) as { key: string }).key;
}

export async function openReceiver(requestCert = false): Promise<Receiver> {
  const folder = mkdtempSync(join(tmpdir(), 'receiver-'));
  const { authority, server: pair, client } = createCertificates(folder, 'client', ',IP:127.0.0.1');
  const read = (file: string) => readFileSync(file, 'utf8');
  const [ca, cert, key] = [authority, pair.certificate, pair.key].map(read) as [string, string, string];
  const clientCertificate = read(client.certificate) + read(client.key);
  rmSync(folder, { recursive: true });
  const received: string[] = [];
  const sockets = new Set<TLSSocket>();
  let connections = 0;
  let reply: (socket: TLSSocket, request: string) => void;
  const ok = (socket: TLSSocket) => void socket.write(json({ id: 'ch_1', status: 'paid', secret: 'hidden' }));
  reply = ok;
  const server = createServer({ cert, key, ca, requestCert, rejectUnauthorized: requestCert }, (socket) => {
    connections++;
    sockets.add(socket);
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (end < 0 || text.length < end + 4 + length) return;
      received.push(text);
      const request = text;
      text = '';
      reply(socket, request);
    });
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as { port: number };
  return {
    origin: `https://localhost:${port}`,
    addressOrigin: `https://127.0.0.1:${port}`,
    ca,
    clientCertificate,
    received,
    connections: () => connections,
    answer: (next) => {
      reply = next;
    },
    close: closeLater(async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((closed) => server.close(() => closed()));
    }),
  };
}
