import { afterAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { addressOf } from '../../../src/config/ip-address.ts';
import { allowAll, allowNone, checkedAddress, isPublic, networks } from '../../../src/outbound/address.ts';
import { type HttpTarget, send } from '../../../src/outbound/request.ts';

/** A certificate for sink.example, with its private key. */
const pem = readFileSync(join(import.meta.dirname, 'fixtures/sink.example.pem'), 'utf8');

describe('public addresses', () => {
  test.each([
    ...['8.8.8.8', '1.1.1.1', '172.32.0.1', '192.0.1.1', '100.63.255.255', '100.128.0.0'],
    ...['168.63.129.15', '168.63.129.17', '198.17.255.255', '198.20.0.0', '223.255.255.255'],
    ...['2606:4700::1111', '2a00:1450::1', '2001:200::1', '2003::1', '3ffe::1', '::ffff:8.8.8.8'],
  ])('include %s', (address) => expect(isPublic(addressOf(address) as string)).toBe(true));

  test.each([
    '127.0.0.1',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '::127.0.0.1',
    'fe80::1',
    'fc00::1',
    'fd00:ec2::254',
    'ff02::1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001::1',
    '2001:db8::1',
    // The rest of the special-purpose registries, by their first and last addresses.
    ...['0.255.255.255', '10.255.255.255', '127.255.255.255', '172.31.255.255', '100.127.255.255'],
    ...['192.0.0.0', '192.0.0.255', '192.0.2.1', '192.31.196.1', '192.52.193.1', '192.88.99.1'],
    ...['192.175.48.1', '198.19.255.255', '198.51.100.1', '203.0.113.1', '239.255.255.255', '240.0.0.1'],
    ...['64:ff9b::8.8.8.8', '64:ff9b:1::1', '64:ff9b:1:ffff::7f00:1', '100::1', '100:0:0:1::1'],
    ...['2001:1::1', '2001:2::1', '2001:4:112::1', '2001:20::1', '2001:1ff:ffff::1', '2002:808:808::1'],
    ...['2001:0:4136:e378:8000:63bf:3fff:fdd2', '2620:4f:8000::1', '3fff:fff::1', '5f00::1', 'fec0::1'],
    ...['::8.8.8.8', '::ffff:0:8.8.8.8', '::fffe:8.8.8.8', '1fff::1', '4000::1', 'ff0e::1'],
    // Metadata services of clouds: Azure, Alibaba, Oracle, Google, Scaleway, ECS.
    ...['168.63.129.16', '::ffff:168.63.129.16', '::ffff:a83f:8110', '100.100.100.200', '192.0.0.192'],
    ...['fd20:ce::254', 'fd00:c1::a9fe:a9fe', 'fd00:42::42', '169.254.170.2', 'fe80::a9fe:a9fe%eth0'],
  ])('do not include %s', (address) => expect(isPublic(addressOf(address) as string)).toBe(false));
});

describe('the host of a sink', () => {
  const answers =
    (...addresses: string[]) =>
    async () =>
      addresses;

  test.each([
    '[::1]',
    '127.0.0.1',
    new URL('http://0x7f.1/').hostname,
    new URL('http://2130706433/').hostname,
  ])('%s is not allowed', (host) =>
    expect(checkedAddress(host, allowNone, answers('8.8.8.8'))).rejects.toThrow('is not public'),
  );

  test('is not allowed if one of its addresses is not public', async () => {
    expect(await checkedAddress('siem.example', allowNone, answers('8.8.8.8', '1.1.1.1'))).toBe('8.8.8.8');
    const mixed = answers('8.8.8.8', '10.0.0.1');
    await expect(checkedAddress('siem.example', allowNone, mixed)).rejects.toThrow(
      'siem.example resolves to 10.0.0.1, which is not public',
    );
    await expect(checkedAddress('siem.example', allowNone, answers())).rejects.toThrow('has no address');
    for (const address of ['fe80::1%eth0', '::1%lo', '::ffff:127.0.0.1'])
      await expect(checkedAddress('localhost.', allowNone, answers(address))).rejects.toThrow('not public');
  });

  test('may be in the private networks that the sink allows, and in no others', async () => {
    const allowed = networks('10.0.0.0/8', 'fd00::/8');
    const inNetwork = (address: string) => allowed.includes(address);
    expect(await checkedAddress('x', inNetwork, answers('10.9.9.9'))).toBe('10.9.9.9');
    expect(await checkedAddress('x', inNetwork, answers('::ffff:10.9.9.9'))).toBe('10.9.9.9');
    await expect(checkedAddress('x', inNetwork, answers('192.168.0.1'))).rejects.toThrow('192.168.0.1');
    expect(await checkedAddress('x', allowAll, answers('192.168.0.1'))).toBe('192.168.0.1');
  });
});

describe('a request', () => {
  const closing: (() => unknown)[] = [];
  afterAll(async () => {
    for (const close of closing) await close();
  });
  const never = new AbortController().signal;
  const loopback = async () => ['127.0.0.1'];
  const post = (url: string, target: Partial<HttpTarget> = {}, signal = never) =>
    send(
      { method: 'POST', url: new URL(url), headers: {}, body: 'x' },
      { allowPrivate: allowAll, timeout: 30_000, resolve: loopback, ...target },
      signal,
    );

  async function withSetting(name: string, value: string, work: () => Promise<void>): Promise<void> {
    const before = process.env[name];
    process.env[name] = value;
    try {
      await work();
    } finally {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    }
  }

  /** A server that calls `answer` when a connection has sent data. Returns its URL. */
  async function raw(answer: (socket: Socket) => void): Promise<string> {
    const server: Server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => answer(socket));
    });
    closing.push(() => server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://sink.example:${(server.address() as { port: number }).port}/`;
  }

  test('resolves the host once and connects to the checked address, with the certificate of the host', async () => {
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      tls: { key: pem, cert: pem },
      fetch: (request) => new Response(request.headers.get('host')),
    });
    closing.push(() => server.stop(true));
    let lookups = 0;
    const resolve = async () => [['127.0.0.1'], ['127.0.0.2']][lookups++] as string[];
    const url = `https://sink.example:${server.port}/`;
    expect(await post(url, { ca: pem, resolve })).toMatchObject({
      status: 200,
      body: `sink.example:${server.port}`,
    });
    expect(lookups).toBe(1);
    await expect(post(url)).rejects.toThrow('self signed certificate');
    for (const host of ['other.example', '127.0.0.1'])
      await expect(post(`https://${host}:${server.port}/`, { ca: pem })).rejects.toThrow('altnames');
    await withSetting('NODE_TLS_REJECT_UNAUTHORIZED', '0', async () => {
      await expect(post(url)).rejects.toThrow('self signed certificate');
    });
  });

  test('is not sent to an address that is not allowed', async () => {
    let connections = 0;
    const url = await raw(() => connections++);
    await expect(post(url, { allowPrivate: allowNone })).rejects.toThrow('is not public');
    expect(connections).toBe(0);
  });

  test('ignores HTTP_PROXY', async () => {
    const url = await raw((socket) => socket.end('HTTP/1.1 204 No Content\r\n\r\n'));
    await withSetting('HTTP_PROXY', 'http://127.0.0.1:1', async () =>
      expect((await post(url)).status).toBe(204),
    );
  });

  test('reads a limited part of an endless response', async () => {
    const url = await raw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      const more = () => socket.writable && socket.write(`2000\r\n${'x'.repeat(0x2000)}\r\n`, more);
      more();
    });
    expect((await post(url)).body).toHaveLength(65_536);
  });

  test.each([
    ['resets the connection', (socket: Socket) => socket.resetAndDestroy(), 'ECONNRESET'],
    ['is no HTTP', (socket: Socket) => socket.end('220 smtp\r\n\r\n'), 'not valid HTTP/1.1'],
    [
      'closes in the middle of a body',
      (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'),
      'the reply ended early',
    ],
  ])('fails if the receiver %s', async (_, answer, message) => {
    await expect(post(await raw(answer))).rejects.toThrow(message);
  });

  test('fails if the receiver never answers', async () => {
    const url = await raw(() => {});
    await expect(post(url, { timeout: 20 })).rejects.toThrow('no complete response within 0.02 s');
    const slowDns = () => new Promise<string[]>(() => {});
    await expect(post(url, { timeout: 20, resolve: slowDns })).rejects.toThrow('no complete response');
  });

  test('ends when the service stops', async () => {
    const stopping = new AbortController();
    const url = await raw(() => stopping.abort(new Error('stop')));
    await expect(post(url, {}, stopping.signal)).rejects.toThrow('no complete reply');
  });
});
