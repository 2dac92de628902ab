/** Sends a request to a destination and inserts the data of tokens on the way. The caller never sees the data. */
import { z } from 'zod';
import { entryOf } from '../../audit/trail.ts';
import {
  type Destination,
  type DestinationRequest,
  headerPrefix,
  isPlainPath,
  matchesPath,
  maxTimeout,
  streamed,
} from '../../domain/destination.ts';
import { echoFilter, minEcho } from '../../domain/echoes.ts';
import { type Failure, fail, orNotFound } from '../../domain/error.ts';
import { cut } from '../../domain/escape.ts';
import {
  type CallerRequest,
  type FilledRequest,
  prepareRequest,
  unlisted,
} from '../../domain/placeholders.ts';
import { holds, type Principal, permit, usableDestinations } from '../../domain/principal.ts';
import { tokenVersion, versionOf } from '../../domain/row-version.ts';
import { inTurns, nextTurn, runSteps } from '../../domain/steps.ts';
import type { Lease } from '../../outbound/destinations.ts';
import type { NewEntry, StoredToken, StoreTransaction } from '../../store/store.ts';
import { isLimited, spendUse } from '../admit.ts';
import { defaultKeyChallenge } from '../pipeline/problem.ts';
import {
  bodyLimit,
  formType,
  isContentType,
  jsonTypes,
  largeBody,
  type ReceivedBody,
  type RoutedRequest,
  readText,
} from '../pipeline/read-input.ts';
import {
  type Call,
  type Conventions,
  type Endpoint,
  type HandlerContext,
  type Reply,
  readEndpoint,
} from '../pipeline/route.ts';
import { replyBytes, sendUse } from './proxy-reply.ts';
import { stopped, type Use, Watched } from './proxy-use.ts';

const maxBody = 1_048_576;
const maxAnyBody = 32 * maxBody;
/** Requests start over if a destination or token was changed between the check and the transaction. */
const maxAttempts = 3;

/** Only for the API reference: the handler reads the path itself. */
const Params = z.object({
  name: z.string().meta({ description: 'The name of the destination.', examples: ['payments'] }),
  path: z.string().meta({
    description: 'The path at the destination. It may have several segments.',
    examples: ['v1/charges'],
  }),
});

/** Libraries of providers send their key in `Authorization`. Octokit calls the scheme `token`. */
const conventions: Conventions = {
  otherKey: (headers) =>
    /^(?:Bearer|DPoP|token) +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? null,
  keyChallenge: `${defaultKeyChallenge}, Bearer`,
};

export const proxyGet = proxyEndpoint('proxyGet', 'GET');
export const proxyPost = proxyEndpoint('proxyPost', 'POST');
export const proxyPut = proxyEndpoint('proxyPut', 'PUT');
export const proxyPatch = proxyEndpoint('proxyPatch', 'PATCH');
export const proxyDelete = proxyEndpoint('proxyDelete', 'DELETE');

function proxyEndpoint(name: string, method: string): Endpoint {
  return readEndpoint({
    name,
    operation: 'token.use',
    tag: 'Destinations',
    summary: `Send a ${method} request to a destination`,
    description:
      'Sends a request that the destination lists. Where it allows placeholders, the string `{{ token: ID }}` is replaced by the data of the token. Requires `token:use` for every token, by a rule that names the destination. The audit log has an entry before the request is sent, and a second one with the outcome. The response has the status of the destination, the listed parts of its JSON, and `SVC-DESTINATION`. A request is never repeated: errors after sending have `"sent": true`.',
    params: Params,
    isRaw: true,
    conventions,
    bodyLimit: maxBody,
    largerBody: sizeOfAny,
    replies: { 200: { description: 'The status and the listed parts of the reply of the destination.' } },
    failures: [
      ...(['not_found', 'quarantined', 'request_not_listed', 'placeholder_not_allowed'] as const),
      ...(['placeholder_unusable', 'destination_unreachable', 'destination_failed'] as const),
      ...([
        'destination_echoed_data',
        'destination_suspended',
        'destination_timeout',
        'use_stopped',
      ] as const),
    ],
    handle: useTokens,
  });
}

