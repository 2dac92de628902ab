/**
 * Signs people in to the console by name, and out. The session is a key of the kind `con` in a cookie, which is accepted
 * only under /console/api/. See docs/decisions/0039-sign-in-by-name.md.
 */
import { z } from 'zod';
import { entryOf, type KeylessEvent } from '../../audit/trail.ts';
import type { Application } from '../../domain/application.ts';
import { Person } from '../../domain/audit.ts';
import { mint, parseKey, type Secret } from '../../domain/key.ts';
import { networkMatcher } from '../../domain/network.ts';
import { actorOf, type Principal } from '../../domain/principal.ts';
import { acceptsPerson, signInEntries, subjectShape } from '../../domain/trusted-issuer.ts';
import { validate } from '../../domain/validate.ts';
import type { NewIssuedKey } from '../../store/store.ts';
import { type Claims, IssuerUnreachable, JwtRefusal } from '../oauth/issuer-keys.ts';
import { identifierIn, type Outcome, type SignedInPerson, SignInRefusal } from '../oauth/sign-in.ts';
import { formType, readForm, receiveBody } from '../pipeline/read-input.ts';
import { cookieIn, pathOf, type RequestInfo, sessionCookie } from '../pipeline/request-info.ts';
import { type HandlerContext, openEndpoint, type Reply, reply } from '../pipeline/route.ts';
import { entityOf } from './applications.ts';
import { issue, newKey, printable, signOutOperation } from './token-exchange.ts';

const signInCookie = '__Host-sallyport-sign-in';
const attributes = 'Path=/; Secure; HttpOnly';

const ConsoleSession = z.object({
  providers: z
    .array(z.object({ number: z.int(), name: z.string().describe('The host of the issuer.') }))
    .describe('The providers at which people can sign in.'),
  keys: z.boolean().describe('Whether people can sign in with a key.'),
  person: Person.optional().describe('Who is signed in by name in this browser. Absent if no one is.'),
});

export const getConsoleSession = openEndpoint({
  name: 'getConsoleSession',
  tag: 'Reference',
  summary: 'Get how people can sign in to the console, and who is signed in',
  replies: {
    200: reply('The providers, and the person.', ConsoleSession, { providers: [], keys: true }),
  },
  failures: ['origin_refused', 'tenant_moved', 'too_many_requests', 'unavailable'],
  handle: async (context, request, requestInfo) => {
    context.limits.takeAddress(requestInfo);
    const { providers, acceptsKeys: keys } = context.signIn;
    const principal = await signedIn(request, context);
    return {
      status: 200,
      body: {
        providers: providers.map(({ issuer }, at) => ({ number: at + 1, name: new URL(issuer).host })),
        keys,
        ...(principal && { person: principal.person }),
      },
    };
  },
});

type SignedIn = Extract<Principal, { kind: 'application' }> & { readonly authority: { keyId: string } };

/** The principal of the cookie. Undefined if it is not valid. */
async function signedIn(
  request: Request,
  { store, signIn }: Pick<HandlerContext, 'store' | 'signIn'>,
): Promise<SignedIn | undefined> {
  const key = parseKey(cookieIn(request.headers, sessionCookie));
  const principal = key?.kind === 'con' ? await store.credentials.find(key) : undefined;
  return principal && signIn.accepts(principal) ? (principal as SignedIn) : undefined;
}

const SignInQuery = z.strictObject({
  provider: z.string().regex(/^[1-9]\d?$/),
  tenant: z
    .string()
    .regex(/^[0-9A-Za-z]{6}$/)
    .optional(),
});

export const beginSignIn = openEndpoint({
  name: 'beginSignIn',
  tag: 'Reference',
  summary: 'Send the browser to a provider',
  replies: { 303: { description: 'Redirects to the provider, or back to the console.' } },
  failures: [
    'validation_failed',
    'origin_refused',
    'tenant_moved',
    'too_many_requests',
    'unavailable',
    'disk_full',
  ],
  handle: async (context, request, requestInfo) => {
    const { signIn, limits } = context;
    limits.takeAddress(requestInfo, 'exchanges');
    const query = Object.fromEntries(new URLSearchParams(queryOf(request)));
    const { provider, tenant } = validate(SignInQuery, query, 'query');
    try {
      const { url, cookie } = await signIn.begin(Number(provider), tenant);
      // Here, because a browser does not send the session's cookie when the provider sends it back.
      await endOwnSession(context, request, requestInfo);
      // Lax, because the provider sends the browser back from another site.
      const kept = `${signInCookie}=${cookie}; ${attributes}; SameSite=Lax; Max-Age=600`;
      return { status: 303, headers: { Location: url.href, 'Set-Cookie': kept } };
    } catch (error) {
      if (!(error instanceof SignInRefusal)) throw error;
      return backToConsole('failed');
    }
  },
});

