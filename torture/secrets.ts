/** All secrets of the run: keys, nonces and plaintext of tokens. */
const shape = /slp_[a-z]{3}_[0-9A-Za-z]{55}/g;

/** Prefix of all token plaintext, so that the search finds it in any encoding. */
export const plaintextMark = 'plain~';

export class Secrets {
  readonly all = new Set<string>();

  /** Records and returns the secret. */
  add(secret: string): string {
    this.all.add(secret);
    return secret;
  }

  /** Records every key and nonce in a text, such as a response. */
  addFrom(text: string): void {
    for (const [secret] of text.matchAll(shape)) this.all.add(secret);
  }

  /** Searchable plaintext for a token. */
  plaintext(about: string | number): string {
    return this.add(`${plaintextMark}${about}~${crypto.randomUUID()}`);
  }
}
