/** The client's address behind trusted proxies, and the network that identifies a client for limits. */
import { addressOf, Networks } from '../../ip-address.ts';

/** Whether the proxy at this address may set X-Forwarded-For and Forwarded. */
export type Trust = (address: string) => boolean;

export const trustNobody: Trust = () => false;

/** On a dual-stack socket, the system reports an IPv4 peer as an IPv4-mapped IPv6 address. */
export function unwrapped(peer: string): string {
  return peer.startsWith('::ffff:') ? peer.slice('::ffff:'.length) : peer;
}

/** What identifies a client for limits: an IPv4 address, or the /64 network of an IPv6 address. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = [], tail] = address.split('::').map((part) => part.split(':'));
  const zeros = Array.from({ length: tail ? 8 - head.length - tail.length : 0 }, () => '0');
  const groups = [...head, ...zeros, ...(tail ?? [])].slice(0, 4);
  return `${groups.map((group) => group || '0').join(':')}::/64`;
}

/** Parses a list such as `10.0.0.0/8, 192.0.2.7, 2001:db8::/32`. Throws an error that says what is accepted. */
export function parseTrust(text: string | undefined): Trust {
  if (text === undefined) return trustNobody;
  const trusted = new Networks();
  for (const part of text.split(',').map((each) => each.trim())) {
    if (!trusted.add(part)) {
      throw new Error(`must be addresses or networks such as 10.0.0.0/8, separated by commas, not "${part}"`);
    }
  }
  return (address) => trusted.includes(address);
}

export interface Sender {
  readonly address: string;
  /** False if the headers disagree or name no address. `address` is then that of a proxy, and must not give access. */
  readonly isCertain: boolean;
}

/**
 * The client's address: follows the hops of X-Forwarded-For or Forwarded backwards, as long as each is a trusted
 * proxy. If both headers are present and disagree, one of them was forged, so neither is used.
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
    // For example `unknown`: the request came through this proxy, but from elsewhere.
    if (before === undefined) return { address, isCertain: false };
    address = before;
  }
  return { address, isCertain: true };
}

const wellQuoted = /^(?:[^"]|"(?:[^"\\]|\\.)*")*$/;
const elements = /(?:[^",]|"(?:[^"\\]|\\.)*")+/g;
const parameters = /(?:[^";]|"(?:[^"\\]|\\.)*")+/g;

/**
 * The addresses in a Forwarded header (RFC 7239). An empty text stands for an element without exactly one address.
 * Clients choose what a proxy copies into quotes, such as `host="a,for=10.0.0.1"`, so separators in quotes do not count.
 */
function forwardedHops(header: string | null): string[] | undefined {
  if (header === null) return undefined;
  if (!wellQuoted.test(header)) return [''];
  return (header.match(elements) ?? ['']).map(forOf);
}

/** `for=192.0.2.7;proto=https`, or with the address in quotes. */
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
