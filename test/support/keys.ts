import { type Kind, type Minted, mint, newTag } from '../../src/domain/key.ts';

/** A well-formed key of a tenant that does not exist. */
export function unknownKey(kind: Kind): Minted {
  return mint(kind, newTag());
}
