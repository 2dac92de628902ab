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

export function grantsInShort({ permissions, rules }: Grants, all: number): string {
  const plain = permissions.length >= all ? 'everything built in' : byFamily(permissions).join(' · ');
  const first = rules[0];
  if (!first) return plain;
  const place = `${first.transform} ${first.container ?? 'everywhere'}`;
  const more = rules.length > 1 ? ` +${rules.length - 1}` : '';
  return [place + more, plain].filter(Boolean).join(' · ');
}
