/** AES-256-GCM. What is sealed opens only with the same key and the same words about where it belongs. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

const algorithm = 'aes-256-gcm';
const nonceLength = 12;
const tagLength = 16;

/**
 * Nonce, ciphertext and tag in one. `place` says what this is and where it stands; it is not part of the result.
 * In this mode every byte comes out at once; the end only makes the tag, or checks it.
 */
export function seal(key: Uint8Array, place: string, plaintext: string | Uint8Array): Uint8Array {
  const nonce = crypto.getRandomValues(new Uint8Array(nonceLength));
  const cipher = createCipheriv(algorithm, key, nonce);
  cipher.setAAD(Buffer.from(place));
  const ciphertext =
    typeof plaintext === 'string' ? cipher.update(plaintext, 'utf8') : cipher.update(plaintext);
  cipher.final();
  const sealed = Buffer.allocUnsafe(nonceLength + ciphertext.length + tagLength);
  sealed.set(nonce);
  sealed.set(ciphertext, nonceLength);
  sealed.set(cipher.getAuthTag(), nonceLength + ciphertext.length);
  return sealed;
}

/** Undefined if it was sealed with another key or for another place, or was changed since. */
export function open(key: Uint8Array, place: string, sealed: Uint8Array): Buffer | undefined {
  if (sealed.length < nonceLength + tagLength) return undefined;
  const decipher = createDecipheriv(algorithm, key, sealed.subarray(0, nonceLength));
  decipher.setAAD(Buffer.from(place));
  decipher.setAuthTag(sealed.subarray(-tagLength));
  try {
    const plaintext = decipher.update(sealed.subarray(nonceLength, -tagLength));
    decipher.final();
    return plaintext;
  } catch {
    return undefined;
  }
}

export interface MasterKey {
  /** Tells keys apart without telling anything about them. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

const keyLength = 32;

export function newMasterKey(): MasterKey {
  return masterKey(randomBytes(keyLength));
}

function masterKey(bytes: Uint8Array): MasterKey {
  const id = createHash('sha256').update('sallyport master key').update(bytes).digest('hex').slice(0, 16);
  return { id, bytes };
}

/** Keys in base64, separated by commas or white space. Throws a sentence that says what is accepted. */
export function parseMasterKeys(text: string): MasterKey[] {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  if (parts.length === 0) throw new Error('must hold a key: base64 of 32 bytes');
  return parts.map((part) => {
    const bytes = Buffer.from(part, 'base64');
    if (bytes.length === keyLength && bytes.toString('base64') === part) return masterKey(bytes);
    throw new Error('must be base64 of 32 bytes, as openssl rand -base64 32 prints them');
  });
}