async function useTokens(call: Call, context: HandlerContext): Promise<Reply> {
  const { principal } = call;
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const use = await check(call, context);
    const { tenantId, applicationId } = principal;
    const { id, origin, ca, client_certificate: certificate, max_in_flight: maxInFlight } = use.destination;
    const timeout =
      use.listed.reply === streamed ? use.destination.timeout : Math.min(use.destination.timeout, maxTimeout);
    const { privateKey } = use.secrets;
    const version = versionOf(use.destination);
    const parties = { tenantId, id, applicationId, maxInFlight };
    const target = { ...parties, version, origin, ca, certificate, privateKey };
    const began = performance.now();
    const observe = (outcome: string) =>
      context.observer.used(id, outcome, (performance.now() - began) / 1000);
    const ids = use.tokens.map((token) => token.id);
    const uses = ids.map((token) => ({ limit: 'uses', client: `${tenantId} ${token}` }) as const);
    const giveBack = context.limits.take(call.requestInfo, ...uses); // 429
    const lease = await context.outbound.open(target, timeout * 1000).catch((error: Failure) => {
      giveBack();
      observe(error.code);
      throw withReason(error, principal); // 502, 503
    });
    let entry: NewEntry | undefined;
    const watched = new Watched(principal, id, use.tokens);
    try {
      if (watched.hasEchoed) throw stopped();
      const entity = use.tokens.find(hasMaxUses)?.id ?? Symbol('use');
      entry = await context.store.change(tenantId, (tx) => commit(call, use, lease, tx), entity);
    } finally {
      if (!entry) {
        watched.end();
        lease.release();
        giveBack();
      }
    }
    if (!entry) continue;
    for (const token of use.tokens) context.usage.record(principal, 'token:use', token.container);
    return sendUse({ call, use, entry, lease, watched, observe, context });
  }
  throw changing();
}

/** Adds what the log says about a failed connection, if the caller may read the destination. */
function withReason(error: Failure, principal: Principal): Failure {
  const { code, cause, detail } = error;
  if (code !== 'destination_unreachable' || !holds(principal, 'destination:read')) return error;
  return fail(code, { expected: true, cause, detail: `${detail} The reason: ${(cause as Error).message}` });
}

function changing() {
  return fail('unavailable', {
    detail: 'A token or the destination is being changed. The request was not sent.',
  });
}

const hasMaxUses = ({ token }: StoredToken) => token.max_uses !== undefined;

async function check(call: Call, context: HandlerContext): Promise<Use> {
  const { principal } = call;
  const request = call.request as RoutedRequest;
  const { name, path, search } = targetOf(request);
  const found = await context.store.destinations.named(principal.tenantId, name);
  // A request without tokens also uses the secrets of the destination, so it needs a rule, too.
  const destination = orNotFound(found && usableDestinations(principal).has(found.id) && found);
  const listed = listedFor(destination, request.method, path);
  const body = call.body as ReceivedBody | undefined;
  const received = callerRequest(listed, request, body, path, search);
  const preparing = prepareRequest(listed, received);
  const { length = 0 } = body?.bytes ?? {};
  const isLong = length > largeBody && received.body?.type !== 'any';
  const prepared = isLong ? await context.longWork.run(principal, preparing) : runSteps(preparing);
  requireListedHeaders(destination, listed, received.headers);
  const size = length + path.length + search.length + sizeOf(received.headers);
  if (prepared.tokens.length > 0 && size > bodyLimit)
    throw fail('too_large', { detail: `A request with placeholders may have at most ${bodyLimit} bytes.` });
  const reserve = context.memory.reserverFor(call);
  const tokens = await Promise.all(
    prepared.tokens
      .toSorted()
      .map(async (id) => orNotFound(await context.store.tokens.get(principal.tenantId, id, reserve))),
  );
  for (const token of tokens) permitUse(principal, token, destination.id);
  const data = new Map<string, unknown>();
  for (const token of tokens) {
    // To decrypt and parse a token of 1 MiB takes several milliseconds.
    if (data.size > 0) await nextTurn();
    data.set(token.id, token.plaintext().value());
  }
  const filled = prepared.fill((token) => data.get(token));
  const secrets = destination.secrets();
  const hidden = hiddenTexts(secrets, filled);
  // Before anything is sent: the reply of a request that was sent must not be refused.
  reserve(replyBytes(listed));
  const filter = listed.reply === streamed ? await inTurns(echoFilter(hidden, reserve)) : undefined;
  return { destination, secrets, listed, tokens, filled, hidden, filter };
}

