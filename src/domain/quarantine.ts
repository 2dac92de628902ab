/** Quarantine: the keys of an application or session stay valid, but can only read, and get no token data. */
import type { Grants } from './grant.ts';
import { hasTrait } from './permission.ts';

/** In quarantine: the application, one session or delegation, or the application that authorized the session. */
export type Quarantined = 'application' | 'session' | 'delegation' | 'authorizer';

/** Grants with a quarantine applied. It changes the transform of permissions without a rule from `mask` to `redact`. */
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

/** Whether the permission can be used in quarantine. */
export function isRead(permission: string): boolean {
  return hasTrait(permission, 'read');
}
