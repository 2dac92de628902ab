/** The inputs and results of key operations in store.ts. */

/** When a new key expires, and when the keys that it replaces expire. */
export interface KeyExpiry {
  readonly expiresAt?: number | undefined;
  /** Old keys that expire earlier are unchanged. */
  readonly oldKeysExpireAt?: number | undefined;
}

/** The application or session to which a revoked key belonged. */
export type RevokedKey =
  | {
      readonly tenantId: string;
      readonly applicationId: string;
      readonly key: { readonly id: string; readonly ending: string };
    }
  | { readonly tenantId: string; readonly sessionId: string };
