import { z } from 'zod';
import { createdState, removedState } from '../../domain/access/history.ts';
import {
  type Application,
  ApplicationCreate,
  ApplicationRegenerate,
  ApplicationType,
  Application as ApplicationView,
  ApplicationWithKey,
  accessErrors,
  maxKeys,
  settingNames,
} from '../../domain/application.ts';
import { type Difference, difference } from '../../domain/audit.ts';
import { DateTime, Id, NameFilter, requireFuture, timestamp } from '../../domain/common-fields.ts';
import { fail, orNotFound, throwIfInvalid } from '../../domain/error.ts';
import { endErrors } from '../../domain/grant.ts';
import { JsonText } from '../../domain/json-text.ts';
import { applicationKinds, type Minted, mint, newId } from '../../domain/key.ts';
import { LabelFilter, maxLabelFilters } from '../../domain/labels.ts';
import { endsWithApplication, latestExpiry, newExpiry } from '../../domain/lifetime.ts';
import { changeBy, denyEscalation, denyOutliving } from '../../domain/principal.ts';
import { versionOf } from '../../domain/row-version.ts';
import { etag } from '../pipeline/etag.ts';
import { listQuery, oneOrMore, pageOf, pageText, paginate } from '../pipeline/pagination.ts';
import { changeEndpoint, type Reply, readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { withDestinationIds } from './destinations.ts';

const tag = 'Applications';
const KeyEnding = z
  .string()
  .regex(/^[0-9A-Za-z]{4}$/, { error: 'must be the last four characters of a key' });
export const params = z.object({
  id: Id.meta({ description: 'The id of the application.', examples: [example.application.id] }),
});

const ListQuery = listQuery({
  id: oneOrMore(Id, { type: 'string', format: 'uuid' }),
  type: ApplicationType.optional().describe('Filter by type.'),
  name: NameFilter.optional().describe('Filter by a part of the name. Ignores case.'),
  expires_before: DateTime.optional().describe('Return only applications that expire before this time.'),
  used_before: DateTime.optional().describe(
    'Return only applications that were created before this time and not used since. Uses are recorded once a minute.',
  ),
  label: LabelFilter.optional().describe(
    `Filter by labels, as \`label[NAME]=VALUE\`, at most ${maxLabelFilters} times.`,
  ),
  key_ending: KeyEnding.optional().describe(
    'Filter by the last four characters of a key, as `GET /applications/{id}/keys` returns them.',
  ),
});

export const createApplication = changeEndpoint({
  name: 'createApplication',
  tag,
  summary: 'Create an application',
  description:
    'Creates an application and its first key. Only this response contains the key, so store it safely. The application needs at least one permission or rule. You can grant a management permission only if your key holds it.',
  body: ApplicationCreate,
  bodyExample: example.applicationCreate,
  replies: {
    201: reply('The new application, with its key.', ApplicationWithKey, example.applicationWithKey),
  },
  failures: ['grant_not_held'],
  retries: 'same key',
  etag: 'sent',
  handle: async ({ principal, body }, { store }) => {
    throwIfInvalid({ ...accessErrors(body.type, body), ...endErrors(body, principal.now) });
    const expiresAt = newExpiry(body.expires_at, principal);
    const keyExpiresAt = latestExpiry(principal);
    denyEscalation(principal, body);
    denyOutliving(principal, { grants: body, end: expiresAt });
    const key = mint(applicationKinds[body.type], principal.tenantTag);
    const application = await store.applications.create(
      principal.tenantId,
      {
        ...body,
        id: newId(principal.now),
        rules: await withDestinationIds(store, principal.tenantId, body.rules),
        createdBy: principal.applicationId,
        createdAt: principal.now,
        expiresAt,
        keyExpiresAt,
      },
      key,
    );
    return {
      status: 201,
      body: withKey(application, key, keyExpiresAt),
      headers: etag(versionOf(application)),
      entity: entityOf(application.id),
      difference: {
        ...createdState(application),
        ...difference({} as Application, application, settingNames),
      },
    };
  },
});

export const listApplications = readEndpoint({
  name: 'listApplications',
  tag,
  summary: 'List applications',
  description: 'Returns the applications of your tenant, newest first. Filters can be combined.',
  query: ListQuery,
  replies: { 200: reply('A page of applications.', pageOf(ApplicationView), example.applicationPage) },
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const { id: ids, type, name, label: labels } = query;
    const { expires_before: expiresBefore, used_before: usedBefore, key_ending: keyEnding } = query;
    const filter = { ids, type, name, expiresBefore, usedBefore, labels, keyEnding };
    const page = await paginate(query, memory.reserverFor(call), (window) =>
      store.applications.list(principal.tenantId, filter, window),
    );
    return { status: 200, body: await longWork.run(principal, pageText(page)) };
  },
});

