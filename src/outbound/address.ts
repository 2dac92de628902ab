/**
 * Prevents requests to internal services through a configured URL (SSRF). A host must resolve to public addresses,
 * unless private ones are allowed. The connection uses the checked address: a second DNS lookup could return
 * another one.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { addressOf, Networks } from '../config/ip-address.ts';

/** The address of a host may not be used. The message is for operators. */
export class AddressRefused extends Error {}

/** Returns whether a connection may be made to an address that is not public. */
export type AllowPrivate = (address: string) => boolean;

export const allowNone: AllowPrivate = () => false;
export const allowAll: AllowPrivate = () => true;

/** Resolves a host name to all of its addresses. */
export type Resolve = (host: string) => Promise<readonly string[]>;

export const resolveBySystem: Resolve = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/**
 * All IPv4 networks of the IANA special-purpose registries, multicast, and those of IPv6 within `globalIpv6`. They
 * include the forms of IPv6 that contain an IPv4 address: 6to4 and Teredo.
 */
const special = networks(
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // Azure's agent, which has certificates and settings of the machine. All other clouds use special networks.
  '168.63.129.16',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '2620:4f:8000::/48',
  '3fff::/20',
);
/** Mapped addresses are IPv4. Others that contain one, such as NAT64 and compatible addresses, are not in here. */
const globalIpv6 = networks('2000::/3');

/** The address must be in canonical form. */
export function isPublic(address: string): boolean {
  if (special.includes(address)) return false;
  return isIP(address) === 4 || globalIpv6.includes(address);
}

/**
 * Returns the host if it is localhost or an address, and not allowed. Other host names are resolved later. Expects the
 * `hostname` of a URL, where IPv4 addresses have their usual form. Dots at the end of a name make no difference.
 */
export function refusedHost(hostname: string, allowPrivate: AllowPrivate): string | undefined {
  const host = unbracketed(hostname);
  const addresses = /(^|\.)localhost\.*$/i.test(host)
    ? ['127.0.0.1', '::1']
    : isIP(host)
      ? [addressOf(host) ?? host]
      : [];
  const isRefused =
    addresses.length > 0 && addresses.every((address) => !isPublic(address) && !allowPrivate(address));
  return isRefused ? host : undefined;
}

/** The host as `node:net` and certificates have it: IPv6 addresses without brackets. */
export function unbracketed(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** Returns the address to connect to. Throws `AddressRefused` if the host has an address that is not allowed. */
export async function checkedAddress(
  hostname: string,
  allowPrivate: AllowPrivate,
  resolve: Resolve,
  setting = 'set allow_private',
): Promise<string> {
  const host = unbracketed(hostname);
  const found = isIP(host) ? [host] : await resolve(host);
  const addresses = found.map((address) => addressOf(address) ?? address);
  const [first] = addresses;
  if (first === undefined) throw new AddressRefused(`${host} has no address`);
  const refused = addresses.find((address) => !isPublic(address) && !allowPrivate(address));
  if (refused !== undefined)
    throw new AddressRefused(`${host} resolves to ${refused}, which is not public; ${setting} to allow it`);
  return first;
}

/** Rejects when `signal` aborts, also if the work goes on. */
export function beforeAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(new Error('no connection in time'));
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject);
  });
}

export function networks(...list: readonly string[]): Networks {
  const result = new Networks();
  for (const text of list) if (!result.add(text)) throw new Error(`${text} is not a network`);
  return result;
}
