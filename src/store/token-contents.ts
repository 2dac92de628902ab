/** Encrypts the data of tokens and their masked values, which are stored in `token_contents`. */
import { JsonText } from '../domain/json-text.ts';
import { decrypt, encrypt } from './crypto/cipher.ts';
import type { TokenContent } from './store.ts';

export type Part = 'data' | 'masked';

/** The token that a ciphertext belongs to. */
export interface ContentOwner {
  readonly tenant_id: string;
  readonly seq: string;
  readonly id: string;
  readonly content_version: number;
}

export interface Ciphertexts {
  readonly data: Uint8Array;
  readonly masked: Uint8Array | null;
}

/**
 * Binds a ciphertext to its tenant, token, version and part. Someone with access to the database cannot use it as the
 * data of another token, as another version of the same data, or as the masked value.
 */
function contextOf({ tenant_id, seq, id, content_version }: ContentOwner, part: Part): string {
  return `sallyport token ${tenant_id} ${seq} ${id} ${content_version} ${part}`;
}

export function encryptContent(
  key: Uint8Array,
  owner: ContentOwner,
  content: Pick<TokenContent, 'data' | 'masked'>,
): Ciphertexts & { data_bytes: number; masked_bytes: number } {
  const data = encrypt(key, contextOf(owner, 'data'), content.data.text);
  const masked = content.masked ? encrypt(key, contextOf(owner, 'masked'), content.masked.text) : null;
  return { data, masked, data_bytes: data.length, masked_bytes: masked?.length ?? 0 };
}

/** Returns undefined if there is no masked value. Throws if the ciphertext is missing or was changed. */
export function decryptPart(
  key: Uint8Array,
  owner: ContentOwner,
  part: Part,
  ciphertext: Uint8Array | null,
): JsonText | undefined {
  if (part === 'masked' && ciphertext === null) return undefined;
  const plaintext = ciphertext && decrypt(key, contextOf(owner, part), ciphertext);
  if (plaintext) return new JsonText(plaintext.toString());
  throw new Error(`the ${part} of token ${owner.id} cannot be decrypted: it was changed by another program`);
}