export const getApplicationByKey = readEndpoint({
  name: 'getApplicationByKey',
  tag,
  summary: 'Get the application of your key',
  description:
    'Returns the application that your key belongs to. With a session key, returns the application of the session.',
  replies: { 200: reply('The application.', ApplicationView, example.application) },
  failures: ['not_found'],
  etag: 'sent',
  handle: async ({ principal }, { store }) => {
    if (principal.kind === 'application') return cachedReply(principal.application);
    return applicationReply(
      orNotFound(await store.applications.get(principal.tenantId, principal.applicationId)),
    );
  },
});

export const getApplication = readEndpoint({
  name: 'getApplication',
  tag,
  summary: 'Get an application',
  params,
  replies: { 200: reply('The application.', ApplicationView, example.application) },
  failures: ['not_found'],
  etag: 'sent',
  handle: async ({ principal, params }, { store }) =>
    applicationReply(orNotFound(await store.applications.get(principal.tenantId, params.id))),
});

export const regenerateKey = changeEndpoint({
  name: 'regenerateKey',
  operation: 'application.regenerate',
  tag,
  summary: 'Regenerate the key of an application',
  description:
    'Creates a new key and revokes all existing keys of the application immediately, or lets them expire at `old_keys_expire_at`. Only this response contains the new key. Your key must hold every management permission of the application.',
  params,
  body: ApplicationRegenerate,
  bodyIfMissing: {},
  bodyExample: example.applicationRegenerate,
  replies: {
    200: reply('The application, with its new key.', ApplicationWithKey, example.applicationWithKey),
  },
  failures: ['grant_not_held', 'not_found', 'too_many_keys'],
  retries: 'same key',
  etag: 'both',
  urgency: 'takes access away',
  handle: async ({ principal, params, body, requireMatch }, { store }) => {
    const { old_keys_expire_at: oldKeysExpireAt } = body;
    requireFuture(oldKeysExpireAt, principal.now, 'old_keys_expire_at');
    const newKey = (current: Application, keys: number) => {
      denyEscalation(principal, current);
      denyOutliving(principal, { grants: current, end: current.expires_at });
      requireMatch(versionOf(current));
      if (keys >= maxKeys) throw fail('too_many_keys');
      return mint(applicationKinds[current.type], principal.tenantTag);
    };
    const change = changeBy(principal);
    const expiry = { expiresAt: latestExpiry(principal), oldKeysExpireAt };
    const { application, key } = orNotFound(
      await store.applications.regenerate(principal.tenantId, params.id, change, newKey, expiry),
    );
    return {
      status: 200,
      body: withKey(application, key, expiry.expiresAt),
      headers: etag(versionOf(application)),
      entity: entityOf(params.id),
      ...(oldKeysExpireAt !== undefined && { difference: overlapOf(oldKeysExpireAt) }),
    };
  },
});

export const deleteApplication = changeEndpoint({
  name: 'deleteApplication',
  tag,
  summary: 'Delete an application',
  description: 'Deletes an application. Its keys and sessions are revoked immediately.',
  params,
  replies: { 204: { description: 'Deleted.' } },
  failures: ['not_found'],
  etag: 'checked',
  urgency: 'takes access away',
  handle: async ({ principal, params, requireMatch }, { store }) => {
    const check = (current: Application) => requireMatch(versionOf(current));
    const deleted = orNotFound(await store.applications.delete(principal.tenantId, params.id, check));
    return { status: 204, entity: entityOf(params.id), difference: removedState(deleted) };
  },
});

function withKey(application: Application, key: Minted, expiresAt: number | undefined) {
  const hasOwnExpiry = expiresAt !== undefined && !endsWithApplication(expiresAt, application.expires_at);
  return {
    ...application,
    key: key.secret.reveal(),
    ...(hasOwnExpiry && { key_expires_at: timestamp(expiresAt) }),
  };
}

/** The audit entry field that says until when the old keys stay valid. */
export function overlapOf(oldKeysExpireAt: number): Difference {
  return { old_keys_expire_at: { to: timestamp(oldKeysExpireAt) } };
}

export function entityOf(id: string) {
  return { kind: 'application', id };
}

export function applicationReply(application: Application, body: Application | JsonText = application) {
  return { status: 200, body, headers: etag(versionOf(application)) };
}

const replies = new WeakMap<Application, Reply>();

/** Caches the JSON, because the credential cache often returns the same object. Saves 5 % of a request's CPU time. */
function cachedReply(application: Application): Reply {
  let cached = replies.get(application);
  if (!cached) {
    cached = applicationReply(application, JsonText.of(application));
    replies.set(application, cached);
  }
  return cached;
}
