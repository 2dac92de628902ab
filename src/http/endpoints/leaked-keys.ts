/** Revokes a key that was found where it should not be. The holder of the key may revoke it. */
import { z } from 'zod';
import { throwIfInvalid } from '../../domain/error.ts';
import { type Digest, type Kind, parseKey } from '../../domain/key.ts';
import { validate } from '../../domain/validate.ts';
import type { NewEntry, RevokedKey } from '../../store/store.ts';
import { jsonTypes, readJson, receiveBody } from '../pipeline/read-input.ts';
import { clientFields, type RequestInfo } from '../pipeline/request-info.ts';
import { openEndpoint } from '../pipeline/route.ts';

const KeyRevoke = z
  .strictObject({
    key: z
      .string()
      .max(200)
      .describe('The key of a private or management application, or of a session. Public keys are rejected.'),
  })
  .meta({ id: 'KeyRevoke' });

const maxBodyBytes = 1024;

export const revokeKey = openEndpoint({
  name: 'revokeKey',
  tag: 'Applications',
  summary: 'Revoke a leaked key',
  description:
    'Revokes a key of a private or management application, or ends the session of a session key. Needs no other credential: the holder of the key may revoke it. The key is invalid on every node before the response is sent. The response is the same if the key does not exist. Public keys are not secret, so they cannot be revoked here; nonces neither.',
  body: KeyRevoke,
  bodyLimit: maxBodyBytes,
  bodyExample: { key: 'slp_pvt_…' },
  replies: { 204: { description: 'The key is not valid.' } },
  failures: ['validation_failed', 'too_large', 'unsupported_media_type', 'too_many_requests', 'unavailable'],
  handle: async ({ limits, store }, request, requestInfo) => {
    limits.checkAddress(requestInfo);
    limits.checkRevocations(requestInfo);
    const { value } = readJson(await receiveBody(request, maxBodyBytes), request.headers, jsonTypes);
    const { key } = validate(KeyRevoke, value, 'body');
    await store.revokeKey(digestOf(key), (revoked, at) => entryOf(revoked, at, requestInfo));
    return { status: 204 };
  },
});

const rejectedKinds: Partial<Record<Kind, string>> = {
  pub: 'must not be the key of a public application: such a key is not secret, and everybody could revoke it',
  non: 'must be a key, not a nonce: end the session instead',
};

/** Throws `validation_failed` if the text is not a key that can be revoked. Only its form is examined. */
function digestOf(text: string): Digest {
  const key = parseKey(text);
  const error = key ? rejectedKinds[key.kind] : 'must be a complete key, such as slp_pvt_…';
  if (error !== undefined) throwIfInvalid({ key: [error] });
  return (key as NonNullable<typeof key>).digest;
}

const operation = 'key.revoke';

/** An unknown key has an entry without a tenant. */
function entryOf(revoked: RevokedKey | undefined, at: number, requestInfo: RequestInfo): NewEntry {
  const common = { at, actor: { kind: 'anonymous' as const }, operation, ...clientFields(requestInfo) };
  if (!revoked) return { ...common, result: 'failed', reason: 'not_found' };
  const { tenantId } = revoked;
  const entry = { ...common, tenantId, result: 'success' as const };
  if ('sessionId' in revoked) return { ...entry, entity: { kind: 'session', id: revoked.sessionId } };
  const { applicationId: id, key } = revoked;
  return { ...entry, entity: { kind: 'application', id }, difference: { keys: { from: key } } };
}
