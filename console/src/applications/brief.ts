/** Grants in as few words as tell them apart. */
import type { AccessRule } from '../../../sdk/src/sallyport.ts';

export interface Grants {
  readonly permissions: readonly string[];
  readonly rules: readonly AccessRule[];
}

/** `token:create`, `token:read` → `token create, read`. */
export function byFamily(permissions: readonly string[]): string[] {
  const families = Map.groupBy(permissions, (name) => name.slice(0, name.indexOf(':')));
  return [...families].map(
    ([family, names]) => `${family} ${names.map((name) => name.slice(family.length + 1)).join(', ')}`,
  );
}

export function plainInShort(permissions: readonly string[], all: number): string {
  return permissions.length >= all ? 'everything built in' : byFamily(permissions).join(' · ');
}

export function grantsInShort({ permissions, rules }: Grants, all: number): string {
  const places = rules.map(({ transform, container = 'everywhere' }) => `${transform} ${container}`);
  return [...places, plainInShort(permissions, all)].filter(Boolean).join(' · ');
}
