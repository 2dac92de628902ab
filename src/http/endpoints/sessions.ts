import { z } from 'zod';
import { difference } from '../../domain/audit.ts';
import { Id, Name, originalIndex, requireFuture, timestamp } from '../../domain/common-fields.ts';
import { type Errors, fail, orNotFound, throwIfInvalid } from '../../domain/error.ts';
import { type Grants, grantErrors, noGrants, permissionsIn } from '../../domain/grant.ts';
import { mint, newId, parseKey } from '../../domain/key.ts';
import type { Policy } from '../../domain/policy.ts';
import { denyUnheldGrants, holds, holdsUntil } from '../../domain/principal.ts';
import { Container } from '../../domain/rule.ts';
import {
  appliesIn,
  DelegationCreate,
  DelegationCreated,
  Session,
  SessionAuthorize,
  SessionCreated,
  SessionKind,
  SessionState,
} from '../../domain/session.ts';
import { appliesNowhere } from '../../domain/visible-scopes.ts';
import type { Authorized, ListPage, ListWindow } from '../../store/store.ts';
import { addressOf } from '../pipeline/limits.ts';
import { listQuery, oneOrMore, pageOf, pageText, paginate } from '../pipeline/pagination.ts';
import { changeEndpoint, readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { withDestinationIds } from './destinations.ts';

const tag = 'Sessions';
export const params = z.object({
  id: Id.meta({ description: 'The id of the session.', examples: [example.session.id] }),
});

export const createSession = changeEndpoint({
  name: 'createSession',
  operation: 'session.create',
  retries: 'never',
  bindsSession: true,
  tag,
  summary: 'Create a session',
  description:
    'Creates a pending session. Call it from the browser with the key of a public application, and send the nonce to your backend. The session key has no access until the backend authorizes the session. With a DPoP proof, the session is bound to its key: every request with the session key then needs a proof by the same key. An invalid proof is rejected.',
  replies: {
    201: reply('The pending session, with its key and nonce.', SessionCreated, example.sessionCreated),
  },
  checkLimits: async ({ principal, requestInfo }, { limits, pendingSessions }) => {
    const client = `${principal.digest.toHex()} ${addressOf(requestInfo)}`;
    limits.take(requestInfo, { limit: 'sessions', client });
    return pendingSessions.reserve(principal.tenantId, principal.applicationId);
  },
  handle: async ({ principal, jkt }, { store, sessionTtl }) => {
    const applicationExpiry = principal.kind === 'application' && principal.application.expires_at;
    const latest = applicationExpiry ? Date.parse(applicationExpiry) : Number.POSITIVE_INFINITY;
    const expiresAt = Math.min(principal.now + sessionTtl, latest);
    const [key, nonce] = [mint('ses', principal.tenantTag), mint('non', principal.tenantTag)];
    const id = newId(principal.now);
    const session = {
      id,
      applicationId: principal.applicationId,
      key: key.digest,
      nonce: nonce.digest,
      jkt,
      createdAt: principal.now,
      expiresAt,
    };
    await store.sessions.create(principal.tenantId, session);
    const body = {
      session_key: key.secret.reveal(),
      nonce: nonce.secret.reveal(),
      expires_at: timestamp(expiresAt),
      ...(jkt !== undefined && { bound: true }),
    };
    const entity = { kind: 'session', id };
    return { status: 201, body, entity, ...(jkt !== undefined && { difference: { bound: { to: true } } }) };
  },
});

/** A body of this size has no rules of more than 4 KiB, also with the ids of destinations instead of their names. */
const shortBody = 512;

/** With one of these permissions, a caller can grant any permission that a session can hold. */
const unrestrictedBy = ['session:authorize', 'application:create'];

export const authorizeSession = changeEndpoint({
  name: 'authorizeSession',
  operation: 'session.authorize',
  urgency: 'authorizes',
  tag,
  summary: 'Authorize a session',
  description:
    'Grants access to a pending session. Call it from your backend with the key of a private or management application. Each nonce works once. Send at least one permission or rule. If your key holds `session:authorize` or `application:create`, you can grant any permission that a session can hold. Otherwise you can grant only permissions that your key holds, and your key is the ceiling of the session: at any time, the session can do only what your key can do. It ends with your key. If no rule matches anything that your key can access now, the request is rejected with 400. The response has no body; its headers `SVC-SESSION-ID` and `SVC-SESSION-EXPIRES-AT` say which session was authorized and until when.',
  body: SessionAuthorize,
  bodyExample: example.sessionAuthorize,
  replies: {
    204: {
      description: 'The session is active.',
      headers: ['SVC-SESSION-ID', 'SVC-SESSION-EXPIRES-AT'],
    },
  },
  failures: ['grant_not_held', 'nonce_not_found', 'nonce_used'],
  retries: 'same key',
  checkLimits: async ({ principal, bodyBytes }, { longRules }) =>
    bodyBytes > shortBody ? longRules.reserve(principal.tenantId, principal.applicationId) : undefined,
  handle: async ({ principal, body }, { store, usage, sessionTtlMax }) => {
    throwIfInvalid(grantErrors('session', body));
    requireFuture(body.expires_at, principal.now);
    const unrestricted = unrestrictedBy
      .filter((permission) => holds(principal, permission))
      .toSorted((a, b) => holdsUntil(principal, b) - holdsUntil(principal, a))[0];
    const end = unrestricted ? holdsUntil(principal, unrestricted) : Number.POSITIVE_INFINITY;
    if (unrestricted) {
      usage.record(principal, unrestricted);
      if ((body.expires_at ?? 0) > end)
        throwIfInvalid({
          expires_at: [`must be at most ${timestamp(end)}, when your key loses \`${unrestricted}\``],
        });
    } else {
      denyUnheldGrants(principal, permissionsIn(body));
      throwIfInvalid(emptyGrantErrors(body, principal.policy));
    }
    const nonce = parseKey(body.nonce);
    if (nonce?.kind !== 'non') throw fail('nonce_not_found', { detail: otherKind(body.nonce) });
    const { permissions } = body;
    const rules = await withDestinationIds(store, principal.tenantId, body.rules);
    const trust = principal.kind === 'application' ? principal.trust : undefined;
    const authorization = {
      permissions,
      rules,
      subject: body.subject,
      by: principal.applicationId,
      ...(unrestricted
        ? { ceiling: undefined, unlimitedBy: principal.digest, trust }
        : { ceiling: principal.digest }),
      expiresAt: body.expires_at,
      latest: Number.isFinite(end) ? end : undefined,
      maxLifetime: sessionTtlMax,
    };
    const result = await store.sessions.authorize(principal.tenantId, nonce.digest, authorization);
    const { session, expiresAt } = requireAuthorized(result);
    return {
      status: 204,
      headers: { 'SVC-SESSION-ID': session, 'SVC-SESSION-EXPIRES-AT': timestamp(expiresAt) },
      entity: { kind: 'session', id: session },
      difference: {
        ...difference<Grants>(noGrants, { permissions, rules }, ['permissions', 'rules']),
        ceiling: { to: !unrestricted },
        ...(body.subject !== undefined && { subject: { to: body.subject } }),
      },
    };
  },
});

export const createDelegation = changeEndpoint({
  name: 'createDelegation',
  operation: 'delegation.create',
  tag,
  summary: 'Create a delegation',
  description:
    'Issues a key for a job or an agent. Call it from your backend with the key of a private application. Send at least one permission or rule, as for a session. You can grant only permissions that your key holds, and your key is the ceiling of the delegation: at any time, it can do only what your key can do. If no rule matches anything that your key can access now, the request is rejected with 400. The delegation ends with your key, and works only where your key works (`allowed_networks`). With `max_uses`, at most that many requests succeed: a use is a request that passed authorization. Requests with the status 400, 401, 403, 413, 415 or 429 are not counted, except a 400 that depends on stored data; one with 5xx may be. Delegations are listed, ended and put into quarantine like sessions.',
  body: DelegationCreate,
  bodyExample: example.delegationCreate,
  replies: { 201: reply('The delegation, with its key.', DelegationCreated, example.delegationCreated) },
  failures: ['grant_not_held'],
  retries: 'same key',
  checkLimits: async ({ principal }, { delegations }) =>
    delegations.reserve(principal.tenantId, principal.applicationId),
  handle: async ({ principal, body }, { store, sessionTtl, sessionTtlMax }) => {
    throwIfInvalid(grantErrors('delegation', body));
    requireFuture(body.expires_at, principal.now);
    denyUnheldGrants(principal, permissionsIn(body));
    throwIfInvalid(emptyGrantErrors(body, principal.policy));
    const latest = principal.now + sessionTtlMax;
    if (body.expires_at !== undefined && body.expires_at > latest)
      throwIfInvalid({ expires_at: [`must be at most ${timestamp(latest)}`] });
    const [key, nonce] = [mint('dlg', principal.tenantTag), mint('non', principal.tenantTag)];
    const id = newId(principal.now);
    const { subject, max_uses: maxUses, permissions } = body;
    const rules = await withDestinationIds(store, principal.tenantId, body.rules);
    const expiresAt = await store.sessions.delegate(principal.tenantId, {
      id,
      key: key.digest,
      nonce: nonce.digest,
      createdAt: principal.now,
      expiresAt: body.expires_at ?? principal.now + Math.min(sessionTtl, sessionTtlMax),
      by: principal.applicationId,
      ceiling: principal.digest,
      subject,
      maxUses,
      permissions,
      rules,
    });
    const end = timestamp(expiresAt);
    return {
      status: 201,
      body: { id, key: key.secret.reveal(), expires_at: end },
      entity: { kind: 'delegation', id },
      difference: {
        ...difference<Grants>(noGrants, { permissions, rules }, ['permissions', 'rules']),
        ceiling: { to: true },
        ...(subject !== undefined && { subject: { to: subject } }),
        ...(maxUses !== undefined && { max_uses: { to: maxUses } }),
        expires_at: { to: end },
      },
    };
  },
});

/** Errors if the ceiling allows no part of the grants: the key would then be useless. */
function emptyGrantErrors(grants: Grants, ceiling: Policy): Errors {
  if (!appliesNowhere(grants, ceiling)) return {};
  const error = ['must match something that your key can access: with these conditions, it gives no access'];
  return Object.fromEntries(
    grants.rules.map((_, index) => [`rules.${originalIndex(grants.rules, index)}.conditions`, error]),
  );
}

/** The kind of key that was sent as a nonce, by its prefix. Undefined for a nonce, and for text of another service. */
function otherKind(text: string): string | undefined {
  const [, kind] = /^slp_(mgt|pvt|pub|ses|dlg)_/.exec(text) ?? [];
  if (kind === undefined) return undefined;
  const name = { ses: 'the key of a session', dlg: 'the key of a delegation' }[kind];
  return `This is ${name ?? 'the key of an application'}, not a nonce. Send the \`nonce\` of the response of \`POST /sessions\`.`;
}

/** Throws the reason why the session was not authorized. */
function requireAuthorized(result: Authorized): Extract<Authorized, { outcome: 'authorized' }> {
  switch (result.outcome) {
    case 'authorized':
      return result;
    case 'unknown':
      throw fail('nonce_not_found');
    case 'used':
      throw fail('nonce_used');
    case 'too_long':
      throw fail('validation_failed', {
        errors: { expires_at: [`must be at most ${timestamp(result.latest)} for this session`] },
      });
  }
}

const ListQuery = listQuery({
  id: oneOrMore(Id, { type: 'string', format: 'uuid' }),
  application_id: Id.optional().describe('Filter by the application that created the session.'),
  authorized_by: Id.optional().describe('Filter by the application that authorized the session.'),
  kind: SessionKind.optional().describe('Filter by kind.'),
  state: SessionState.optional().describe('Filter by state.'),
  subject: Name.optional().describe('Filter by the subject: who the session is for.'),
  container: Container.optional().describe(
    'Return only sessions with a grant that applies in this container or below it. The limits of the authorizer are not considered. The response has no totals, and `page` must be 1.',
  ),
});

export const listSessions = readEndpoint({
  name: 'listSessions',
  tag,
  summary: 'List sessions',
  description:
    'Returns the pending and active sessions and the delegations of your tenant, newest first. Filters can be combined. A request examines a limited number of sessions: a page can be short or empty and still have `next`.',
  query: ListQuery,
  replies: { 200: reply('A page of sessions.', pageOf(Session), example.sessionPage) },
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const { id: ids, application_id: application, authorized_by: authorizer, container, ...rest } = query;
    const filter = {
      ids,
      application,
      authorizer,
      kind: rest.kind,
      state: rest.state,
      subject: rest.subject,
    };
    const list = (window: ListWindow) => store.sessions.list(principal.tenantId, filter, window);
    const page = await paginate(query, memory.reserverFor(call), (window) =>
      container === undefined
        ? list(window)
        : matchingSessions((session) => appliesIn(session, container), window, list),
    );
    return { status: 200, body: await longWork.run(principal, pageText(page)) };
  },
});

