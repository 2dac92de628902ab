import { z } from 'zod';
import { type Difference, difference } from '../../domain/audit.ts';
import { then } from '../../domain/awaitable.ts';
import { Id, timestamp } from '../../domain/common-fields.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import { type Grants, grantErrors, permissionsIn } from '../../domain/grant.ts';
import { mint, newId, parseKey } from '../../domain/key.ts';
import { denyUnheldGrants, holds } from '../../domain/principal.ts';
import {
  Session,
  SessionAuthorize,
  SessionCreated,
  SessionState,
  sessionExpiry,
} from '../../domain/session.ts';
import type { Authorized } from '../../store/store.ts';
import { notBoth, notBothError, oneOrMore, pageFields, pageOf, paginate } from '../pipeline/pagination.ts';
import { changeEndpoint, readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const tag = 'Sessions';

export const createSession = changeEndpoint({
  name: 'createSession',
  operation: 'session.create',
  repeatable: false,
  tag,
  summary: 'Create a Session',
  description:
    'For browsers, with the key of a public Application. The Session can do nothing until a backend authorizes it with the nonce.',
  replies: {
    201: {
      description: 'Created, not yet authorized.',
      schema: SessionCreated,
      example: example.sessionCreated,
    },
  },
  enter: ({ principal, where, quotas }, { limits, pendingSessions }) => {
    limits.sessions(principal.digest, where, quotas);
    return pendingSessions.enter(principal.tenantId, principal.applicationId);
  },
  handle: ({ principal }, { store, sessionTtl }) => {
    const expiry = principal.kind === 'application' ? principal.application.expires_at : undefined;
    const expiresAt = sessionExpiry(
      principal.now,
      sessionTtl,
      expiry === undefined ? undefined : Date.parse(expiry),
    );
    const [key, nonce] = [mint('ses'), mint('non')];
    const id = newId(principal.now);
    const session = {
      id,
      applicationId: principal.applicationId,
      key: key.digest,
      nonce: nonce.digest,
      createdAt: principal.now,
      expiresAt,
    };
    const body = {
      session_key: key.secret.reveal(),
      nonce: nonce.secret.reveal(),
      expires_at: timestamp(expiresAt),
    };
    return then(store.sessions.create(principal.tenantId, session), () => {
      return { status: 201, body, entity: { kind: 'session', id } };
    });
  },
});

/** Who holds one of these may grant anything that a Session may hold. */
const freely = ['session:authorize', 'application:create'];

export const authorizeSession = changeEndpoint({
  name: 'authorizeSession',
  operation: 'session.authorize',
  tag,
  summary: 'Authorize a Session',
  description:
    'For backends, once per nonce. Permissions or rules must be non-empty. Who holds `session:authorize` or `application:create` may grant anything that a Session may hold; anyone else only permissions of its own, and the Session can then never do more than its authorizer at that moment.',
  body: SessionAuthorize,
  bodyExample: example.sessionAuthorize,
  replies: { 204: { description: 'Authorized.' } },
  failures: ['grant_not_held', 'nonce_not_found', 'nonce_used'],
  handle: ({ principal, body }, { store, usage, sessionTtlMax }) => {
    throwIfInvalid(grantErrors('session', body));
    if (body.expires_at !== undefined && body.expires_at <= principal.now) {
      throwIfInvalid({ expires_at: ['must be in the future'] });
    }
    const free = freely.find((permission) => holds(principal, permission));
    if (free) usage.note(principal, free);
    else denyUnheldGrants(principal, permissionsIn(body));
    const nonce = parseKey(body.nonce);
    if (nonce?.kind !== 'non') throw fail('nonce_not_found');
    const authorization = {
      permissions: body.permissions,
      rules: body.rules,
      by: principal.applicationId,
      ceiling: free ? undefined : principal.digest,
      expiresAt: body.expires_at,
      longest: sessionTtlMax,
    };
    return then(store.sessions.authorize(principal.tenantId, nonce.digest, authorization), (result) => {
      const session = authorized(result);
      return { status: 204, entity: { kind: 'session', id: session }, difference: granted(body) };
    });
  },
});

/** The id of the Session, or why there is none. */
function authorized(result: Authorized): string {
  switch (result.outcome) {
    case 'authorized':
      return result.session;
    case 'unknown':
      throw fail('nonce_not_found');
    case 'used':
      throw fail('nonce_used');
    case 'too_long':
      throwIfInvalid({ expires_at: [`must be at most ${timestamp(result.latest)} for this Session`] });
      throw fail('internal');
  }
}

/** What the Session may do from now on. */
function granted({ permissions, rules }: SessionAuthorize): Difference {
  return difference({ permissions: [], rules: [] } as Grants, { permissions, rules }, [
    'permissions',
    'rules',
  ]);
}

const ListQuery = z
  .strictObject({
    ...pageFields,
    id: oneOrMore(Id, { type: 'string', format: 'uuid' }),
    application_id: Id.optional().describe('Only those made with a key of this Application.'),
    authorized_by: Id.optional().describe('Only those that this Application authorized.'),
    state: SessionState.optional().describe('Only those that wait, or only those that are authorized.'),
  })
  .refine(notBoth, notBothError);

export const listSessions = readEndpoint({
  name: 'listSessions',
  tag,
  summary: 'List Sessions',
  description: 'Those whose key works, newest first. Every parameter narrows the list.',
  query: ListQuery,
  replies: {
    200: { description: 'One page of them.', schema: pageOf(Session), example: example.sessionPage },
  },
  handle: async ({ principal, query }, { store }) => {
    const { id: ids, application_id: application, authorized_by: authorizer, state } = query;
    const filter = { ids, application, authorizer, state };
    const page = await paginate(query, (window) => store.sessions.list(principal.tenantId, filter, window));
    return { status: 200, body: page };
  },
});

export const endSession = changeEndpoint({
  name: 'endSession',
  operation: 'session.delete',
  tag,
  summary: 'End a Session',
  description:
    'Its key is dead for every request sent after the reply. One that waits can no longer be authorized.',
  params: z.object({
    id: Id.meta({ description: 'The id of the Session.', examples: [example.session.id] }),
  }),
  replies: { 204: { description: 'Ended.' } },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    const ended = await store.sessions.end(principal.tenantId, params.id);
    if (!ended) throw fail('not_found');
    return { status: 204, entity: { kind: 'session', id: params.id } };
  },
});
