import { describe, expect, test } from 'bun:test';
import { addressOf } from '../../../src/config/ip-address.ts';
import { readConfig } from '../../../src/config/settings.ts';
import { parseTrust } from '../../../src/config/trusted-proxies.ts';
import { networkOf, senderOf, unwrapped } from '../../../src/http/pipeline/client-address.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

describe('an IP address', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:c000:0207', '192.0.2.7'],
    ['2001:DB8:0:0:0::1', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['5:1f3:5b:4::236.10.90.124', '5:1f3:5b:4::ec0a:5a7c'],
    ['192.0.2.256', undefined],
    ['192.0.2', undefined],
    ['unknown', undefined],
    ['', undefined],
  ])('the canonical form of %j is %s', (text, form) => {
    expect(addressOf(text)).toBe(form);
  });

  test('IPv4-mapped IPv6 addresses of peers become IPv4', () => {
    expect(['::ffff:192.0.2.7', '192.0.2.7', '2001:db8::1'].map(unwrapped)).toEqual([
      '192.0.2.7',
      '192.0.2.7',
      '2001:db8::1',
    ]);
  });

  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['0:1:2:3:4:5:6:7', '0:1:2:3::/64'],
    ['1::2:3:4:5:6', '1:0:0:2::/64'],
    ['::1', '0:0:0:0::/64'],
  ])('%s is limited as %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

describe('the client address', () => {
  const trusts = parseTrust('10.0.0.0/8, 192.0.2.7,2001:db8::/32');
  const sender = (peer: string, headers: Record<string, string>) =>
    senderOf(peer, new Headers(headers), trusts);
  const proxy = '10.0.0.1';

  test.each<[title: string, peer: string, headers: Record<string, string>, sender: string]>([
    [
      'is the peer if the peer is not a trusted proxy',
      '203.0.113.9',
      { 'x-forwarded-for': '198.51.100.1' },
      '203.0.113.9',
    ],
    ['is the peer if a trusted proxy sends no header', proxy, {}, proxy],
    [
      'is the address that a trusted proxy forwards',
      proxy,
      { 'x-forwarded-for': '198.51.100.1' },
      '198.51.100.1',
    ],
    [
      'is the last untrusted hop, since earlier hops can be forged',
      proxy,
      { 'x-forwarded-for': '198.51.100.66, 198.51.100.1, 192.0.2.7' },
      '198.51.100.1',
    ],
    ['is the first hop if all are trusted', proxy, { 'x-forwarded-for': '10.9.9.9, 10.0.0.2' }, '10.9.9.9'],
    ['may have a port', proxy, { 'x-forwarded-for': '198.51.100.66, 198.51.100.1:4711' }, '198.51.100.1'],
    [
      'may be an IPv4-mapped IPv6 address',
      proxy,
      { 'x-forwarded-for': '::ffff:198.51.100.1' },
      '198.51.100.1',
    ],
    [
      'is the last valid address',
      proxy,
      { 'x-forwarded-for': '198.51.100.1, unknown, 192.0.2.7' },
      '192.0.2.7',
    ],
    ['may come from Forwarded', proxy, { forwarded: 'for=198.51.100.1;proto=https' }, '198.51.100.1'],
    [
      'may come from Forwarded, quoted and with a port',
      '2001:db8::1',
      { forwarded: 'for=198.51.100.66, proto=https; For="[2001:DB9::1]:4711"' },
      '2001:db9::1',
    ],
    [
      'is the peer if a quote is not closed',
      proxy,
      { forwarded: 'for="198.51.100.66, for=198.51.100.1' },
      proxy,
    ],
    [
      'may come from both headers',
      proxy,
      { 'x-forwarded-for': '198.51.100.1', forwarded: 'for=198.51.100.1' },
      '198.51.100.1',
    ],
    [
      'is the peer if the two headers disagree',
      proxy,
      { 'x-forwarded-for': '198.51.100.1', forwarded: 'for=198.51.100.66' },
      proxy,
    ],
  ])('%s', (_, peer, headers, expected) => {
    expect(sender(peer, headers).address).toBe(expected);
  });

  test('is uncertain if a trusted proxy names no address', () => {
    for (const hop of ['unknown', '_hidden', '', '10.1', '010.0.0.1', '198.51.100.1, unknown'])
      expect(sender(proxy, { 'x-forwarded-for': hop })).toEqual({ address: proxy, isCertain: false });
    expect(sender(proxy, { forwarded: 'for=_hidden' }).isCertain).toBe(false);
    expect(sender(proxy, { 'x-forwarded-for': 'unknown, 198.51.100.1' }).isCertain).toBe(true);
    expect(sender('198.51.100.1', { 'x-forwarded-for': 'unknown' }).isCertain).toBe(true);
    expect(sender(proxy, {}).isCertain).toBe(true);
  });

  test('does not come from quoted texts that the client chose', () => {
    for (const forwarded of [
      'for=198.51.100.1;host="a,for=203.0.113.9"',
      'host="a,for=203.0.113.9";for=198.51.100.1',
      'proto=http;host="a;for=203.0.113.9";for="198.51.100.1:5"',
      'host="\\",for=203.0.113.9";for=198.51.100.1',
    ])
      expect(sender(proxy, { forwarded })).toEqual({ address: '198.51.100.1', isCertain: true });
    for (const forwarded of [
      'x=", for=198.51.100.1;host="a,for=203.0.113.9"',
      'for=203.0.113.9;for=198.51.100.1',
      'for="198.51.100.1',
    ])
      expect(sender(proxy, { forwarded })).toEqual({ address: proxy, isCertain: false });
  });

  test('is uncertain if the two headers disagree', () => {
    const forwarded = { 'x-forwarded-for': '198.51.100.1' };
    expect(sender(proxy, forwarded).isCertain).toBe(true);
    for (const other of ['for=198.51.100.66', 'for=unknown', 'x'])
      expect(sender(proxy, { ...forwarded, forwarded: other }).isCertain).toBe(false);
  });

  test.each([
    '10.0.0.0/33',
    '10.0.0.0/',
    'proxy.example',
    '10.0.0.1,',
    '2001:db8::/129',
    '::ffff:10.0.0.0/104',
    'fe80::1%eth0',
    '*',
  ])('an invalid SALLYPORT_TRUSTED_PROXIES stops the start: %s', (value) => {
    const start = () => readConfig({ env: { SALLYPORT_TRUSTED_PROXIES: value } });
    expect(start).toThrow(/^SALLYPORT_TRUSTED_PROXIES must be addresses or networks [^\n]*$/);
  });
});

describe('the audit log', async () => {
  const trusting = await openTestServer(sqlite, { SALLYPORT_TRUSTED_PROXIES: '127.0.0.0/8' });
  const wary = await openTestServer(sqlite);

  async function changedFrom(server: TestServer): Promise<string> {
    const { key } = await server.tenant();
    const body = { name: 'x', type: 'private', permissions: ['token:read'] };
    await server.call('POST', '/applications', {
      key,
      body,
      headers: { 'X-Forwarded-For': '198.51.100.66, 198.51.100.1' },
    });
    return (await server.call('GET', '/logs', { key })).body.data[0].from.ip;
  }

  test('contains the address that a trusted proxy forwards', async () => {
    expect(await changedFrom(trusting)).toBe('198.51.100.1');
  });

  test('contains the peer if no proxy is trusted', async () => {
    expect(await changedFrom(wary)).toBe('127.0.0.1');
  });

  test('a warning is logged once if an untrusted proxy forwards requests', async () => {
    for (let i = 0; i < 2; i++) await changedFrom(wary);
    const warnings = (server: TestServer) =>
      server.logged.filter(
        (line) => line.includes('SALLYPORT_TRUSTED_PROXIES') && line.includes('127.0.0.1'),
      );
    expect([warnings(wary).length, warnings(trusting).length]).toEqual([1, 0]);
  });
});