export const getSession = readEndpoint({
  name: 'getSession',
  tag,
  summary: 'Get a session',
  description: 'Returns a pending or active session, or a delegation. Gets 404 after it has ended.',
  params,
  replies: { 200: reply('The session.', Session, example.session) },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    const { rows } = await store.sessions.list(principal.tenantId, { ids: [params.id] }, { size: 1 });
    return { status: 200, body: orNotFound(rows[0]) };
  },
});

export const endSession = changeEndpoint({
  name: 'endSession',
  operation: 'session.delete',
  tag,
  summary: 'End a session',
  description:
    'Revokes the key of a session or delegation immediately. A pending session can no longer be authorized.',
  params,
  replies: { 204: { description: 'The session has ended.' } },
  failures: ['not_found'],
  urgency: 'takes access away',
  handle: async ({ principal, params }, { store }) => {
    const kind = orNotFound(await store.sessions.end(principal.tenantId, params.id));
    return { status: 204, entity: { kind, id: params.id } };
  },
});

export const endSessions = changeEndpoint({
  name: 'endSessions',
  operation: 'session.delete',
  tag,
  summary: 'End all sessions of a subject',
  description:
    'Revokes the keys of all sessions and delegations that were authorized with this `subject`, immediately and on every node. A session whose authorization was answered before this request was sent has ended when the response arrives. One that is authorized at the same time either ends, too, or counts as authorized afterwards.',
  query: z.strictObject({
    subject: Name.meta({
      description: 'The subject whose sessions end, such as `user:42`.',
      examples: [example.session.subject],
    }),
  }),
  replies: { 204: { description: 'The sessions have ended, if there were any.' } },
  urgency: 'takes access away',
  handle: async ({ principal, query: { subject } }, { store }) => {
    await store.sessions.endAll(principal.tenantId, subject);
    return { status: 204, entity: { kind: 'subject', id: subject } };
  },
});

