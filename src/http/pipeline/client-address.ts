/** Addresses: one form for each, and whose word about another's is taken. */
import { BlockList, isIP } from 'node:net';

/** Whether the one at this address may say on whose behalf it sends. */
export type Trust = (address: string) => boolean;

export const trustNobody: Trust = () => false;

/** An address in its one form: IPv4 also where it came wrapped in IPv6, IPv6 in its short form. */
export function addressOf(text: string): string | undefined {
  const family = isIP(text);
  if (family !== 6) return family === 4 ? text : undefined;
  const short = new URL(`http://[${text.replace(/%.*/, '')}]`).hostname.slice(1, -1);
  const wrapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short);
  if (!wrapped) return short;
  const [high, low] = wrapped.slice(1).map((group) => Number.parseInt(group, 16)) as [number, number];
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** As the system names a peer: IPv4 is wrapped where the listening socket takes both. */
export function unwrapped(peer: string): string {
  return peer.startsWith('::ffff:') ? peer.slice('::ffff:'.length) : peer;
}

/** The part of an address that its owner cannot change at will: all of IPv4, the first 64 bits of IPv6. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = [], tail] = address.split('::').map((part) => part.split(':'));
  const zeros = Array.from({ length: tail ? 8 - head.length - tail.length : 0 }, () => '0');
  const groups = [...head, ...zeros, ...(tail ?? [])].slice(0, 4);
  return `${groups.map((group) => group || '0').join(':')}::/64`;
}

/** Reads a list such as `10.0.0.0/8, 192.0.2.7, 2001:db8::/32`. Throws a sentence that says what is accepted. */
export function parseTrust(text: string | undefined): Trust {
  if (text === undefined) return trustNobody;
  const trusted = new BlockList();
  for (const part of text.split(',').map((each) => each.trim())) {
    if (!addNetwork(trusted, part)) {
      throw new Error(`must be addresses or networks such as 10.0.0.0/8, separated by commas, not "${part}"`);
    }
  }
  return (address) => trusted.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
}

function addNetwork(list: BlockList, text: string): boolean {
  const [, host = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = addressOf(host);
  if (address === undefined || host.includes('%')) return false;
  const version = isIP(address);
  const widest = version === 4 ? 32 : 128;
  const isWrapped = version !== isIP(host);
  if (bits !== undefined && (isWrapped || Number(bits) > widest)) return false;
  list.addSubnet(address, Number(bits ?? widest), version === 4 ? 'ipv4' : 'ipv6');
  return true;
}

/**
 * Who sent the request in the first place: from hop to hop, as long as the hop is trusted to name the one before
 * it. Where both headers are there and do not agree, one of them was not written by the trusted: neither counts.
 */
export function senderOf(peer: string, headers: Headers, trusts: Trust): string {
  if (!trusts(peer)) return peer;
  const chains = [
    headers.get('x-forwarded-for')?.split(','),
    headers.get('forwarded')?.split(',').map(forOf),
  ];
  const senders = chains.filter((hops) => hops !== undefined).map((hops) => furthest(peer, hops, trusts));
  const [first = peer, second = first] = senders;
  return first === second ? first : peer;
}

function furthest(peer: string, hops: readonly string[], trusts: Trust): string {
  let known = peer;
  for (const hop of hops.toReversed()) {
    const before = addressOf(withoutPort(hop.trim()));
    if (before === undefined || !trusts(known)) return known;
    known = before;
  }
  return known;
}

/** `for=192.0.2.7;proto=https`, or with the address in quotes. */
function forOf(element: string): string {
  return /(?:^|;)\s*for=("?)([^";]*)\1/i.exec(element)?.[2] ?? '';
}

/** `192.0.2.7:4711`, `[2001:db8::1]:4711` and `[2001:db8::1]` name a port, or could. */
function withoutPort(text: string): string {
  return /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}
