/** IP addresses and networks. */
import { BlockList, isIP } from 'node:net';
import { compressIpv6 } from '../domain/network.ts';

/**
 * Returns the canonical form of an address: IPv4-mapped IPv6 addresses become IPv4, other IPv6 addresses are
 * compressed. Returns undefined if the text is not an address.
 */
export function addressOf(text: string): string | undefined {
  const family = isIP(text);
  if (family !== 6) return family === 4 ? text : undefined;
  const compressed = compressIpv6(text.replace(/%.*/, ''));
  if (compressed === undefined) return undefined;
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(compressed);
  if (!mapped) return compressed;
  const [high, low] = mapped.slice(1).map((group) => Number.parseInt(group, 16)) as [number, number];
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** A set of networks such as `10.0.0.0/8`, `192.0.2.7` and `2001:db8::/32`. */
export class Networks {
  readonly #list = new BlockList();

  /** Returns false if the text is not an address or a network. */
  add(text: string): boolean {
    const [, host = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
    const address = addressOf(host);
    if (address === undefined || host.includes('%')) return false;
    const version = isIP(address);
    const maxBits = version === 4 ? 32 : 128;
    const isMapped = version !== isIP(host);
    if (bits !== undefined && (isMapped || Number(bits) > maxBits)) return false;
    this.#list.addSubnet(address, Number(bits ?? maxBits), version === 4 ? 'ipv4' : 'ipv6');
    return true;
  }

  /** The address must be in canonical form. */
  includes(address: string): boolean {
    return this.#list.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  }
}
