import { z } from 'zod';
import {
  type Application,
  ApplicationCreate,
  ApplicationType,
  ApplicationUpdate,
  Application as ApplicationView,
  ApplicationWithKey,
  readOnlyErrors,
} from '../../domain/application.ts';
import { difference } from '../../domain/audit.ts';
import { then } from '../../domain/awaitable.ts';
import { DateTime, Id, NameFilter } from '../../domain/common-fields.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import { grantErrors } from '../../domain/grant.ts';
import { applicationKinds, mint, newId } from '../../domain/key.ts';
import { originErrors } from '../../domain/origin.ts';
import { denyEscalation, type Principal } from '../../domain/principal.ts';
import { notBoth, notBothError, oneOrMore, pageFields, pageOf, paginate } from '../pipeline/pagination.ts';
import { changeEndpoint, readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const tag = 'Applications';
export const params = z.object({
  id: Id.meta({ description: 'The id of the Application.', examples: [example.application.id] }),
});

const ListQuery = z
  .strictObject({
    ...pageFields,
    id: oneOrMore(Id, { type: 'string', format: 'uuid' }),
    type: ApplicationType.optional().describe('Only those of this type.'),
    name: NameFilter.optional().describe('Only those with this in their name, in any case.'),
    expires_before: DateTime.optional().describe(
      'Only those that expire before this moment, to be warned of them in time.',
    ),
  })
  .refine(notBoth, notBothError);

export const createApplication = changeEndpoint({
  name: 'createApplication',
  tag,
  summary: 'Create an Application',
  description:
    'The reply is the only one that shows the key. Permissions or rules must be non-empty; what they grant of the management permissions must be held by the caller.',
  body: ApplicationCreate,
  bodyExample: example.applicationCreate,
  replies: {
    201: {
      description: 'Created, with its key.',
      schema: ApplicationWithKey,
      example: example.applicationWithKey,
    },
  },
  failures: ['grant_not_held'],
  handle: async ({ principal, body }, { store }) => {
    throwIfInvalid({ ...grantErrors(body.type, body), ...originErrors(body.type, body.allowed_origins) });
    if (body.expires_at !== undefined && body.expires_at <= principal.now) {
      throwIfInvalid({ expires_at: ['must be in the future'] });
    }
    denyEscalation(principal, body);
    const key = mint(applicationKinds[body.type]);
    const application = await store.applications.create(
      principal.tenantId,
      {
        id: newId(principal.now),
        name: body.name,
        type: body.type,
        permissions: body.permissions,
        rules: body.rules,
        allowedOrigins: body.allowed_origins,
        createdBy: principal.applicationId,
        createdAt: principal.now,
        expiresAt: body.expires_at,
      },
      key,
    );
    return {
      status: 201,
      body: { ...application, key: key.secret.reveal() },
      entity: entityOf(application.id),
    };
  },
});

export const listApplications = readEndpoint({
  name: 'listApplications',
  tag,
  summary: 'List Applications',
  description: 'Newest first. Every parameter narrows the list.',
  query: ListQuery,
  replies: {
    200: {
      description: 'One page of them.',
      schema: pageOf(ApplicationView),
      example: example.applicationPage,
    },
  },
  handle: async ({ principal, query }, { store }) => {
    const { id: ids, type, name, expires_before: expiresBefore } = query;
    const filter = { ids, type, name, expiresBefore };
    const page = await paginate(query, (window) =>
      store.applications.list(principal.tenantId, filter, window),
    );
    return { status: 200, body: page };
  },
});

export const getApplicationByKey = readEndpoint({
  name: 'getApplicationByKey',
  tag,
  summary: 'Get the Application of the key that is shown',
  description: 'With the key of a Session, the Application that the Session belongs to.',
  replies: {
    200: { description: 'The Application.', schema: ApplicationView, example: example.application },
  },
  failures: ['not_found'],
  handle: ({ principal }, { store }) => {
    if (principal.kind === 'application') return { status: 200, body: principal.application, lasting: true };
    return then(store.applications.get(principal.tenantId, principal.applicationId), found);
  },
});

export const getApplication = readEndpoint({
  name: 'getApplication',
  tag,
  summary: 'Get an Application',
  params,
  replies: {
    200: { description: 'The Application.', schema: ApplicationView, example: example.application },
  },
  failures: ['not_found'],
  handle: ({ principal, params }, { store }) =>
    then(store.applications.get(principal.tenantId, params.id), found),
});

export const updateApplication = changeEndpoint({
  name: 'updateApplication',
  tag,
  summary: 'Update an Application',
  description:
    'Replaces name, permissions and rules, and the allowed origins if they are sent. The read-only fields may be sent back as they were fetched. Holds for every request sent after the reply. The caller must hold the management permissions that the Application has, and those that it is to have.',
  params,
  body: ApplicationUpdate,
  bodyExample: example.applicationUpdate,
  replies: {
    200: { description: 'As it is now.', schema: ApplicationView, example: example.applicationUpdated },
  },
  failures: ['grant_not_held', 'not_found'],
  handle: async ({ principal, params, body }, { store }) => {
    let before: Application | undefined;
    const after = await store.applications.update(
      principal.tenantId,
      params.id,
      changeBy(principal),
      (current) => {
        throwIfInvalid({
          ...readOnlyErrors(current, body),
          ...grantErrors(current.type, body),
          ...originErrors(current.type, body.allowed_origins),
        });
        denyEscalation(principal, current, body);
        before = current;
        const { name, permissions, rules, allowed_origins = current.allowed_origins } = body;
        return { name, permissions, rules, ...(allowed_origins && { allowed_origins }) };
      },
    );
    if (!after || !before) throw fail('not_found');
    const changed = difference(before, after, ['name', 'permissions', 'rules', 'allowed_origins']);
    return { status: 200, body: after, entity: entityOf(params.id), difference: changed };
  },
});

export const regenerateKey = changeEndpoint({
  name: 'regenerateKey',
  operation: 'application.regenerate',
  tag,
  summary: 'Regenerate the key of an Application',
  description:
    'The previous key is dead for every request sent after the reply, which is the only one that shows the new key. The caller must hold the management permissions that the Application has.',
  params,
  replies: {
    200: {
      description: 'With its new key.',
      schema: ApplicationWithKey,
      example: example.applicationWithKey,
    },
  },
  failures: ['grant_not_held', 'not_found'],
  handle: async ({ principal, params }, { store }) => {
    const done = await store.applications.regenerate(
      principal.tenantId,
      params.id,
      changeBy(principal),
      (current) => {
        denyEscalation(principal, current);
        return mint(applicationKinds[current.type]);
      },
    );
    if (!done) throw fail('not_found');
    const body = { ...done.application, key: done.key.secret.reveal() };
    return { status: 200, body, entity: entityOf(params.id) };
  },
});

export const deleteApplication = changeEndpoint({
  name: 'deleteApplication',
  tag,
  summary: 'Delete an Application',
  description: 'Its key and its Sessions are dead for every request sent after the reply.',
  params,
  replies: { 204: { description: 'Deleted.' } },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    if (!(await store.applications.delete(principal.tenantId, params.id))) throw fail('not_found');
    return { status: 204, entity: entityOf(params.id) };
  },
});

export function entityOf(id: string) {
  return { kind: 'application', id };
}

export function changeBy(principal: Principal) {
  return { by: principal.applicationId, at: principal.now };
}

function found(application: Application | undefined) {
  if (!application) throw fail('not_found');
  return { status: 200, body: application };
}
