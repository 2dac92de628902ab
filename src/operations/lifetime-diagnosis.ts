/** Lists for `doctor` the applications and keys that exceed the maximum lifetime of their tenant. */
import { notExpired } from '../store/applications.ts';
import type { Db } from '../store/engine/db.ts';
import { type Check, ok, warn } from './check.ts';

interface TooLong {
  readonly id: string;
  readonly name: string;
  /** The last characters of the key. Null if the application itself exceeds the maximum lifetime. */
  readonly ending: string | null;
}

const valid = `from tenants t join applications a on a.tenant_id = t.id and ${notExpired('a')}`;
const isLimited = 't.max_lifetime is not null and t.deleted_at is null';

const applicationsTooLong = `select a.id, a.name, null as ending ${valid}
  where ${isLimited} and (a.expires_at is null or a.expires_at > :now + t.max_lifetime)
  order by a.id limit $1`;

/** Checks the expiry of the application, too, because a key expires with its application. */
const keysTooLong = `select a.id, a.name, k.ending ${valid}
  join application_keys k on k.tenant_id = a.tenant_id and k.application_id = a.id and ${notExpired('k')}
  where ${isLimited}
    and (k.expires_at is null or k.expires_at > k.created_at + t.max_lifetime)
    and (a.expires_at is null or a.expires_at > k.created_at + t.max_lifetime)
  order by a.id, k.id limit $1`;

/** How many applications and keys the message names, and how many are counted. */
const [maxNamed, maxCounted] = [10, 1000];

export async function checkLifetimes(db: Db): Promise<Check> {
  const tooLong = [
    ...(await db.all<TooLong>(applicationsTooLong, [maxCounted])),
    ...(await db.all<TooLong>(keysTooLong, [maxCounted])),
  ];
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
