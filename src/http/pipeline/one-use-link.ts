/** A code that can be exchanged for the first management key, once, within ten minutes. */
import { mint, parseKey, type Secret } from '../../domain/key.ts';

export interface OneUseLink {
  /** The URL fragment of the link. */
  readonly code: Secret;
  /** Returns the key once; undefined if the code is wrong, expired or already used. */
  take(code: string): Secret | undefined;
}

const lifetime = 600_000;

export function oneUseLink(key: Secret, now: () => number): OneUseLink {
  const { secret, digest } = mint('non');
  const expiresAt = now() + lifetime;
  let unused: Secret | undefined = key;
  return {
    code: secret,
    take: (code) => {
      if (now() >= expiresAt) unused = undefined;
      if (!parseKey(code)?.digest.equals(digest)) return undefined;
      const taken = unused;
      unused = undefined;
      return taken;
    },
  };
}
