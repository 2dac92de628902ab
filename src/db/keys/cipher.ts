/** AES-256-GCM. A ciphertext decrypts only with the same key and the same context. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

const algorithm = 'aes-256-gcm';
const nonceLength = 12;
const tagLength = 16;

/**
 * Returns the nonce, the ciphertext and the tag in one array. `context` names what is encrypted and where it is stored.
 * It is authenticated (as AAD), but not part of the result.
 */
export function encrypt(key: Uint8Array, context: string, plaintext: string | Uint8Array): Uint8Array {
  const nonce = crypto.getRandomValues(new Uint8Array(nonceLength));
  const cipher = createCipheriv(algorithm, key, nonce);
  cipher.setAAD(Buffer.from(context));
  // GCM is a stream mode: `update` returns all of the ciphertext, `final` only computes the tag.
  const ciphertext =
    typeof plaintext === 'string' ? cipher.update(plaintext, 'utf8') : cipher.update(plaintext);
  cipher.final();
  const encrypted = Buffer.allocUnsafe(nonceLength + ciphertext.length + tagLength);
  encrypted.set(nonce);
  encrypted.set(ciphertext, nonceLength);
  encrypted.set(cipher.getAuthTag(), nonceLength + ciphertext.length);
  return encrypted;
}

/** Returns undefined if the key or the context differ, or the ciphertext was changed. */
export function decrypt(key: Uint8Array, context: string, encrypted: Uint8Array): Buffer | undefined {
  if (encrypted.length < nonceLength + tagLength) return undefined;
  const decipher = createDecipheriv(algorithm, key, encrypted.subarray(0, nonceLength));
  decipher.setAAD(Buffer.from(context));
  decipher.setAuthTag(encrypted.subarray(-tagLength));
  try {
    const plaintext = decipher.update(encrypted.subarray(nonceLength, -tagLength));
    decipher.final();
    return plaintext;
  } catch {
    return undefined;
  }
}

export interface MasterKey {
  /** A fingerprint. It reveals nothing about the key. */
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

/** Parses base64 keys, separated by commas or white space. Throws an error that says which format is accepted. */
export function parseMasterKeys(text: string): MasterKey[] {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  if (parts.length === 0) throw new Error('must hold a key: base64 of 32 bytes');
  return parts.map((part) => {
    const bytes = Buffer.from(part, 'base64');
    if (bytes.length === keyLength && bytes.toString('base64') === part) return masterKey(bytes);
    throw new Error('must be base64 of 32 bytes, as openssl rand -base64 32 prints them');
  });
}
