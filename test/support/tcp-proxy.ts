/** A TCP proxy that a test can disconnect, delay, silence or point at another server. */

import { connect, createServer, type Socket } from 'node:net';
import { closeLater } from './cleanup.ts';
import { freePort } from './postgres.ts';

/**
 * - `pass`: forwards both directions.
 * - `refuse`: accepts no new connections.
 * - `swallow`: accepts data but forwards nothing, not even that the other end has closed.
 * - `mute`: forwards to the server, but drops what the server sends.
 */
type Mode = 'pass' | 'refuse' | 'swallow' | 'mute';

export interface TcpProxy {
  readonly port: number;
  setMode(mode: Mode): void;
  /** Delays every chunk in both directions. */
  setDelay(milliseconds: number): void;
  /** Sets the target port for new connections. */
  setTarget(target: number): void;
  /** Destroys every open connection. */
  disconnect(): void;
  close(): Promise<void>;
}

/** `watch` is called with what a server sends. */
export async function openTcpProxy(
  target: number,
  watch?: (chunk: Buffer, server: Socket) => void,
): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let mode: Mode = 'pass';
  let delay = 0;
  let targetPort = target;

  function track(socket: Socket): Socket {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    return socket;
  }

  function forward(from: Socket, to: Socket, silent: readonly Mode[]): void {
    const write = (chunk: Buffer) => {
      if (!silent.includes(mode) && to.writable) to.write(chunk);
    };
    from.on('data', (chunk: Buffer) => {
      if (delay === 0) write(chunk);
      else setTimeout(write, delay, chunk);
    });
    from.on('close', () => {
      if (!silent.includes(mode)) to.destroy();
    });
  }

  const server = createServer((client) => {
    track(client);
    const upstream = track(connect(targetPort, '127.0.0.1'));
    forward(client, upstream, ['swallow']);
    forward(upstream, client, ['swallow', 'mute']);
    if (watch) upstream.on('data', (chunk: Buffer) => watch(chunk, upstream));
  });
  const disconnect = () => {
    for (const socket of sockets) socket.destroy();
  };
  const port = freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    port,
    setMode: (next) => {
      if (next === 'refuse') server.close();
      else if (mode === 'refuse') server.listen(port, '127.0.0.1');
      mode = next;
    },
    setDelay: (milliseconds) => {
      delay = milliseconds;
    },
    setTarget: (next) => {
      targetPort = next;
    },
    disconnect,
    close: closeLater(async () => {
      disconnect();
      await new Promise((resolve) => server.close(resolve));
    }),
  };
}
