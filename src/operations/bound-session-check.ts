/** Checks for `doctor` that the proofs of bound sessions can be verified behind a proxy. */
import { type Config, hasTrustedProxies } from '../config/settings.ts';
import { notExpired } from '../store/applications.ts';
import type { Db } from '../store/engine/db.ts';
import { type Check, ok, warn } from './check.ts';

const name = 'bound sessions';

const requiringApplication = `select a.id, a.name from applications a
  where a.require_bound_sessions = 1 and ${notExpired('a')} order by a.id limit 1`;

const boundSession = 'select id from sessions where jkt is not null and expires_at > :now limit 1';

/** A proof contains the URL that the browser used. Behind a proxy, the service sees another URL. */
export async function checkBoundSessions(db: Db, config: Config): Promise<Check> {
  const { publicUrl } = config;
  if (publicUrl !== undefined) return ok(name, `proofs must be for ${publicUrl}`);
  if (!hasTrustedProxies(config))
    return ok(name, 'proofs must be for the URL of the request; no proxy is configured');
  const application = await db.get<{ id: string; name: string }>(requiringApplication);
  const session = application ? undefined : await db.get<{ id: string }>(boundSession);
  if (!application && !session) return ok(name, 'none exist or are required');
  const subject = application
    ? `"${application.name}" (${application.id}) requires bound sessions`
    : 'bound sessions exist';
  return warn(
    name,
    `${subject}, and SALLYPORT_TRUSTED_PROXIES is set, but SALLYPORT_PUBLIC_URL is not`,
    'set SALLYPORT_PUBLIC_URL to the URL that browsers use: if a proxy changes the scheme, host or path, all proofs are refused',
  );
}
