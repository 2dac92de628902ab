/** A wire to a TCP server that a test can cut, close or let fall silent. */
import { connect, createServer, type Socket } from 'node:net';

type Mode = 'pass' | 'refuse' | 'swallow';

export interface Wire {
  readonly port: number;
  /** Passes everything on, takes but never passes on, or turns new connections away. */
  set(mode: Mode): void;
  /** Ends every connection at once. */
  cut(): void;
  close(): Promise<void>;
}

export async function openWire(target: number): Promise<Wire> {
  const sockets = new Set<Socket>();
  let mode: Mode = 'pass';

  function keep(socket: Socket): Socket {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    return socket;
  }

  function pass(from: Socket, to: Socket): void {
    from.on('data', (chunk) => {
      if (mode !== 'swallow') to.write(chunk);
    });
    from.on('close', () => to.destroy());
  }

  const server = createServer((client) => {
    keep(client);
    if (mode === 'refuse') {
      client.destroy();
      return;
    }
    const upstream = keep(connect(target, '127.0.0.1'));
    pass(client, upstream);
    pass(upstream, client);
  });
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    set: (next) => {
      mode = next;
    },
    cut,
    close: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
