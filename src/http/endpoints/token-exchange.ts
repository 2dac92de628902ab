/** Exchanges the JWT of a trusted issuer for a short-lived key of an application (RFC 8693). */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { entryOf, type KeylessEvent } from '../../audit/trail.ts';
import type { Application } from '../../domain/application.ts';
import { Id, timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { cut } from '../../domain/escape.ts';
import { applicationKinds, mint, redactSecrets } from '../../domain/key.ts';
import { latestExpiry } from '../../domain/lifetime.ts';
import { networkMatcher } from '../../domain/network.ts';
import { keyExpiry, matchIssuer, type Workload } from '../../domain/trusted-issuer.ts';
import type { Keys, NewIssuedKey, StoreTransaction, WorkloadTarget } from '../../store/store.ts';
import { ProofError } from '../dpop/proof.ts';
import { type Claims, decodeClaims, IssuerUnreachable, JwtRefusal } from '../oauth/issuer-keys.ts';
import { formType, readForm, receiveBody } from '../pipeline/read-input.ts';
import { type RequestInfo, urlOf } from '../pipeline/request-info.ts';
import { type HandlerContext, openEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { entityOf } from './applications.ts';

const tokenTypes = 'urn:ietf:params:oauth:token-type:';
const accessToken = `${tokenTypes}access_token`;
const grantType = 'urn:ietf:params:oauth:grant-type:token-exchange';
const subjectTokenTypes = [`${tokenTypes}jwt`, `${tokenTypes}id_token`];

const TokenRequest = z
  .object({
    grant_type: z.literal(grantType).describe('Always this value.'),
    client_id: z.string().describe('The tag of the tenant, a dot, and the id of the application.'),
    subject_token: z.string().describe('The JWT of a trusted issuer of the application.'),
    subject_token_type: z.enum(subjectTokenTypes as [string, string]).describe('The type of the JWT.'),
    requested_token_type: z.literal(accessToken).optional().describe('The only type that is issued.'),
  })
  .meta({ id: 'TokenRequest' });

const IssuedKey = z
  .object({
    access_token: z.string().describe('The key. Send it as `SVC-API-KEY`.'),
    issued_token_type: z.literal(accessToken).describe('The type of the key in the words of RFC 8693.'),
    token_type: z
      .enum(['N_A', 'DPoP'])
      .describe('`DPoP` if the key is bound, so that every request needs a proof. `N_A` otherwise.'),
    expires_in: z.int().describe('Seconds for which the key is valid.'),
  })
  .meta({ id: 'IssuedKey' });

const errorCodes = [
  'invalid_request',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
  'invalid_dpop_proof',
] as const;

const TokenError = z
  .object({
    error: z
      .enum(errorCodes)
      .describe('The error code of RFC 6749, section 5.2, or of RFC 8693 or RFC 9449.'),
    error_description: z.string().describe('The error, and what to do about it.'),
  })
  .meta({ id: 'TokenError' });

/** A refused request. The message is sent to the client. */
class TokenFailure extends Error {
  readonly error: (typeof errorCodes)[number];
  constructor(message: string, error: (typeof errorCodes)[number] = 'invalid_request') {
    super(message);
    this.error = error;
  }
}

const maxBodyBytes = 32_768;

/** Minimum milliseconds of a request. Hides whether the application exists and how far its JWT was checked. */
const minDuration = 20;

/** The same for every JWT and every application, so that the response does not show which applications exist. */
const refused =
  'The subject token was not accepted. The audit log of the tenant says why, if the application exists.';

const operation = 'key.exchange';

export const exchangeToken = openEndpoint({
  name: 'exchangeToken',
  tag: 'Applications',
  summary: 'Exchange a JWT for a key',
  description:
    'Returns a short-lived key of an application for a JWT of one of its `trusted_issuers`, so that a workload such as a CI job needs no stored key (RFC 8693). Errors with the status 400 have the format of RFC 6749. With a valid `DPoP` proof, the key is bound: every request with it needs a proof.',
  body: TokenRequest,
  bodyType: formType,
  bodyLimit: maxBodyBytes,
  bodyExample: example.tokenRequest,
  replies: {
    200: reply('The key.', IssuedKey, example.issuedKey),
    400: reply('The request or its JWT was not accepted.', TokenError, {
      error: 'invalid_request',
      error_description: refused,
    }),
  },
  failures: [
    'too_large',
    'unsupported_media_type',
    'tenant_moved',
    'too_many_requests',
    'unavailable',
    'disk_full',
  ],
  handle: async (context, request, requestInfo) => {
    const { limits } = context;
    limits.takeAddress(requestInfo, 'exchanges');
    const received = await receiveBody(request, maxBodyBytes);
    try {
      const form = parseForm(readForm(received, request.headers));
      const exchanging = exchange(form, { context, request, requestInfo });
      await Promise.allSettled([exchanging, Bun.sleep(minDuration)]);
      return { status: 200, body: await exchanging };
    } catch (error) {
      if (!(error instanceof TokenFailure)) throw error;
      return { status: 400, body: { error: error.error, error_description: error.message } };
    }
  },
});

interface TokenForm {
  readonly clientId: string;
  readonly jwt: string;
}

/** Ignores unknown parameters, as RFC 6749 requires. Rejects those that would change the result. */
function parseForm(form: URLSearchParams): TokenForm {
  if (new Set(form.keys()).size < form.size) throw new TokenFailure('A parameter is repeated.');
  const required = (name: string) => {
    const value = form.get(name);
    if (value) return value;
    throw new TokenFailure(`\`${name}\` is required.`);
  };
  if (required('grant_type') !== grantType)
    throw new TokenFailure(`\`grant_type\` must be ${grantType}.`, 'unsupported_grant_type');
  if (form.get('scope')) throw new TokenFailure('`scope` is not supported.', 'invalid_scope');
  for (const name of ['resource', 'audience'])
    if (form.get(name)) throw new TokenFailure(`\`${name}\` is not supported.`, 'invalid_target');
  if (form.get('actor_token')) throw new TokenFailure('`actor_token` is not supported.');
  const requested = form.get('requested_token_type');
  if (requested && requested !== accessToken)
    throw new TokenFailure(`\`requested_token_type\` must be ${accessToken}.`);
  if (!subjectTokenTypes.includes(required('subject_token_type')))
    throw new TokenFailure(`\`subject_token_type\` must be ${subjectTokenTypes.join(' or ')}.`);
  return { clientId: required('client_id'), jwt: required('subject_token') };
}

interface Exchange {
  readonly context: HandlerContext;
  readonly request: Request;
  readonly requestInfo: RequestInfo;
}

/** Throws `TokenFailure`. Every refusal of a JWT is in the audit log. */
async function exchange({ clientId, jwt }: TokenForm, call: Exchange): Promise<z.infer<typeof IssuedKey>> {
  const { context, requestInfo } = call;
  const target = await findTarget(clientId, context);
  let claims: Claims = {};
  try {
    claims = await decodeClaims(jwt);
    if (!target) throw new JwtRefusal('the application does not exist');
    return await issueKey(target, jwt, claims, call);
  } catch (error) {
    if (!(error instanceof JwtRefusal)) throw error;
    recordRefusal(context, requestInfo, target?.application, claims, error.message);
    throw new TokenFailure(refused);
  }
}

/** Returns undefined if the client id is malformed, or if no such application exists. */
async function findTarget(clientId: string, { store }: HandlerContext): Promise<WorkloadTarget | undefined> {
  const [, tag, id] = /^([0-9A-Za-z]{6})\.([0-9a-f-]{36})$/.exec(clientId) ?? [];
  if (tag === undefined || !Id.safeParse(id).success) return undefined;
  return store.findWorkloadTarget(tag, id as string);
}

async function issueKey(
  target: WorkloadTarget,
  jwt: string,
  claims: Claims,
  call: Exchange,
): Promise<z.infer<typeof IssuedKey>> {
  const { context, requestInfo } = call;
  const { application, now } = target;
  const networks = application.allowed_networks;
  if (networks && !networkMatcher(networks)(requestInfo.certainAddress()))
    throw new JwtRefusal('the request is not from a network in allowed_networks of the application');
  // Before the signature, so that only a JWT that could be accepted causes a request to the issuer.
  const workload = matchIssuer(application.trusted_issuers ?? [], claims, now);
  if (typeof workload === 'string') throw new JwtRefusal(workload);
  await context.issuerKeys.verify(jwt, workload.issuer, now).catch((error) => {
    throw error instanceof IssuerUnreachable
      ? fail('unavailable', { detail: unreachable, expected: true })
      : error;
  });
  const jkt = await boundKey(call, now);
  const make = (current: Application) => newKey(target, current, workload, jkt);
  const result = await issue(context, application, make, (issued, id) =>
    issuedEntry(application, issued, id, requestInfo),
  );
  if (result.outcome === 'too_many') throw fail('too_many_requests', { detail: tooManyKeys, retryAfter: 60 });
  if (result.outcome !== 'issued') throw new JwtRefusal(outcomes[result.outcome]);
  const { key, expiresAt } = result.issued;
  return {
    access_token: key.secret.reveal(),
    issued_token_type: accessToken,
    token_type: jkt === undefined ? 'N_A' : 'DPoP',
    expires_in: Math.floor((expiresAt - now) / 1000),
  };
}

export const signOutOperation = 'person.sign_out';

/** Issues the key that `make` returns, with the entries in the audit log. See `Keys.issue`. */
export function issue(
  { store }: HandlerContext,
  { tenant_id: tenantId, id }: Application,
  make: Parameters<Keys['issue']>[2],
  recordOf: (issued: NewIssuedKey, keyId: string) => Omit<KeylessEvent, 'target'>,
): ReturnType<Keys['issue']> {
  const issueIn = async ({ keys, record }: StoreTransaction) => {
    const done = await keys.issue(tenantId, id, make);
    if (done.outcome !== 'issued') return done;
    const event = {
      ...recordOf(done.issued, done.id),
      kind: 'keyless' as const,
      target: { tenantId, entity: entityOf(id) },
    };
    record(entryOf(event));
    for (let ended = 0; ended < done.ended; ended++)
      record(entryOf({ ...event, operation: signOutOperation }));
    return done;
  };
  return store.change(tenantId, issueIn, id);
}

const outcomes = {
  used: 'it was used before',
  refused: 'the application is in quarantine, or no longer trusts the issuer',
};

const tooManyKeys = 'The application has the maximum number of issued keys. Retry when some have expired.';

const unreachable = 'The keys of the issuer cannot be fetched now. Retry with another JWT.';

/** The thumbprint of the key to which the new key is bound. Undefined if the request has no DPoP proof. */
async function boundKey(
  { context, request, requestInfo }: Exchange,
  now: number,
): Promise<string | undefined> {
  const { proofs, publicUrl } = context;
  const proof = request.headers.get('dpop');
  if (proof === null) return undefined;
  requestInfo.dpop = { nonce: proofs.newNonce(now) };
  try {
    const proven = { method: request.method, url: urlOf(request, publicUrl) };
    return (await proofs.checkNewKey(proof, proven, now)).jkt;
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
    throw new TokenFailure(`The DPoP proof ${error.message}.`, 'invalid_dpop_proof');
  }
}

/** Called with the locked application. Returns undefined if it no longer trusts the issuer, or is in quarantine. */
export function newKey(
  { tenantTag, maxLifetime, now }: WorkloadTarget,
  current: Application,
  workload: Workload,
  jkt: string | undefined,
  lifetime = workload.issuer.lifetime,
): NewIssuedKey | undefined {
  const trusted = current.trusted_issuers?.some((issuer) => isDeepStrictEqual(issuer, workload.issuer));
  if (!trusted || current.quarantined_at !== undefined) return undefined;
  const { type, expires_at: applicationExpiry } = current;
  const latest = applicationExpiry === undefined ? undefined : Date.parse(applicationExpiry);
  return {
    key: mint(applicationKinds[type], tenantTag),
    workload,
    jkt,
    at: now,
    expiresAt: keyExpiry(lifetime, now, latest, latestExpiry({ now, maxLifetime })),
  };
}

function issuedEntry(
  { id }: Application,
  { key, workload, at, expiresAt }: NewIssuedKey,
  keyId: string,
  client: RequestInfo,
) {
  const { issuer, subject } = workload;
  return {
    at,
    actor: { kind: 'application' as const, id, application_id: id, subject, issuer: issuer.issuer },
    operation,
    difference: { keys: { to: { id: keyId, ending: key.ending, expires_at: timestamp(expiresAt) } } },
    client,
  };
}

/**
 * Counts a refusal in the audit log of the tenant, or without a tenant if the application does not exist. The claims
 * are not verified: anyone can send them.
 */
function recordRefusal(
  { trail }: HandlerContext,
  client: RequestInfo,
  application: Application | undefined,
  { iss, sub }: Claims,
  problem: string,
): void {
  const claimed = `it says that its issuer is ${printable(iss)} and its subject is ${printable(sub)}`;
  const known = application && {
    target: { tenantId: application.tenant_id, entity: entityOf(application.id) },
    decision: { reason: `the JWT was refused: ${problem}; ${claimed}` },
  };
  trail.record([
    { kind: 'unauthenticated', operation, reason: 'jwt_refused', client, apart: [problem], ...known },
  ]);
}

const maxClaimLength = 200;

export function printable(claim: unknown): string {
  if (typeof claim !== 'string') return 'unknown';
  return cut(redactSecrets(claim).replace(/\p{C}/gu, '?'), maxClaimLength);
}