function queryOf({ url }: Request): string {
  const start = url.indexOf('?');
  return start < 0 ? '' : url.slice(start);
}

/** The page knows what each outcome means. */
function backToConsole(outcome: Outcome): Reply {
  return { status: 303, headers: { Location: `/console?sign_in=${outcome}` } };
}

const operation = 'person.sign_in';

export const finishSignIn = openEndpoint({
  name: 'finishSignIn',
  tag: 'Reference',
  summary: 'Receive a person from a provider',
  replies: { 303: { description: 'Redirects to the console.' } },
  failures: ['tenant_moved', 'too_many_requests', 'unavailable', 'disk_full'],
  handle: async (context, request, requestInfo) => {
    const { signIn, limits } = context;
    limits.takeAddress(requestInfo, 'exchanges');
    requestInfo.keepOpen();
    const provider = Number(pathOf(request.url).replace(/\/$/, '').split('/').at(-1));
    try {
      const cookie = cookieIn(request.headers, signInCookie);
      const person = await signIn.finish(provider, queryOf(request), cookie);
      const session = (await beginSession(person, context, requestInfo)).reveal();
      const kept = `${sessionCookie}=${session}; ${attributes}; SameSite=Strict`;
      return { status: 303, headers: { Location: '/console', 'Set-Cookie': kept } };
    } catch (error) {
      if (!(error instanceof SignInRefusal)) throw error;
      recordRefusal(context, requestInfo, error);
      return backToConsole(error.outcome);
    }
  },
});

/** Issues the key of the session. Throws `SignInRefusal`. */
async function beginSession(
  { provider, claims, tag, nonce, expiresAt: jwtExpiry }: SignedInPerson,
  context: HandlerContext,
  requestInfo: RequestInfo,
): Promise<Secret> {
  const { store, signIn } = context;
  const found = await store.findSignInTargets(tag);
  if (!found) throw new SignInRefusal('the tenant is not named, or does not exist', 'tenant', claims);
  const refuse = (problem: string) => new SignInRefusal(problem, 'refused', claims, found.tenant);
  const { issuer, clientId } = provider;
  const accepting = signInEntries(found.targets.map(({ application }) => application)).find(
    ({ entry }) => entry.issuer === issuer && entry.audience === clientId && acceptsPerson(entry, claims),
  );
  const target = found.targets.find(({ application }) => application === accepting?.application);
  if (!accepting || !target) throw refuse('no trusted issuer with sign_in_priority accepts the claims');
  const { application, entry } = accepting;
  const networks = application.allowed_networks;
  if (networks && !networkMatcher(networks)(requestInfo.certainAddress()))
    throw refuse('the request is not from a network in allowed_networks of the application');
  const person = describePerson(claims);
  if (!subjectShape.test(person.subject)) throw refuse('sub must have 1 to 255 characters');
  const { subject, ...shown } = person;
  const sid = identifierIn(claims.sid);
  const workload = { issuer: entry, subject, jti: `sign-in ${nonce}`, expiresAt: jwtExpiry };
  const make = (current: Application): NewIssuedKey | undefined => {
    const longest = newKey(target, current, workload, undefined, signIn.max / 1000);
    if (!longest) return undefined;
    const { at, expiresAt: endsAt } = longest;
    const key = mint('con', target.tenantTag);
    return {
      ...longest,
      key,
      expiresAt: Math.min(at + signIn.idle, endsAt),
      signIn: { person: shown, sid, endsAt },
    };
  };
  const { id } = application;
  const actor = { kind: 'application' as const, id, application_id: id, issuer, person };
  const result = await issue(context, application, make, ({ at }) => {
    return { at, actor, operation, client: requestInfo };
  });
  if (result.outcome === 'used') throw new SignInRefusal('it was finished before', 'failed', claims);
  if (result.outcome !== 'issued') throw refuse(outcomes[result.outcome]);
  return result.issued.key.secret;
}

const outcomes = {
  refused: 'the application is in quarantine, or its trusted issuers have changed',
  too_many: 'the application has the maximum number of issued keys and sessions',
};

/** An address that the provider did not verify may be that of another person. */
function describePerson({ sub, name, email, email_verified }: Claims): Person {
  return {
    subject: typeof sub === 'string' ? sub : '',
    ...(name !== undefined && { name: printable(name) }),
    ...(email !== undefined && email_verified === true && { email: printable(email) }),
  };
}

