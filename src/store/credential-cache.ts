import type { Principal } from '../domain/principal.ts';
import { BoundedCache } from './bounded-cache.ts';
import type { Local } from './engine/db.ts';

/** A principal, and the moment at which it ends even if nothing changes. */
export interface FoundCredential {
  readonly principal: Principal;
  readonly until: number;
  /** How many characters it was made of, as far as that may be many. */
  readonly text: number;
}

/**
 * Who shows which key, remembered for exactly as long as nobody has committed anything. Each question first
 * looks whether that is so, and then at the clock: the answer is the one that a query would give.
 */
export class CredentialCache {
  readonly #found = new BoundedCache<FoundCredential>(10_000);
  readonly #local: Local;

  constructor(local: Local) {
    this.#local = local;
  }

  /** Undefined when it has to be looked up; null when there is nobody any more. */
  get(name: string): Principal | null | undefined {
    if (!this.#local.unchanged()) {
      this.#found.clear();
      return undefined;
    }
    const known = this.#found.get(name);
    if (!known) return undefined;
    const now = this.#local.now();
    return now < known.until ? { ...known.principal, now } : null;
  }

  set(name: string, found: FoundCredential): void {
    this.#found.set(name, found, found.text);
  }
}
