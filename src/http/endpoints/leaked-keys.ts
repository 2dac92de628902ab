/** Revokes a leaked key. Needs no other credential: the holder of the key may revoke it. */
import { z } from 'zod';
import { entryOf } from '../../audit/trail.ts';
import { throwIfInvalid } from '../../domain/error.ts';
import { applicationKinds, keyDigest, nilTag, parseKey } from '../../domain/key.ts';
import { validate } from '../../domain/validate.ts';
import type { RevokedKey } from '../../store/store.ts';
import { jsonTypes, readJson, receiveBody } from '../pipeline/read-input.ts';
import { openEndpoint } from '../pipeline/route.ts';
import { entityOf } from './applications.ts';

const KeyRevoke = z
  .strictObject({
    key: z
      .string()
      .min(1)
      .max(200)
      .describe(
        'The key of a private or management application, or of a session or delegation. Public keys are rejected.',
      ),
  })
  .meta({ id: 'KeyRevoke' });

const maxBodyBytes = 1024;

/** Minimum milliseconds of a request. Hides that deleting a row takes longer than finding no row. */
const minDuration = 20;

export const revokeKey = openEndpoint({
  name: 'revokeKey',
  tag: 'Applications',
  summary: 'Revoke a leaked key',
  description:
    'Revokes a key of a private or management application and ends all sessions that it authorized, or ends the session or delegation of its key. Needs no other credential: the holder of the key may revoke it. The key is invalid on every node before the response is sent. The response is the same, after the same time, for every other text, such as an unknown or incomplete key or a nonce. No key is revoked then. Text that starts with `slp_pub_` is rejected: public keys are printed in web pages, and any visitor could switch a page off.',
  body: KeyRevoke,
  bodyLimit: maxBodyBytes,
  bodyExample: { key: 'slp_pvt_…' },
  replies: { 204: { description: 'No key with this text is valid.' } },
  failures: [
    'validation_failed',
    'too_large',
    'unsupported_media_type',
    'tenant_moved',
    'too_many_requests',
    'unavailable',
  ],
  handle: async ({ limits, store }, request, requestInfo) => {
    limits.takeAddress(requestInfo, 'revocations');
    const { value } = readJson(await receiveBody(request, maxBodyBytes), request.headers, jsonTypes);
    const { key } = validate(KeyRevoke, value, 'body');
    const text = key.trim();
    rejectPublicKey(text);
    await Promise.all([
      store.revokeKey(parseKey(text) ?? { tag: nilTag, digest: keyDigest(text) }, (revoked, at) =>
        entryOf({ kind: 'keyless', at, actor, operation, client: requestInfo, ...changeOf(revoked) }),
      ),
      Bun.sleep(minDuration),
    ]);
    return { status: 204 };
  },
});

const publicPrefix = `slp_${applicationKinds.public}_`;

/** Throws `validation_failed` for every text with the prefix, so that the response does not show which keys exist. */
function rejectPublicKey(text: string): void {
  if (!text.startsWith(publicPrefix)) return;
  throwIfInvalid({ key: ['must not be the key of a public application: regenerate its key instead'] });
}

const actor = { kind: 'anonymous' } as const;
const operation = 'key.revoke';

function changeOf(revoked: RevokedKey | undefined) {
  if (!revoked) return { target: undefined };
  const { tenantId } = revoked;
  if ('sessionId' in revoked)
    return { target: { tenantId, entity: { kind: revoked.kind, id: revoked.sessionId } } };
  const { applicationId, key } = revoked;
  return { target: { tenantId, entity: entityOf(applicationId) }, difference: { keys: { from: key } } };
}
