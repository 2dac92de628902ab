/** The keys of an application. It can have several, so that a new key is deployed before the old one is deleted. */
import { z } from 'zod';
import {
  type Application,
  ApplicationKey,
  ApplicationKeyCreate,
  ApplicationKeyCreated,
  maxKeys,
} from '../../domain/application.ts';
import { Id, requireFuture } from '../../domain/common-fields.ts';
import { fail, orNotFound } from '../../domain/error.ts';
import { applicationKinds, mint } from '../../domain/key.ts';
import { endsWithApplication, newExpiry, requireWithinApplication } from '../../domain/lifetime.ts';
import { changeBy, denyEscalation, denyOutliving } from '../../domain/principal.ts';
import { changeEndpoint, readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { entityOf, overlapOf, params } from './applications.ts';

const tag = 'Applications';

export const createKey = changeEndpoint({
  name: 'createKey',
  operation: 'application.key.create',
  tag,
  summary: 'Create a key',
  description: `Adds a key to an application. Existing keys stay valid, or expire at \`old_keys_expire_at\`. An application can have up to ${maxKeys} keys. Only this response contains the key. Your key must hold every management permission of the application.`,
  params,
  body: ApplicationKeyCreate,
  bodyIfMissing: {},
  bodyExample: example.applicationKeyCreate,
  replies: { 201: reply('The new key.', ApplicationKeyCreated, example.applicationKeyCreated) },
  failures: ['grant_not_held', 'not_found', 'too_many_keys'],
  retries: 'same key',
  handle: async ({ principal, params, body }, { store }) => {
    const { old_keys_expire_at: oldKeysExpireAt } = body;
    requireFuture(oldKeysExpireAt, principal.now, 'old_keys_expire_at');
    const expiry = { expiresAt: newExpiry(body.expires_at, principal), oldKeysExpireAt };
    let application: Application | undefined;
    const newKey = (current: Application, keys: number) => {
      application = current;
      denyEscalation(principal, current);
      denyOutliving(principal, { grants: current, end: expiry.expiresAt ?? current.expires_at });
      requireWithinApplication(body.expires_at, current.expires_at);
      if (keys >= maxKeys) throw fail('too_many_keys');
      return mint(applicationKinds[current.type], principal.tenantTag);
    };
    const change = changeBy(principal);
    const { created, key } = orNotFound(
      await store.keys.create(principal.tenantId, params.id, change, newKey, expiry),
    );
    return {
      status: 201,
      body: { ...withoutLaterExpiry(created, orNotFound(application)), key: key.secret.reveal() },
      entity: entityOf(params.id),
      difference: {
        keys: { to: auditedKey(created) },
        ...(oldKeysExpireAt !== undefined && overlapOf(oldKeysExpireAt)),
      },
    };
  },
});

const ApplicationKeys = z
  .object({ data: z.array(ApplicationKey).describe(`The keys, at most ${maxKeys}.`) })
  .meta({ id: 'ApplicationKeys' });

export const listKeys = readEndpoint({
  name: 'listKeys',
  tag,
  summary: 'List the keys of an application',
  description:
    'Returns the keys of an application, newest first. Each is identified by its id and its last four characters.',
  params,
  replies: {
    200: reply('All keys of the application.', ApplicationKeys, { data: [example.applicationKey] }),
  },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    const data = await store.keys.list(principal.tenantId, params.id);
    if (data.length === 0) orNotFound(await store.applications.get(principal.tenantId, params.id));
    return { status: 200, body: { data } };
  },
});

export const deleteKey = changeEndpoint({
  name: 'deleteKey',
  operation: 'application.key.delete',
  tag,
  summary: 'Delete a key',
  description:
    'Revokes a key of an application immediately, together with the sessions whose ceiling is this key. Other sessions that it authorized continue; only `POST /keys/revoke` ends them, too. You can delete the last key: the application stays, and you can create another key. Your key must hold every management permission of the application.',
  params: params.extend({
    key_id: Id.meta({ description: 'The id of the key.', examples: [example.applicationKey.id] }),
  }),
  replies: { 204: { description: 'Deleted.' } },
  failures: ['grant_not_held', 'not_found'],
  urgency: 'takes access away',
  handle: async ({ principal, params }, { store }) => {
    const deleted = await store.keys.delete(principal.tenantId, params.id, params.key_id, (current) =>
      denyEscalation(principal, current),
    );
    const difference = { keys: { from: auditedKey(orNotFound(deleted)) } };
    return { status: 204, entity: entityOf(params.id), difference };
  },
});

function withoutLaterExpiry(key: ApplicationKey, { expires_at: applicationExpiry }: Application) {
  const { expires_at: expiry, ...rest } = key;
  return expiry !== undefined && endsWithApplication(Date.parse(expiry), applicationExpiry) ? rest : key;
}

/** How the audit log identifies a key. */
function auditedKey({ id, ending, expires_at }: ApplicationKey) {
  return { id, ending, ...(expires_at !== undefined && { expires_at }) };
}
