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
  });

  const open = (version: string, applicationId = 'application', id = 'destination', timeout = 25_000) => {
    const { origin, ca } = receiver;
    const user = { tenantId: 'tenant', id, applicationId, maxInFlight: 50 };
    return outbound.open({ ...user, version, origin, ca }, timeout);
  };

  /** The number of connections after another request was answered. */
  const connectionsAfter = async (version: string) => {
    receiver.answer((socket) => socket.write(json({})));
    const { exchange, release } = await open(version);
    await exchange(request, { bytes: 1000 });
    release();
    return receiver.connections();
  };

  test('is closed after a header whose end could be at any of 30,000 places', async () => {
    receiver.answer((socket) => socket.write(`HTTP/1.1 200 OK\r\nX-Long:${'\t'.repeat(30_000)}\rx\r\n\r\n`));
    const { exchange, release } = await open('header');
    await expect(exchange(request)).rejects.toThrow('invalid header');
    release();
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
    release();
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
    release();
    const before = receiver.connections();
    expect(await connectionsAfter(version)).toBe(before + 1);
  });

  test('refuses a reply in too many small chunks, but not one in some', async () => {
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
    const receive = async (size: number, count: number) => {
      const chunk = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`;
      receiver.answer((socket) => socket.write(`${head}${chunk.repeat(count)}0\r\n\r\n`));
      const { exchange, release } = await open('chunks');
      return exchange(request, { bytes: 1_048_576 }).finally(() => release());
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
    first.release();
    const lease = await open('closed');
    expect(lease.isOpen()).toBe(true);
    socket?.destroy();
    await until('closed', () => !lease.isOpen());
    lease.release();
  });

  test('sends a request that the caller has recorded, also if connecting and recording took long', async () => {
    receiver.received.length = 0;
    receiver.answer((socket) => socket.write(json({})));
    const opening = open('slow');
    time += 60_000;
    const { exchange, release } = await opening;
    await new Promise((resolve) => setTimeout(resolve, 5));
    const sent = exchange(request).finally(release);
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
    release();
  });

  /** Sends a request. Returns how it ends. */
  const outcome = async (applicationId: string, id: string, timeout?: number, limit = 1000) => {
    try {
      const { exchange, release } = await open('1', applicationId, id, timeout);
      await exchange(request, { bytes: limit }).finally(release);
      return 'answered';
    } catch (error) {
      return (error as { code?: string }).code ?? 'failed';
    }
  };
  const outcomes = (times: number, ...of: Parameters<typeof outcome>) =>
    Promise.all(Array.from({ length: times }, () => outcome(...of)));

  test('is not suspended for replies that are too large or not valid', async () => {
    receiver.answer((socket) => socket.write(json('x'.repeat(2000))));
    expect(new Set(await outcomes(10, 'attacker', 'repeating'))).toEqual(new Set(['failed']));
    receiver.answer((socket) => socket.write('HTTP/1.1 200 OK\r\nX: \x01\r\n\r\n'));
    expect(new Set(await outcomes(10, 'attacker', 'repeating'))).toEqual(new Set(['failed']));
    expect(outbound.suspended()).toEqual([]);
  });

  test.each<[string, Parameters<Receiver['answer']>[0]]>([
    ['hanging', () => {}],
    ['dripping', (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx')],
    ['closed', (socket) => socket.destroy()],
  ])('is suspended for the application alone whose requests fail: %s', async (id, answer) => {
    // Connects without a short timeout.
    receiver.answer((socket) => socket.write(json({})));
    await outcomes(5, 'attacker', id);
    receiver.answer(answer);
    expect(new Set(await outcomes(5, 'attacker', id, 50))).toEqual(new Set(['failed']));
    expect(await outcome('attacker', id)).toBe('destination_suspended');
    expect(outbound.suspended()).toEqual([id]);
    receiver.answer((socket) => socket.write(json({})));
    expect(await outcome('other', id)).toBe('answered');
    expect(await outcome('attacker', id)).toBe('destination_suspended');
    time += 10_000;
    // Not used: says nothing, and the next request is allowed.
    (await open('1', 'attacker', id)).release();
    expect(await outcomes(2, 'attacker', id)).toContain('destination_suspended');
    expect(await outcome('attacker', id)).toBe('answered');
  });

  test('is suspended for all applications after failures to connect, until one succeeds', async () => {
    const { origin, ca } = receiver;
    const target = { tenantId: 'tenant', id: 'unreachable', version: '1', origin, ca, maxInFlight: 50 };
    const connect = async (applicationId: string, changed: object) => {
      const lease = await outbound.open({ ...target, applicationId, ...changed }, 25_000).catch(String);
      if (typeof lease !== 'string') lease.release();
      return typeof lease === 'string' ? lease : 'connected';
    };
    for (let times = 0; times < 5; times++)
      expect(await connect('attacker', { ca: undefined })).toContain('destination_unreachable');
    expect(await connect('other', {})).toContain('destination_suspended');
    time += 10_000;
    expect(await connect('other', {})).toBe('connected');
    expect(await connect('attacker', {})).toBe('connected');
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