function hiddenTexts({ headers }: Use['secrets'], { inserted }: FilledRequest): string[] {
  const added = Object.values(headers).flatMap((value) => {
    // Without a scheme such as `Bearer`: the reply may have the secret alone.
    const parts = value.reveal().split(' ');
    const long = parts.filter(({ length }) => length >= minEcho);
    return long.length > 0 ? long : [value.reveal()];
  });
  return [...[...inserted.values()].flat(), ...added];
}

function permitUse(principal: Principal, { id, container, token }: StoredToken, destination: string): void {
  permit(principal, 'token:use', { id, container, token, destination });
}

/**
 * Checks the credential, the grants, the destination and the tokens again, and writes and returns the audit entry: it
 * names the rule that decides now. Returns undefined if the request must be checked from the start, because the
 * destination or a token has changed since.
 */
async function commit(
  call: Call,
  use: Use,
  lease: Lease,
  tx: StoreTransaction,
): Promise<NewEntry | undefined> {
  const { requestInfo } = call;
  const { tenantId } = call.principal;
  const principal = await (call as Required<Pick<Call, 'admit'>>).admit(tx.credentials);
  const destination = await tx.destinations.get(tenantId, use.destination.id);
  if (!destination || versionOf(destination) !== versionOf(use.destination)) return undefined;
  if (!usableDestinations(principal).has(destination.id)) throw fail('not_found');
  for (const token of use.tokens) {
    if ((await tx.tokens.version(tenantId, token.id)) !== tokenVersion(token)) return undefined;
    permitUse(principal, token, destination.id);
  }
  const ids = use.tokens.map(({ id }) => id);
  const mayBeStopped = destination.hasStops && ids.length > 0;
  if (
    mayBeStopped &&
    (await tx.destinations.isStopped(tenantId, destination.id, principal.applicationId, ids))
  )
    throw stopped();
  // Before a use is spent: it could not be sent.
  if (!lease.isOpen()) return undefined;
  // After all checks that start over, because those commit, too.
  if (isLimited(principal)) await spendUse(principal, tx);
  const deleted: StoredToken[] = [];
  for (const token of use.tokens.filter(hasMaxUses))
    if ((await spendTokenUse(tenantId, token, tx)) === 0) deleted.push(token);
  const by = { caller: principal, client: requestInfo };
  const entry = entryOf({ kind: 'use', ...by, destination, request: use.listed, tokens: use.tokens });
  tx.record(entry);
  for (const token of deleted) {
    const deletion = { operation: 'token.delete', entity: { kind: 'token', id: token.id }, resource: token };
    tx.record(entryOf({ kind: 'change', ...by, ...deletion }));
  }
  return entry;
}

/** Returns the number of uses that are left. Throws `not_found` if none was left. */
async function spendTokenUse(tenant: string, token: StoredToken, tx: StoreTransaction): Promise<number> {
  const left = await tx.tokens.spendUse(tenant, token.id, (current) => {
    if (tokenVersion(current) !== tokenVersion(token)) throw changing();
  });
  return orNotFound(left);
}

