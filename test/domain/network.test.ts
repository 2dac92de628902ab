import { describe, expect, test } from 'bun:test';
import { BlockList } from 'node:net';
import fc from 'fast-check';
import { addressOf } from '../../src/config/ip-address.ts';
import { maxNetworks, Networks, networkErrors, networkMatcher } from '../../src/domain/network.ts';

describe('allowed networks', () => {
  test.each([
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['192.0.2.7', '192.0.2.7/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8:0:0::/32', '2001:db8::/32'],
    ['2001:db8::1', '2001:db8::1/128'],
    ['::/0', '::/0'],
    ['1::', '1::/128'],
    ['1:2:3:4:5:6:7:8/128', '1:2:3:4:5:6:7:8/128'],
    ['64:ff9b::192.0.2.33', '64:ff9b::c000:221/128'],
    ['2001:db8:1:2::192.0.2.33', '2001:db8:1:2::c000:221/128'],
    ['::10.0.0.1', '::a00:1/128'],
    ['::fffe:10.0.0.1', '::fffe:a00:1/128'],
    ['::1:ffff:10.0.0.1', '::1:ffff:a00:1/128'],
    ['2001:0db8:0000:0000:0000:0000:255.255.255.255/128', '2001:db8::ffff:ffff/128'],
  ])('%s is stored as %s', (text, expected) => {
    expect(Networks.parse([text, expected])).toEqual([expected]);
  });

  test.each([
    ['', 'CIDR'],
    ['10.0.0.0/33', 'CIDR'],
    ['10.0.0.0/', 'CIDR'],
    ['10.0.0/8', 'CIDR'],
    ['010.0.0.0/8', 'CIDR'],
    ['10.0.0.0/8 ', 'CIDR'],
    ['10.0.0.0/-1', 'CIDR'],
    ['/10.0.0.0/8', 'CIDR'],
    ['10.0.0.0/8/8', 'CIDR'],
    ['0x0a000000', 'CIDR'],
    ['abcd', 'CIDR'],
    ['1.2.3.4.5', 'CIDR'],
    ['..', 'CIDR'],
    ['[::1]', 'CIDR'],
    ['fe80::1%eth0', 'CIDR'],
    ['2001:db8::/129', 'CIDR'],
    ['2001:db8:::', 'CIDR'],
    ['1:2:3:4:5:6:7', 'CIDR'],
    ['2001:db8::1.2.3', 'CIDR'],
    ['2001:db8::1.2.3.256', 'CIDR'],
    ['\n::1', 'CIDR'],
    ['::1\n', 'CIDR'],
    ['::1]?ab', 'CIDR'],
    ['shop.example', 'CIDR'],
    ['10.0.0.5/8', 'bits set after its prefix: for one address, write 10.0.0.5/32'],
    ['2001:db8::5/64', 'bits set after its prefix: for one address, write 2001:db8::5/128'],
    ['::ffff:10.0.0.0/104', 'IPv4-mapped'],
    ['::ffff:10.0.0.1', 'IPv4-mapped'],
  ])('%p is rejected', (text, message) => {
    expect(Networks.safeParse([text]).error?.issues[0]?.message).toContain(message);
  });

  const atEachPlace = (octet: string) => [
    `${octet}.0.0.0`,
    `10.${octet}.0.0`,
    `10.0.${octet}.0`,
    `10.0.0.${octet}`,
  ];

  test.each(['0', '9', '10', '99', '100', '199', '200', '249', '250', '255'])(
    'can have the octet %s',
    (octet) => {
      const addresses = atEachPlace(octet);
      expect(Networks.parse(addresses)).toEqual([...new Set(addresses.map((each) => `${each}/32`))]);
    },
  );

  test.each(['00', '01', '256', '260', '300', '1000', 'a'])('cannot have the octet %s', (octet) => {
    for (const address of atEachPlace(octet)) expect(Networks.safeParse([address]).success).toBe(false);
  });

  test(`have at most ${maxNetworks} entries`, () => {
    const list = (length: number) => Array.from({ length }, (_, at) => `10.0.0.${at}`);
    expect(Networks.safeParse(list(maxNetworks)).success).toBe(true);
    expect(Networks.safeParse(list(maxNetworks + 1)).success).toBe(false);
  });

  test('are rejected for public applications', () => {
    expect(networkErrors('public', ['10.0.0.0/8'])).toEqual({
      allowed_networks: [
        'is only for private and management applications: the key of a public application is used in browsers everywhere',
      ],
    });
    for (const type of ['private', 'management']) expect(networkErrors(type, ['10.0.0.0/8'])).toEqual({});
    for (const none of [undefined, []]) expect(networkErrors('public', none)).toEqual({});
  });

  test('contain no unknown or malformed address', () => {
    const isAllowed = networkMatcher(['0.0.0.0/0', '::/0']);
    expect(['192.0.2.1', '2001:db8::1'].map(isAllowed)).toEqual([true, true]);
    expect([undefined, '', 'unix', '1.2.3', '::ffff:1.2.3.4%1'].map(isAllowed)).not.toContain(true);
  });

  test('contain only addresses of the same IP version', () => {
    const addresses = ['0.0.0.1', '::1'];
    expect(addresses.map(networkMatcher(['0.0.0.0/0']))).toEqual([true, false]);
    expect(addresses.map(networkMatcher(['::/0']))).toEqual([false, true]);
  });

  test('contain the address after the IPv4 part is converted', () => {
    const isAllowed = networkMatcher(['2001:db8:1:2::c000:221']);
    expect(isAllowed('2001:db8:1:2::192.0.2.33')).toBe(true);
    expect(isAllowed('2001:db8:1:2::192.0.2.34')).toBe(false);
  });

  test('that are malformed are ignored, and the others apply', () => {
    const isAllowed = networkMatcher(['shop.example', '10.0.0.5/8', '192.0.2.0/24']);
    expect(['192.0.2.255', '192.0.3.0', '10.0.0.5'].map(isAllowed)).toEqual([true, false, false]);
  });

  test('match like the block list of the runtime', () => {
    const network = fc.tuple(fc.oneof(fc.ipV4(), fc.ipV6()), fc.nat(128));
    const address = fc.oneof(fc.ipV4(), fc.ipV6()).map((text) => addressOf(text) as string);
    fc.assert(
      fc.property(
        fc.array(network, { maxLength: 5 }),
        fc.array(address, { minLength: 1 }),
        (some, addresses) => {
          // Separate lists, because a BlockList also finds an IPv4 address in an IPv6 network with its mapped form.
          const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
          const networks: string[] = [];
          for (const [host, bits] of some) {
            const text = addressOf(host) as string;
            const version = text.includes(':') ? 'ipv6' : 'ipv4';
            const prefix = version === 'ipv4' ? bits % 33 : bits;
            const parsed = Networks.safeParse([`${text}/${prefix}`]);
            // A network with bits set after its prefix is rejected. Use the single address instead.
            const [accepted] = parsed.data ?? Networks.parse([text]);
            const [base, length] = (accepted as string).split('/') as [string, string];
            lists[version].addSubnet(base, Number(length), version);
            networks.push(accepted as string);
          }
          const isAllowed = networkMatcher(networks);
          const hosts = some.map(([host]) => addressOf(host) as string);
          for (const each of [...addresses, ...hosts]) {
            const version = each.includes(':') ? 'ipv6' : 'ipv4';
            expect(isAllowed(each)).toBe(lists[version].check(each, version));
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
