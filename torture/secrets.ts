/** Every secret that the run has seen: keys, nonces, the plaintext of Tokens. */
const shape = /slp_[a-z]{3}_[0-9A-Za-z]{49}/g;

/** What plaintext that is put into Tokens starts with, so that it can be found again in any encoding. */
export const plaintextMark = 'plain~';

export class Secrets {
  readonly all = new Set<string>();

  /** Notes the secret, and answers with it. */
  add(secret: string): string {
    this.all.add(secret);
    return secret;
  }

  /** Notes every key and nonce in a text, such as an answer. */
  addFrom(text: string): void {
    for (const [secret] of text.matchAll(shape)) this.all.add(secret);
  }

  /** Data for a Token that can be found again. */
  plaintext(about: string | number): string {
    return this.add(`${plaintextMark}${about}~${crypto.randomUUID()}`);
  }
}
