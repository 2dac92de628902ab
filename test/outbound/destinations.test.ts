/** Connections to a destination that is hostile or slow, against a real TLS server on the loopback interface. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TLSSocket } from 'node:tls';
import { allowAll } from '../../src/outbound/address.ts';
import { outboundDestinations } from '../../src/outbound/destinations.ts';
import { connect } from '../../src/outbound/http-connection.ts';
import { noOpenssl } from '../support/certificates.ts';
import { json, openReceiver, type Receiver } from '../support/destination-receiver.ts';
import { until } from '../support/until.ts';

describe.skipIf(noOpenssl)('a connection to a destination', () => {
  let time = 0;
  const outbound = outboundDestinations({
    allowPrivate: allowAll,
    resolve: async () => ['127.0.0.1'],
    now: () => time,
    onFailure: () => {},
  });
  const request = { method: 'GET', path: '/', headers: { host: 'localhost' } };
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await openReceiver();
  });
  afterAll(async () => {
    outbound.close();
    await receiver.close();
  });

  const open = (version: string) => {
    const { origin, ca } = receiver;
    return outbound.open({ tenantId: 'tenant', id: 'destination', version, origin, ca }, 25_000);
  };

  /** The number of connections after another request was answered. */
  const connectionsAfter = async (version: string) => {
    receiver.answer((socket) => socket.write(json({})));
    const { exchange, release } = await open(version);
    await exchange(request, { bytes: 1000 });
    release(false);
    return receiver.connections();
  };

  test('is closed after a header whose end could be at any of 30,000 places', async () => {
    receiver.answer((socket) => socket.write(`HTTP/1.1 200 OK\r\nX-Long:${'\t'.repeat(30_000)}\rx\r\n\r\n`));
    const { exchange, release } = await open('header');
    await expect(exchange(request)).rejects.toThrow('invalid header');
    release(false);
    expect(await connectionsAfter('header')).toBe(2);
  });

  test('is closed when it receives bytes between two requests', async () => {
    const closed = Promise.withResolvers<void>();
    let [socket, isClosed] = [undefined as TLSSocket | undefined, false];
    receiver.answer((answering) => {
      socket = answering;
      answering.once('close', () => {
        isClosed = true;
        closed.resolve();
      });
      answering.write(json({}));
    });
    const { exchange, release } = await open('unasked');
    await exchange(request, { bytes: 1000 });
    release(false);
    const megabyte = 'x'.repeat(1_000_000);
    for (let sent = 0; sent < 64 && !isClosed; sent++)
      await Promise.race([closed.promise, new Promise((flushed) => socket?.write(megabyte, flushed))]);
    expect(isClosed).toBe(true);
  });

  test.each([
    ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}'],
    ['204 that announces a body', 'HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n'],
    ['204 that announces chunks', 'HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n'],
  ])('is closed after a reply %s', async (version, reply) => {
    receiver.answer((socket) => socket.write(reply));
    const { exchange, release } = await open(version);
    await exchange(request, { bytes: 1000 });
    release(false);
    const before = receiver.connections();
    expect(await connectionsAfter(version)).toBe(before + 1);
  });

  test('refuses a reply in too many small chunks, but not one in some', async () => {
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
    const receive = async (size: number, count: number) => {
      const chunk = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`;
      receiver.answer((socket) => socket.write(`${head}${chunk.repeat(count)}0\r\n\r\n`));
      const { exchange, release } = await open('chunks');
      return exchange(request, { bytes: 1_048_576 }).finally(() => release(false));
    };
    expect((await receive(1, 2000)).body).toHaveLength(2000);
    expect((await receive(300, 3000)).body).toHaveLength(900_000);
    await expect(receive(1, 3000)).rejects.toThrow('too many small chunks');
    await expect(receive(100, 5000)).rejects.toThrow('too many small chunks');
  });

  test('tells before a request is sent that the destination has closed it', async () => {
    let socket: TLSSocket | undefined;
    receiver.answer((answering) => {
      socket = answering;
      answering.write(json({}));
    });
    const first = await open('closed');
    await first.exchange(request, { bytes: 1000 });
    first.release(false);
    const lease = await open('closed');
    expect(lease.isOpen()).toBe(true);
    socket?.destroy();
    await until('closed', () => !lease.isOpen());
    lease.release(false);
  });

  test('sends a request that the caller has recorded, however long connecting and recording took', async () => {
    receiver.received.length = 0;
    receiver.answer((socket) => socket.write(json({})));
    const opening = open('slow');
    time += 60_000;
    const { exchange, release } = await opening;
    await new Promise((resolve) => setTimeout(resolve, 5));
    const sent = exchange(request).then(release.bind(undefined, false), () => release(true));
    await until('the request arrives', () => receiver.received.length === 1);
    await sent;
  });

  test('sends nothing after the deadline, and no server name for an address', async () => {
    const received: string[] = [];
    receiver.answer((socket, bytes) => {
      received.push(`${bytes} ${socket.servername}`);
      socket.write(json({}));
    });
    const url = new URL(receiver.origin);
    const connected = () => connect(url, '127.0.0.1', receiver, AbortSignal.timeout(60_000));
    const late = (await connected()).exchange({ ...request, path: '/late' }, AbortSignal.abort());
    await expect(late).rejects.toMatchObject({ isTimeout: true });
    url.hostname = '127.0.0.1';
    const connection = await connected();
    await connection.exchange({ ...request, path: '/next' }, AbortSignal.timeout(60_000), { bytes: 1000 });
    connection.close();
    expect(received).toEqual([expect.stringMatching(/^GET \/next.* false$/s)]);
  });

  test('sends all of a request that is larger than the buffers of the system', async () => {
    receiver.answer((socket, { length }) => socket.write(json({ length })));
    const { exchange, release } = await open('large');
    const body = 'x'.repeat(8_000_000);
    const headers = { ...request.headers, 'content-length': String(body.length) };
    const reply = await exchange({ ...request, method: 'POST', headers, body }, { bytes: 1000 });
    expect(JSON.parse(String(reply.body)).length).toBeGreaterThan(body.length);
    release(false);
  });

  test('is reused by the next request, and at most 50 of a tenant stay open', async () => {
    for (let version = 1; version <= 50; version++) await connectionsAfter(String(version));
    const full = receiver.connections();
    expect(await connectionsAfter('1')).toBe(full);
    expect(await connectionsAfter('51')).toBe(full + 1);
    expect(await connectionsAfter('3')).toBe(full + 1);
    expect(await connectionsAfter('2')).toBe(full + 2);
  });
});
