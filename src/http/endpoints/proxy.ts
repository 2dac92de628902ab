/** Sends a request to a destination and inserts the data of tokens on the way. The caller never sees the data. */
import { z } from 'zod';
import { entryOf } from '../../audit/trail.ts';
import { type DestinationRequest, isPlainPath, matchesPath } from '../../domain/destination.ts';
import { echoes } from '../../domain/echoes.ts';
import { Failure, fail, orNotFound } from '../../domain/error.ts';
import { jsonLimitError } from '../../domain/json-limits.ts';
import {
  type CallerRequest,
  type FilledRequest,
  prepareRequest,
  selectParts,
} from '../../domain/placeholders.ts';
import { holds, type Principal, permit, usableDestinations } from '../../domain/principal.ts';
import { tokenVersion, versionOf } from '../../domain/row-version.ts';
import { inTurns, nextTurn, runSteps, type Steps } from '../../domain/steps.ts';
import type { Lease } from '../../outbound/destinations.ts';
import type { OutboundReply } from '../../outbound/http-connection.ts';
import type { NewEntry, StoredDestination, StoredToken, StoreTransaction } from '../../store/store.ts';
import { isLimited, spendUse } from '../admit.ts';
import { defaultKeyChallenge } from '../pipeline/problem.ts';
import {
  bodyLimit,
  isContentType,
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

const maxBody = 1_048_576;
/** Bytes of memory per byte of a reply: what arrived, its text, its value, and the response. */
const replyCost = 4;
const maxInFlight = 50;
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
    replies: { 200: { description: 'The status and the listed parts of the reply of the destination.' } },
    failures: [
      ...(['not_found', 'quarantined', 'request_not_listed', 'placeholder_not_allowed'] as const),
      ...(['placeholder_unusable', 'destination_unreachable', 'destination_failed'] as const),
      ...(['destination_echoed_data', 'destination_suspended', 'destination_timeout'] as const),
    ],
    handle: useTokens,
  });
}

