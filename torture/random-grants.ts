/** Random grants in containers with similar names. */
import type { NaiveGrants } from '../test/support/naive-policy.ts';
import type { Random } from './random.ts';

export const containers = ['/pci/', '/pci/high/', '/pci-other/', '/PCI/low/', '/general/'];
const transforms = ['redact', 'mask', 'reveal'] as const;

export function someGrants(random: Random, isSession: boolean, more: readonly string[] = []): NaiveGrants {
  const permissions = random.some(['token:read', 'application:read', 'mine:x', ...more]);
  const rules = Array.from({ length: random.below(3) }, () => {
    const container = random.one(containers);
    const starts = random.chance(0.7);
    const condition = {
      attribute: 'container' as const,
      operator: starts ? ('starts_with' as const) : ('equals' as const),
      value: container,
    };
    return {
      priority: 1 + random.below(3),
      transform: random.one(transforms),
      permissions: ['token:read'],
      ...(isSession ? { conditions: [condition] } : { container }),
    };
  });
  return permissions.length + rules.length > 0 ? { permissions, rules } : { permissions: ['mine:x'], rules };
}
