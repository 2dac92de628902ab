/** Checks for `doctor` of the applications, keys and sessions of all tenants. */
import { type Config, hasTrustedProxies } from '../config/settings.ts';
import type { Db } from '../store/engine/db.ts';
import {
  findBoundSessions,
  findLargestApplication,
  listTooLong,
  type TooLong,
} from '../store/operator-queries.ts';
import { type Check, ok, warn } from './check.ts';

/** How many applications and keys the message names, and how many are counted. */
const [maxNamed, maxCounted] = [10, 1000];

export async function checkLifetimes(db: Db): Promise<Check> {
  const tooLong = await listTooLong(db, maxCounted);
  if (tooLong.length === 0) return ok('lifetimes', 'no key exceeds the maximum lifetime of its tenant');
  const named = tooLong.slice(0, maxNamed).map(describe).join(', ');
  const rest = tooLong.length > maxNamed ? `, and ${tooLong.length - maxNamed} more` : '';
  return warn(
    'lifetimes',
    `${tooLong.length} applications and keys exceed the maximum lifetime of their tenant: ${named}${rest}`,
    'set an expiry with `sallyport apps update`, and replace keys with `sallyport keys create --old-keys-expire-at`',
  );
}

function describe({ id, name, ending }: TooLong): string {
  const application = `"${name}" (${id})`;
  return ending === null ? application : `key …${ending} of ${application}`;
}

/** A proof contains the URL that the browser used. Behind a proxy, the service sees another URL. */
export async function checkBoundSessions(db: Db, config: Config): Promise<Check> {
  const { publicUrl } = config;
  if (publicUrl !== undefined) return ok('bound sessions', `proofs must be for ${publicUrl}`);
  if (!hasTrustedProxies(config))
    return ok('bound sessions', 'proofs must be for the URL of the request; no proxy is configured');
  const found = await findBoundSessions(db);
  if (found === false) return ok('bound sessions', 'none exist or are required');
  const subject =
    found === true ? 'bound sessions exist' : `"${found.name}" (${found.id}) requires bound sessions`;
  return warn(
    'bound sessions',
    `${subject}, and SALLYPORT_TRUSTED_PROXIES is set, but SALLYPORT_PUBLIC_URL is not`,
    'set SALLYPORT_PUBLIC_URL to the URL that browsers use: if a proxy changes the scheme, host or path, all proofs are refused',
  );
}

/** The share of an application's storage quota above which `doctor` warns. */
const nearlyFull = 0.8;

export async function checkStorage(db: Db, quota: number): Promise<Check> {
  const fullest = await findLargestApplication(db);
  const bytes = fullest?.bytes ?? 0;
  if (!fullest || bytes <= 0) return ok('storage', 'no application stores tokens or idempotency records');
  const gibibytes = (count: number) => `${(count / 2 ** 30).toFixed(2)} GiB`;
  const usage = `the largest application, ${fullest.id}, stores ${gibibytes(bytes)}`;
  if (quota === 0) return ok('storage', `${usage}; no quota is set`);
  const message = `${usage} of a quota of ${gibibytes(quota)}`;
  if (bytes < nearlyFull * quota) return ok('storage', message);
  return warn('storage', message, 'delete tokens, or raise SALLYPORT_TOKEN_BYTES_PER_APPLICATION');
}