async function useTokens(call: Call, context: HandlerContext): Promise<Reply> {
  const { principal } = call;
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const use = await check(call, context);
    const { tenantId, applicationId } = principal;
    const { id, origin, ca, client_certificate: certificate, timeout } = use.destination;
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
    try {
      const entity = use.tokens.find(hasMaxUses)?.id ?? Symbol('use');
      entry = await context.store.change(tenantId, (tx) => commit(call, use, lease, tx), entity);
    } finally {
      if (!entry) {
        lease.release();
        giveBack();
      }
    }
    if (!entry) continue;
    for (const token of use.tokens) context.usage.record(principal, 'token:use', token.container);
    return send(call, use, entry, lease, observe, context);
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

/** A request that was checked and can be sent. */
interface Use {
  readonly destination: StoredDestination;
  readonly secrets: ReturnType<StoredDestination['secrets']>;
  readonly listed: DestinationRequest;
  /** In the order of their ids, so that all transactions lock them in the same order. */
  readonly tokens: readonly StoredToken[];
  readonly filled: FilledRequest;
}

async function check(call: Call, context: HandlerContext): Promise<Use> {
  const { principal } = call;
  const request = call.request as RoutedRequest;
  const { name, path, search } = targetOf(request);
  const found = await context.store.destinations.named(principal.tenantId, name);
  // A request without tokens also uses the secrets of the destination, so it needs a rule, too.
  const destination = orNotFound(found && usableDestinations(principal).has(found.id) && found);
  const listed = destination.requests.find(
    (one) => one.method === request.method && matchesPath(one.path, path),
  ) as DestinationRequest | undefined;
  if (!listed) throw fail('request_not_listed');
  const body = call.body as ReceivedBody | undefined;
  const preparing = prepareRequest(listed, callerRequest(request, body, path, search));
  const { length = 0 } = body?.bytes ?? {};
  const prepared =
    length > largeBody ? await context.longWork.run(principal, preparing) : runSteps(preparing);
  if (prepared.tokens.length > 0 && length > bodyLimit)
    throw fail('too_large', { detail: `A body with placeholders may have at most ${bodyLimit} bytes.` });
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
  return { destination, secrets: destination.secrets(), listed, tokens, filled };
}

/** The name of the destination and the path. Bun resolves dot segments before, so what is matched is what is sent. */
function targetOf({ url, params }: RoutedRequest) {
  const [, name, path = '', search = ''] =
    /^https?:\/\/[^/]+\/proxy\/([a-z0-9-]{1,50})(\/[^?#]*)(\?[^#]*)?$/.exec(url) ?? [];
  if (name === undefined || name !== params?.name || !isPlainPath(path)) throw fail('request_not_listed');
  return { name, path, search };
}

function callerRequest(
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
  if (!received || received.bytes.length === 0) return { path, query, headers: given, body: undefined };
  const contentType = headers.get('content-type');
  const type = isContentType(['application/json'], contentType)
    ? 'json'
    : isContentType(['application/x-www-form-urlencoded'], contentType)
      ? 'form'
      : undefined;
  if (!type)
    throw fail('unsupported_media_type', {
      detail: 'Send the body as `application/json` or `application/x-www-form-urlencoded`.',
    });
  return { path, query, headers: given, body: { type, text: readText(received.bytes) } };
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

async function send(
  call: Call,
  use: Use,
  entry: NewEntry,
  lease: Lease,
  observe: (outcome: string) => void,
  context: HandlerContext,
): Promise<Reply> {
  const { destination, listed, filled, secrets } = use;
  const added = Object.entries(secrets.headers).map(([name, value]) => [name, value.reveal()] as const);
  const parts = listed.reply === 'stream' ? [] : listed.reply;
  const wantsBody = parts.some((part) => !part.startsWith('header:'));
  let status: number | undefined;
  let failure: Failure | undefined;
  try {
    const request = {
      method: listed.method,
      path: filled.path,
      headers: { ...outboundHeaders(call, use), ...filled.headers, ...Object.fromEntries(added) },
      body: filled.body,
    };
    const more = context.memory.reserverFor(call);
    const reserve = (bytes: number) => more(replyCost * bytes);
    const exchange = lease.exchange(request, wantsBody ? { bytes: maxBody, reserve } : undefined);
    const reply = await exchange.finally(lease.release);
    ({ status } = reply);
    // Without a scheme such as `Bearer`, too: the reply may have the secret alone.
    const hidden = added.flatMap(([, value]) => [value, ...value.split(' ')]);
    return await replyFrom(reply, parts, [...filled.inserted, ...hidden], destination.name);
  } catch (error) {
    const isTimeout = (error as { isTimeout?: boolean }).isTimeout === true;
    failure =
      error instanceof Failure
        ? error
        : fail(isTimeout ? 'destination_timeout' : 'destination_failed', {
            sent: true,
            expected: true,
            cause: error,
          });
    throw failure;
  } finally {
    observe(failure?.code ?? 'replied');
    await context.trail.record([{ kind: 'outcome', use: entry, status, reason: failure?.code }]);
  }
}

function outboundHeaders(
  { request, requestInfo }: Call,
  { destination, filled }: Use,
): Record<string, string> {
  const idempotencyKey = request?.headers.get('idempotency-key');
  const contentType = request?.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  return {
    host: destination.origin.slice('https://'.length),
    accept: 'application/json',
    'accept-encoding': 'identity',
    'user-agent': 'sallyport',
    'svc-request-id': requestInfo.requestId,
    ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    ...(filled.body !== undefined && contentType && { 'content-type': contentType }),
    ...(request?.method !== 'GET' && { 'content-length': String(Buffer.byteLength(filled.body ?? '')) }),
  };
}

/** The listed parts of the reply. Throws `destination_echoed_data` if they contain hidden texts. */
async function replyFrom(
  { status, headers, body }: OutboundReply,
  reply: readonly string[],
  hidden: readonly string[],
  destination: string,
): Promise<Reply> {
  const names = reply
    .filter((part) => part.startsWith('header:'))
    .map((part) => part.slice('header:'.length));
  const passed = names.flatMap((name) =>
    headers[name] === undefined ? [] : [[name, headers[name]] as const],
  );
  const parts = selectParts(
    await inTurns(jsonOf(body, headers)),
    reply.filter((part) => !part.startsWith('header:')),
  );
  const values = passed.map(([, value]) => value);
  if (await inTurns(echoes(hidden, parts, values)))
    throw fail('destination_echoed_data', { sent: true, expected: true });
  const own = { 'SVC-DESTINATION': destination };
  const isEmpty = parts === undefined || [204, 205, 304].includes(status);
  return { status, headers: { ...Object.fromEntries(passed), ...own }, ...(!isEmpty && { body: parts }) };
}

/** Names of fields count, too. To parse so many takes up to ten milliseconds. */
const maxReplyValues = 40_000;

/** Undefined if the body is not JSON. Throws if it is compressed, because the request accepted no encoding. */
function* jsonOf(body: Buffer | undefined, headers: OutboundReply['headers']): Steps<unknown> {
  if (!body || body.length === 0) return undefined;
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('the reply is compressed');
  if (!/^application\/([\w.+-]+\+)?json\b/i.test(headers['content-type'] ?? '')) return undefined;
  const text = body.toString();
  const problem = jsonLimitError(text, maxReplyValues);
  if (problem !== undefined) throw new Error(`the reply ${problem}`);
  yield;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('the reply is not valid JSON');
  }
  yield;
  return value;
}