/** The name of the destination and the path. Bun resolves dot segments before, so what is matched is what is sent. */
function targetOf({ url, params }: RoutedRequest) {
  const [, name, path = '', search = ''] =
    /^https?:\/\/[^/]+\/proxy\/([a-z0-9-]{1,50})(\/[^?#]*)(\?[^#]*)?$/.exec(url) ?? [];
  if (name === undefined || name !== params?.name || !isPlainPath(path))
    throw unlisted('a path with escapes, semicolons or empty segments');
  return { name, path, search };
}

/** The first request of the list that matches. Throws `request_not_listed`. */
function listedFor({ requests }: Destination, method: string, path: string): DestinationRequest {
  const matching = requests.filter((one) => matchesPath(one.path, path));
  const listed = matching.find((one) => one.method === method);
  if (listed) return listed as DestinationRequest;
  const methods = [...new Set(matching.map((one) => one.method))].join(', ');
  throw unlisted(
    methods ? `the method ${method} for this path, only ${methods}` : `the path ${cut(path, 200)}`,
  );
}

function callerRequest(
  listed: DestinationRequest,
  { headers }: Request,
  received: ReceivedBody | undefined,
  path: string,
  search: string,
): CallerRequest {
  if (received?.failure) throw received.failure;
  if (!received && Number(headers.get('content-length') ?? 0) > 0)
    throw fail('validation_failed', { errors: { body: ['cannot be sent with GET or DELETE'] } });
  const query = new URLSearchParams(search);
  const given = new Map([...headers].map(([name, value]) => [name.toLowerCase(), value]));
  // It has the key of the caller.
  if (!given.has('svc-api-key')) given.delete('authorization');
  const passed = { path, query, headers: given };
  if (!received || received.bytes.length === 0) return { ...passed, body: undefined };
  if (listed.body === 'any') return { ...passed, body: { type: 'any', bytes: received.bytes } };
  const contentType = headers.get('content-type');
  const isJson = isContentType(jsonTypes, contentType);
  if (!isJson && !isContentType([formType], contentType))
    throw fail('unsupported_media_type', {
      detail: 'Send the body as `application/json` or `application/x-www-form-urlencoded`.',
    });
  return { ...passed, body: { type: isJson ? 'json' : 'form', text: readText(received.bytes) } };
}

/** The bytes that the body may have, if it is passed on unchanged. */
async function sizeOfAny(
  principal: Principal,
  request: RoutedRequest,
  { store }: HandlerContext,
): Promise<number | undefined> {
  const { name, path } = targetOf(request);
  const destination = await store.destinations.named(principal.tenantId, name);
  if (!destination || !usableDestinations(principal).has(destination.id)) return undefined;
  return listedFor(destination, request.method, path).body === 'any' ? maxAnyBody : undefined;
}

/** Headers about the connection and the client, which proxies and libraries add to every request. They are dropped. */
const droppedHeader =
  /^(accept.*|user-agent|content-length|content-type|host|connection|keep-alive|te|transfer-encoding|expect|priority|origin|referer|sec-.*|traceparent|tracestate|baggage|forwarded|via|x-forwarded-.*|x-real-ip|svc-.*|dpop|idempotency-key)$/;

/** Throws `request_not_listed` for a header that would be dropped without the caller's knowledge. */
function requireListedHeaders(
  { header_names, ignored_headers }: Destination,
  { headers: listed, placeholders, body }: DestinationRequest,
  headers: CallerRequest['headers'],
): void {
  const isIgnored = (name: string) =>
    ignored_headers.some((each) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : name === each));
  for (const name of headers.keys()) {
    if (droppedHeader.test(name) || listed.includes(name) || header_names.includes(name)) continue;
    if (placeholders.some(({ at }) => at === headerPrefix + name)) continue;
    if (body === 'any' && name === 'content-encoding') continue;
    if (!isIgnored(name)) throw unlisted(`the header ${cut(name, 200)} for this request`);
  }
}

function sizeOf(headers: CallerRequest['headers']): number {
  let size = 0;
  for (const [name, value] of headers) size += name.length + value.length;
  return size;
}
