/** Puts applications and sessions in quarantine, for example until it is known whether a key leaked. */
import { type Application, Application as ApplicationView } from '../../domain/application.ts';
import { difference } from '../../domain/audit.ts';
import { orNotFound } from '../../domain/error.ts';
import { changeBy, denyEscalation, type Principal } from '../../domain/principal.ts';
import { versionOf } from '../../domain/row-version.ts';
import { Session } from '../../domain/session.ts';
import type { StoreTransaction } from '../../store/store.ts';
import { type Call, changeEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { applicationReply, entityOf, params } from './applications.ts';
import { params as sessionParams } from './sessions.ts';

const tag = 'Applications';

export const quarantineApplication = changeEndpoint({
  name: 'quarantineApplication',
  operation: 'application.quarantine',
  tag,
  summary: 'Put an application into quarantine',
  description:
    'From now on the application and the sessions that it created or authorized, with or without a ceiling, can change nothing, and they read tokens without their data. Their keys stay valid, and the audit log records what they try. An application that is in quarantine already stays unchanged. Your key must hold every management permission of the application.',
  params,
  replies: {
    200: reply('The application in quarantine.', ApplicationView, example.applicationQuarantined),
  },
  failures: ['grant_not_held', 'not_found'],
  etag: 'both',
  urgency: 'takes access away',
  handle: async (call, { store }) => {
    const { after, ...change } = await setQuarantine(call, true, store);
    return { ...applicationReply(after), ...change };
  },
});

export const releaseApplication = changeEndpoint({
  name: 'releaseApplication',
  operation: 'application.release',
  tag,
  summary: 'Release an application from quarantine',
  description:
    'Ends the quarantine immediately. Your key must hold every management permission of the application.',
  params,
  replies: { 204: { description: 'The application is not in quarantine.' } },
  failures: ['grant_not_held', 'not_found'],
  etag: 'checked',
  handle: async (call, { store }) => {
    const { after: _, ...change } = await setQuarantine(call, false, store);
    return { status: 204, ...change };
  },
});

export const quarantineSession = changeEndpoint({
  name: 'quarantineSession',
  operation: 'session.quarantine',
  tag: 'Sessions',
  summary: 'Put a session into quarantine',
  description:
    'From now on the session can change nothing, and it reads tokens without their data. Its key stays valid, and the audit log records what it tries. A session that is in quarantine already stays unchanged.',
  params: sessionParams,
  replies: { 200: reply('The session in quarantine.', Session, example.sessionQuarantined) },
  failures: ['not_found'],
  urgency: 'takes access away',
  handle: async ({ principal, params }, { store }) => {
    const { body, ...change } = await setSessionQuarantine(principal, params.id, principal.now, store);
    return { status: 200, body, ...change };
  },
});

export const releaseSession = changeEndpoint({
  name: 'releaseSession',
  operation: 'session.release',
  tag: 'Sessions',
  summary: 'Release a session from quarantine',
  description:
    'Ends the quarantine immediately. A quarantine of its application, or of the application that authorized it, continues, also for about a minute after that application was deleted.',
  params: sessionParams,
  replies: { 204: { description: 'The session is not in quarantine.' } },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    const { body: _, ...change } = await setSessionQuarantine(principal, params.id, undefined, store);
    return { status: 204, ...change };
  },
});

async function setSessionQuarantine(
  { tenantId }: Principal,
  id: string,
  at: number | undefined,
  { sessions }: StoreTransaction,
) {
  const { before, after } = orNotFound(await sessions.setQuarantine(tenantId, id, at));
  const entity = { kind: after.kind, id };
  return { body: after, entity, difference: difference(before, after, ['quarantined_at']) };
}

async function setQuarantine(
  { principal, params: { id }, requireMatch }: Call<{ id: string }>,
  isQuarantined: boolean,
  { applications }: StoreTransaction,
) {
  const check = (current: Application) => {
    denyEscalation(principal, current);
    requireMatch(versionOf(current));
  };
  const change = changeBy(principal);
  const set = await applications.setQuarantine(principal.tenantId, id, change, isQuarantined, check);
  const { before, after } = orNotFound(set);
  return { after, entity: entityOf(id), difference: difference(before, after, ['quarantined_at']) };
}
