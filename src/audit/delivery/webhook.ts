/** Sends segments as Standard Webhooks (https://www.standardwebhooks.com): one signed message per segment. */
import { createHmac } from 'node:crypto';
import type { Secret } from '../../domain/key.ts';
import { type HttpTarget, retryAfter, send } from '../../outbound/request.ts';
import type { Batch } from './batch.ts';
import { DeliveryError, type Sender } from './sender.ts';

export interface WebhookOptions extends HttpTarget {
  readonly url: URL;
  /** Each is `whsec_` and base64. Messages are signed with all of them, so that a receiver can rotate its secret. */
  readonly secrets: readonly Secret[];
  readonly headers: Readonly<Record<string, Secret>>;
}

/** `now` is the clock for the signed time. Receivers reject messages that are a few minutes old. */
export function webhookSender(
  { url, secrets, headers, ...target }: WebhookOptions,
  now: () => number,
): Sender {
  return {
    send: async (batch, signal) => {
      const body = JSON.stringify(payloadOf(batch));
      const { id } = batch;
      const time = String(Math.floor(now() / 1000));
      const signatures = secrets.map((secret) => sign(secret, `${id}.${time}.${body}`));
      const response = await send(
        {
          method: 'POST',
          url,
          headers: {
            ...reveal(headers),
            'content-type': 'application/json',
            'webhook-id': id,
            'webhook-timestamp': time,
            'webhook-signature': signatures.join(' '),
          },
          body,
        },
        target,
        signal,
      );
      if (response.status >= 200 && response.status < 300) return {};
      throw new DeliveryError(`the receiver answered with status ${response.status}`, retryAfter(response));
    },
  };
}

function payloadOf({ type, tenantId, first, last, entries, segment }: Batch) {
  const tenant = tenantId === undefined ? {} : { tenant_id: tenantId };
  const data = { ...tenant, first, last, entries, ...(segment && { segment }) };
  return { type, timestamp: entries.at(-1)?.at, data };
}

function sign(secret: Secret, content: string): string {
  const key = secretBytes(secret.reveal()) as Buffer;
  return `v1,${createHmac('sha256', key).update(content).digest('base64')}`;
}

/** Returns the key in `whsec_…`. Undefined if it does not have the 24 to 64 bytes that Standard Webhooks allows. */
export function secretBytes(text: string): Buffer | undefined {
  const [, base64] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  const bytes = base64 === undefined ? undefined : Buffer.from(base64, 'base64');
  return bytes && bytes.length >= 24 && bytes.length <= 64 ? bytes : undefined;
}

export function reveal(headers: Readonly<Record<string, Secret>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()]));
}
