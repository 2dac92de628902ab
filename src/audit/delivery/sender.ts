import type { Batch } from './batch.ts';

export interface Receipt {
  /** Entries that the receiver has rejected. They are not sent again. */
  readonly rejected?: { readonly count: number; readonly reason: string };
}

/** Sends batches to one receiver. */
export interface Sender {
  /** Resolves when the receiver has confirmed the batch. Rejects with `DeliveryError` or a network error. */
  send(batch: Batch, signal: AbortSignal): Promise<Receipt>;
}

/** The receiver did not accept a batch. The message is for operators and contains no secret. */
export class DeliveryError extends Error {
  /** Milliseconds that the receiver has asked to wait. */
  readonly retryAfter: number | undefined;
  constructor(message: string, retryAfter?: number) {
    super(message);
    this.retryAfter = retryAfter;
  }
}
