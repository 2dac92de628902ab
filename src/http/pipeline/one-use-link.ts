/** A code that stands for the first management key, once and for ten minutes. */
import { mint, parseKey, type Secret } from '../../domain/key.ts';

export interface OneUseLink {
  /** What follows the # of the address. */
  readonly code: Secret;
  /** The key, to the first who shows the code in time. */
  take(code: string): Secret | undefined;
}

const lifetime = 600_000;

export function oneUseLink(key: Secret, now: () => number): OneUseLink {
  const { secret, digest } = mint('non');
  const end = now() + lifetime;
  let kept: Secret | undefined = key;
  return {
    code: secret,
    take: (code) => {
      if (now() >= end) kept = undefined;
      if (!parseKey(code)?.digest.equals(digest)) return undefined;
      const taken = kept;
      kept = undefined;
      return taken;
    },
  };
}
