/** A wire to a TCP server that a test can cut, close, slow down, lead elsewhere or let fall silent. */
import { connect, createServer, type Socket } from 'node:net';

/**
 * Passes everything on; turns new connections away; takes everything but passes nothing on, not even that the other
 * end has closed; passes on what is sent to the server, but nothing that it says.
 */
type Mode = 'pass' | 'refuse' | 'swallow' | 'mute';

export interface TcpProxy {
  readonly port: number;
  setMode(mode: Mode): void;
  /** Milliseconds that everything takes in either direction. */
  setDelay(milliseconds: number): void;
  /** Where new connections lead from now on. */
  setTarget(target: number): void;
  /** Ends every connection at once. */
  disconnect(): void;
  close(): Promise<void>;
}

export async function openTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let mode: Mode = 'pass';
  let pause = 0;
  let goal = target;

  function keep(socket: Socket): Socket {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    return socket;
  }

  function pass(from: Socket, to: Socket, silent: readonly Mode[]): void {
    const write = (chunk: Buffer) => {
      if (!silent.includes(mode) && to.writable) to.write(chunk);
    };
    from.on('data', (chunk: Buffer) => {
      if (pause === 0) write(chunk);
      else setTimeout(write, pause, chunk);
    });
    from.on('close', () => {
      if (!silent.includes(mode)) to.destroy();
    });
  }

  const server = createServer((client) => {
    keep(client);
    if (mode === 'refuse') {
      client.destroy();
      return;
    }
    const upstream = keep(connect(goal, '127.0.0.1'));
    pass(client, upstream, ['swallow']);
    pass(upstream, client, ['swallow', 'mute']);
  });
  const disconnect = () => {
    for (const socket of sockets) socket.destroy();
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    setMode: (next) => {
      mode = next;
    },
    setDelay: (milliseconds) => {
      pause = milliseconds;
    },
    setTarget: (next) => {
      goal = next;
    },
    disconnect,
    close: async () => {
      disconnect();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