/** Counts a refusal in the audit log of the tenant, or without a tenant if that is not known. */
function recordRefusal(
  { trail }: HandlerContext,
  client: RequestInfo,
  { message, claims, tenantId }: SignInRefusal,
): void {
  const claimed = describePerson(claims);
  const person = claimed.subject === '' ? undefined : { ...claimed, subject: printable(claimed.subject) };
  const decision = { reason: `the sign-in was refused: ${printable(message)}` };
  const target = tenantId === undefined ? undefined : { tenantId };
  const refusal = { reason: 'sign_in_refused', target, decision, person, apart: [message, claims.sub] };
  trail.record([{ kind: 'unauthenticated', operation, client, ...refusal }]);
}

export const signOut = openEndpoint({
  name: 'signOut',
  tag: 'Reference',
  summary: 'Sign out of the console',
  replies: { 204: { description: 'The session has ended, on every node.' } },
  failures: ['origin_refused', 'tenant_moved', 'too_many_requests', 'unavailable', 'disk_full'],
  handle: async (context, request, requestInfo) => {
    context.limits.takeAddress(requestInfo);
    await endOwnSession(context, request, requestInfo);
    return { status: 204, headers: { 'Set-Cookie': `${sessionCookie}=; ${attributes}; Max-Age=0` } };
  },
});

/** Ends the session of the cookie. */
async function endOwnSession(context: HandlerContext, request: Request, client: RequestInfo): Promise<void> {
  const principal = await signedIn(request, context);
  if (!principal) return;
  const { tenantId, applicationId, authority } = principal;
  const session = { tenantId, applicationId, keyId: authority.keyId };
  await endSession(context, session, { at: principal.now, actor: actorOf(principal), client });
}

type Session = Awaited<ReturnType<HandlerContext['store']['findPersonSessions']>>[number];

/** Does nothing if the session has ended. Also works in quarantine. */
async function endSession(
  { store }: HandlerContext,
  { tenantId, applicationId, keyId }: Session,
  by: Pick<KeylessEvent, 'actor' | 'at' | 'client'>,
): Promise<void> {
  await store.change(
    tenantId,
    async (tx) => {
      if (!(await tx.keys.delete(tenantId, applicationId, keyId, () => {}))) return;
      const target = { tenantId, entity: entityOf(applicationId) };
      tx.record(entryOf({ kind: 'keyless', ...by, operation: signOutOperation, target }));
    },
    applicationId,
    'essential',
  );
}

const LogoutRequest = z.object({ logout_token: z.string().describe('The logout token.') });
const LogoutError = z.object({ error: z.literal('invalid_request'), error_description: z.string() });
const maxBodyBytes = 32_768;

export const logOutByProvider = openEndpoint({
  name: 'logOutByProvider',
  tag: 'Reference',
  summary: 'End the sessions of a person (OpenID Connect Back-Channel Logout)',
  body: LogoutRequest,
  bodyType: formType,
  bodyLimit: maxBodyBytes,
  replies: {
    200: { description: 'The sessions have ended, on every node.' },
    400: { description: 'The logout token was not accepted.', schema: LogoutError },
  },
  failures: [
    ...(['too_large', 'unsupported_media_type', 'tenant_moved'] as const),
    ...(['too_many_requests', 'unavailable', 'disk_full'] as const),
  ],
  handle: async (context, request, requestInfo) => {
    const { limits, signIn, store } = context;
    limits.takeAddress(requestInfo, 'exchanges');
    const form = readForm(await receiveBody(request, maxBodyBytes), request.headers);
    try {
      const person = await signIn.checkLogout(form.get('logout_token') ?? '');
      const at = signIn.now();
      const by = {
        at,
        actor: { kind: 'anonymous' as const, issuer: person.issuer },
        client: requestInfo,
      };
      for (const session of await store.findPersonSessions(person)) await endSession(context, session, by);
      // Afterwards, so that the provider can repeat it after a failure.
      if (!(await store.spendLogout(person))) throw new JwtRefusal('it was used before');
      return { status: 200 };
    } catch (error) {
      const isRefused = [JwtRefusal, IssuerUnreachable, SignInRefusal].some((type) => error instanceof type);
      if (!isRefused) throw error;
      const error_description = `The logout token was refused: ${(error as Error).message}.`;
      return { status: 400, body: { error: 'invalid_request', error_description } };
    }
  },
});