/** Sessions that are read and checked in one statement. */
const batchSize = 100;
/** Maximum statements of one request. */
const maxBatches = 20;

/**
 * Reads batches until the page is full or `maxBatches` is reached. A page may therefore be short or empty and still
 * have `next`. Returns no totals. Page numbers above 1 are `tooDeep`.
 */
async function matchingSessions(
  matches: (session: Session) => boolean,
  { size, page = 1, start, order, reserve }: ListWindow,
  list: (window: ListWindow) => Promise<ListPage<Session>>,
): Promise<ListPage<Session>> {
  if (page > 1) return { rows: [], next: undefined, total: undefined, tooDeep: true };
  const rows: Session[] = [];
  let largest = 0;
  /** The sessions of one batch are in memory at a time, and those of the page. */
  const more = (bytes: number) => {
    if (bytes > largest) reserve?.(bytes - largest);
    largest = Math.max(largest, bytes);
  };
  let next = start;
  for (let batch = 0; batch < maxBatches; batch++) {
    const found = await list({ size: batchSize, start: next, order, reserve: more });
    for (const session of found.rows) {
      if (matches(session)) rows.push(session);
      if (rows.length === size) return { rows, next: session.id, total: undefined, tooDeep: false };
    }
    next = found.next;
    // The batch is not full, so its statement already examined as many rows as one request may.
    if (found.rows.length < batchSize || next === undefined) break;
  }
  return { rows, next, total: undefined, tooDeep: false };
}
