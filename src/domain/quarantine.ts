/** Quarantine: the keys of an application or session stay valid, but cannot change or read data. */
import type { Grants } from './grant.ts';

/** What is in quarantine: the application with its sessions, or one session. */
export type Quarantined = 'application' | 'session';

/** Grants as they apply now. In quarantine, permissions without a rule have the transform `redact` instead of `mask`. */
export interface EffectiveGrants extends Grants {
  readonly quarantined?: Quarantined | undefined;
}

/** What remains of the grants in quarantine: permissions to read, with the transform `redact`. */
export function quarantined(
  { permissions, rules }: Grants,
  by: Quarantined = 'application',
): EffectiveGrants {
  return {
    permissions: permissions.filter(isRead),
    rules: rules.map((rule) => ({
      ...rule,
      transform: 'redact',
      permissions: rule.permissions.filter(isRead),
    })),
    quarantined: by,
  };
}

/** Of custom permissions, those whose last word is `read`. Decisions and reviews change nothing and return no data. */
export function isRead(permission: string): boolean {
  return permission.endsWith(':read') || permission === 'access:review' || permission === 'decision:create';
}
