/** IP networks in CIDR notation, such as `10.0.0.0/8`, `192.0.2.7` and `2001:db8::/32`. */
import { z } from 'zod';
import type { Errors } from './error.ts';

/** An address or network as a number. */
interface Block {
  readonly version: 4 | 6;
  readonly value: bigint;
  readonly prefix: number;
}

const octet = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const ipv4 = new RegExp(`^${octet}\\.${octet}\\.${octet}\\.${octet}$`);
/** Rejects the bracketed and percent-encoded forms that `URL` would accept, and zone ids. */
const ipv6 = /^[0-9a-f:.]{2,45}$/i;

function parseAddress(text: string): Block | undefined {
  const octets = ipv4.exec(text)?.slice(1);
  if (octets) return { version: 4, value: numberOf(octets.map(BigInt), 8n), prefix: 32 };
  const compressed = ipv6.test(text) ? compressIpv6(text) : undefined;
  if (compressed === undefined) return undefined;
  return { version: 6, value: numberOf(groupsOf(compressed), 16n), prefix: 128 };
}

/**
 * The canonical form of an IPv6 address. Undefined if it is malformed. An IPv4 address at the end is converted first,
 * because Bun's `URL` rejects some of these.
 */
export function compressIpv6(text: string): string | undefined {
  const url = `http://[${text.replace(/[\d.]+$/, withoutDots)}]`;
  return URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : undefined;
}

/** An IPv4 address as two groups of an IPv6 address. Other text is unchanged. */
function withoutDots(text: string): string {
  const octets = ipv4.exec(text)?.slice(1).map(Number);
  if (!octets) return text;
  const [a = 0, b = 0, c = 0, d = 0] = octets;
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

function numberOf(parts: readonly bigint[], bits: bigint): bigint {
  return parts.reduce((value, part) => (value << bits) | part, 0n);
}

/** The eight groups of a compressed IPv6 address. */
function groupsOf(compressed: string): bigint[] {
  const [head = [], tail = []] = compressed.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return [...head, ...zeros, ...tail].map((group) => BigInt(`0x${group}`));
}

/** Never true for an IPv4 address, which has 32 bits. */
const isMapped = ({ value }: Block) => value >> 32n === 0xffffn;

/** Returns a message if the text is not a network. */
function parseNetwork(text: string): { block: Block; text: string } | { error: string } {
  const [, host = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parseAddress(host);
  const prefix = Number(bits ?? address?.prefix);
  if (!address || prefix > address.prefix)
    return { error: 'must be a network in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32' };
  if (isMapped(address)) return { error: 'must not be an IPv4-mapped IPv6 address: write the IPv4 address' };
  const block = { ...address, prefix };
  if (networkOf(block, prefix) !== block.value)
    return {
      error: `must not have bits set after its prefix: for one address, write ${host}/${address.prefix}`,
    };
  const canonical = block.version === 4 ? host : compressIpv6(host);
  return { block, text: `${canonical}/${prefix}` };
}

/** The address with all bits after the prefix set to 0. */
function networkOf({ version, value }: Block, prefix: number): bigint {
  const rest = BigInt((version === 4 ? 32 : 128) - prefix);
  return (value >> rest) << rest;
}

const Network = z
  .string()
  .max(50)
  .transform((text, context) => {
    const parsed = parseNetwork(text);
    if ('text' in parsed) return parsed.text;
    context.addIssue(parsed.error);
    return z.NEVER;
  });

export const maxNetworks = 50;

export const Networks = z
  .array(Network)
  .max(maxNetworks)
  .transform((networks) => [...new Set(networks)]);

/** Returns a test whether an address is in one of the networks. It is false for an unknown or malformed address. */
export function networkMatcher(networks: readonly string[]): (address: string | undefined) => boolean {
  const blocks = networks.map(parseNetwork).flatMap((parsed) => ('block' in parsed ? [parsed.block] : []));
  return (text) => {
    const address = text && parseAddress(text);
    if (!address) return false;
    return blocks.some(
      ({ version, value, prefix }) => version === address.version && networkOf(address, prefix) === value,
    );
  };
}

export function networkErrors(type: string, networks: readonly string[] | undefined): Errors {
  if (type !== 'public' || !networks || networks.length === 0) return {};
  return {
    allowed_networks: [
      'is only for private and management applications: the key of a public application is used in browsers everywhere',
    ],
  };
}
