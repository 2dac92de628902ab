/** The client's address behind trusted proxies, and the network that identifies a client for limits. */
import { addressOf } from '../../config/ip-address.ts';
import type { Trust } from '../../config/trusted-proxies.ts';

/** Removes the prefix of IPv4-mapped IPv6 addresses, as which a dual-stack socket reports IPv4 peers. */
export function unwrapped(peer: string): string {
  return peer.startsWith('::ffff:') ? peer.slice('::ffff:'.length) : peer;
}

/** Returns the network that counts as one client for rate limits: an IPv4 address, or the /64 of an IPv6 address. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = [], tail] = address.split('::').map((part) => part.split(':'));
  const zeros = Array.from({ length: tail ? 8 - head.length - tail.length : 0 }, () => '0');
  const groups = [...head, ...zeros, ...(tail ?? [])].slice(0, 4);
  return `${groups.map((group) => group || '0').join(':')}::/64`;
}

export interface Sender {
  readonly address: string;
  /** False if the headers disagree or name no address. `address` is then that of a proxy, and must not give access. */
  readonly isCertain: boolean;
}

/**
 * Returns the client's address: the last address in X-Forwarded-For or Forwarded that is not a trusted proxy, or the
 * first address if all are. If both headers are present and disagree, one of them was forged, so neither is used.
 */
export function senderOf(peer: string, headers: Headers, trusts: Trust): Sender {
  if (!trusts(peer)) return { address: peer, isCertain: true };
  const chains = [headers.get('x-forwarded-for')?.split(','), forwardedHops(headers.get('forwarded'))];
  const senders = chains
    .filter((hops) => hops !== undefined)
    .map((hops) => firstUntrusted(peer, hops, trusts));
  const [first = { address: peer, isCertain: true }, second = first] = senders;
  if (first.address !== second.address) return { address: peer, isCertain: false };
  return { address: first.address, isCertain: first.isCertain && second.isCertain };
}

function firstUntrusted(peer: string, hops: readonly string[], trusts: Trust): Sender {
  let address = peer;
  for (const hop of hops.toReversed()) {
    if (!trusts(address)) break;
    const before = addressOf(withoutPort(hop.trim()));
    // For example `unknown`: the proxy does not tell the address of its client.
    if (before === undefined) return { address, isCertain: false };
    address = before;
  }
  return { address, isCertain: true };
}

const wellQuoted = /^(?:[^"]|"(?:[^"\\]|\\.)*")*$/;
const elements = /(?:[^",]|"(?:[^"\\]|\\.)*")+/g;
const parameters = /(?:[^";]|"(?:[^"\\]|\\.)*")+/g;

/**
 * The addresses in a Forwarded header (RFC 7239). An element without exactly one address becomes an empty string.
 * Separators in quotes are ignored, because clients can choose quoted values: `host="a,for=10.0.0.1"`.
 */
function forwardedHops(header: string | null): string[] | undefined {
  if (header === null) return undefined;
  if (!wellQuoted.test(header)) return [''];
  return (header.match(elements) ?? ['']).map(forOf);
}

/** The address in an element such as `for=192.0.2.7;proto=https`. It may be in quotes. */
function forOf(element: string): string {
  const values = (element.match(parameters) ?? []).flatMap(
    (parameter) => /^\s*for=(.*)$/i.exec(parameter)?.[1]?.trim() ?? [],
  );
  return values.length === 1 ? (values[0] as string).replace(/^"(.*)"$/, '$1') : '';
}

/** Handles `192.0.2.7:4711`, `[2001:db8::1]:4711` and `[2001:db8::1]`. */
function withoutPort(text: string): string {
  return /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}
