/** The setting that names trusted proxies. */
import { Networks } from './ip-address.ts';

/** Whether the proxy at this address may set X-Forwarded-For and Forwarded. */
export type Trust = (address: string) => boolean;

export const trustNobody: Trust = () => false;

/** Parses a list such as `10.0.0.0/8, 192.0.2.7, 2001:db8::/32`. Throws if an item is invalid. */
export function parseTrust(text: string | undefined): Trust {
  if (text === undefined) return trustNobody;
  const trusted = new Networks();
  for (const part of text.split(',').map((each) => each.trim())) {
    if (!trusted.add(part))
      throw new Error(`must be addresses or networks such as 10.0.0.0/8, separated by commas, not "${part}"`);
  }
  return (address) => trusted.includes(address);
}
