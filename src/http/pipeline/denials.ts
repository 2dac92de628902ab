/** The events of requests that were refused or are in quarantine, for the audit log. */
import { type EntryDecision, type EntryResource, resourceOf } from '../../domain/audit.ts';
import { containsNoSecret } from '../../domain/common-fields.ts';
import { Denial } from '../../domain/denial.ts';
import { Failure, problem } from '../../domain/error.ts';
import { hasTrait } from '../../domain/permission.ts';
import type { Principal } from '../../domain/principal.ts';
import { Container } from '../../domain/rule.ts';
import { defaultContainer, isObject, maxBatch } from '../../domain/token.ts';
import { signInEntries } from '../../domain/trusted-issuer.ts';
import type { Store, TokenLocation } from '../../store/store.ts';
import { bodyLimit, jsonTypes, type ReceivedBody, type RoutedRequest, readJson } from './read-input.ts';
import type { RequestInfo } from './request-info.ts';
import { type HandlerContext, type KeyedRoute, operationOf, type Reply } from './route.ts';

interface RefusedRequest {
  readonly route: KeyedRoute;
  readonly request: RoutedRequest;
  /** Undefined if the key was not valid. */
  readonly principal: Principal | undefined;
  readonly error: unknown;
  readonly receiving: Promise<ReceivedBody> | undefined;
  readonly requestInfo: RequestInfo;
}

/**
 * Records a request that was denied (403) or had no valid key (401), and in quarantine one for a resource that does not
 * exist (404). Ignores other errors, and failures marked as `expected`. Never rejects.
 */
export async function recordRefusal(
  { trail, store }: Pick<HandlerContext, 'trail' | 'store'>,
  refused: RefusedRequest,
): Promise<void> {
  const { route, request, principal: caller, error, requestInfo: client } = refused;
  if (!(error instanceof Failure)) return;
  const { code: reason } = error;
  const { status } = problem(reason);
  const operation = operationOf(route);
  if (status === 404 && caller?.policy.quarantined) {
    const result = 'failed';
    trail.record([{ kind: 'quarantined', caller, client, operation, result, reason, ids: pathIds(request) }]);
  }
  if (error.expected || (status !== 401 && status !== 403)) return;
  if (!caller) {
    trail.record([{ kind: 'unauthenticated', client, operation, reason }]);
    return;
  }
  const denial = error instanceof Denial ? error : undefined;
  const decision = denial?.decision ?? { reason: error.detail };
  const { resource, isStored, createdBy } = denial?.resource
    ? denial
    : ((await namedResource(refused, caller, store)) ?? {});
  const explained = denial?.resource ? decision : withContainer(decision, resource);
  const event = { caller, client, operation, reason, decision: explained, resource, isStored, createdBy };
  trail.record([{ kind: 'denial', ...event }]);
}

/** Adds the container of the request to the missing grant, because a grant on that container would be enough. */
function withContainer(decision: EntryDecision, resource: EntryResource | undefined): EntryDecision {
  const { missing } = decision;
  const container = resource?.container;
  if (!missing || container === undefined || !hasTrait(missing.permission, 'scoped')) return decision;
  return { ...decision, missing: { container, ...missing } };
}

/**
 * Counts a request with a stored key of an application to which people sign in by name, while they may not sign in with
 * keys. Such keys are for emergencies.
 */
export function countBreakGlass(
  caller: Principal,
  client: RequestInfo,
  { trail, observer }: Pick<HandlerContext, 'trail' | 'observer'>,
): void {
  if (caller.kind !== 'application' || caller.issuer !== undefined) return;
  if (signInEntries([caller.application]).length === 0) return;
  observer.brokeGlass();
  trail.record([{ kind: 'breakGlass', caller, client }]);
}

/** Counts a successful request in quarantine, unless its reply is recorded as a disclosure. */
export function countQuarantined(
  { trail }: Pick<HandlerContext, 'trail'>,
  route: KeyedRoute,
  request: RoutedRequest,
  caller: Principal,
  client: RequestInfo,
  { disclosures = [] }: Reply,
): void {
  // Disclosures are recorded except for HEAD, whose response has no body.
  if (disclosures.length > 0 && client.method !== 'HEAD') return;
  const operation = operationOf(route);
  trail.record([
    { kind: 'quarantined', caller, client, operation, result: 'success', ids: pathIds(request) },
  ]);
}

interface NamedResource {
  readonly resource: EntryResource;
  /** Whether the tokens exist. Otherwise the caller may have made up the ids and the container. */
  readonly isStored: boolean;
  /** The application of the caller, if it created all of the tokens. */
  readonly createdBy?: string | undefined;
}

/** Maximum ids to look up. A URL has room for fewer UUIDs. */
const maxIds = 5000;
const batchSize = 500;

/**
 * Looks up the container of the tokens that the request names. If none of them exists, returns the ids and container in
 * the request, or undefined if it has neither.
 */
async function namedResource(
  named: RefusedRequest,
  { tenantId, applicationId }: Principal,
  { tokens }: Pick<Store, 'tokens'>,
): Promise<NamedResource | undefined> {
  const { permission } = named.route;
  const isToken = permission !== undefined && hasTrait(permission, 'scoped');
  const { ids, container } = await namesIn(named, isToken);
  const located = isToken && ids.length > 0 ? await locate(tokens, tenantId, ids) : [];
  if (located.length > 0) {
    // Tokens that the caller created are only counted, so that they do not displace the ids of other tokens.
    const others = located.filter(({ created_by }) => created_by !== applicationId);
    const [found, createdBy] = others.length > 0 ? [others, undefined] : [located, applicationId];
    const omitted = ids.length - found.length;
    const resource = { ...resourceOf(found), ...(omitted > 0 && { omitted }) };
    return { resource, isStored: true, createdBy };
  }
  const resource = resourceOf([...ids.map((id) => ({ id })), { container }]);
  return ids.length > 0 || container !== undefined ? { resource, isStored: false } : undefined;
}

/** Never rejects. If a query fails, returns the tokens found before it. */
async function locate(
  tokens: Store['tokens'],
  tenant: string,
  ids: readonly string[],
): Promise<TokenLocation[]> {
  const located: TokenLocation[] = [];
  try {
    for (let at = 0; at < ids.length; at += batchSize)
      located.push(...(await tokens.locate(tenant, ids.slice(at, at + batchSize))));
  } catch {}
  return located;
}

interface Names {
  readonly ids: readonly string[];
  readonly container?: string | undefined;
}

async function namesIn({ route, request, receiving }: RefusedRequest, isToken: boolean): Promise<Names> {
  if (request.params?.id !== undefined || !isToken) return { ids: pathIds(request) };
  const fallback = route.permission === 'token:create' ? defaultContainer : undefined;
  if (receiving) return namesInBody(await receiving, request.headers, fallback);
  const { searchParams } = new URL(request.url, 'http://localhost');
  const ids = searchParams.getAll('id').flatMap((text) => text.split(','));
  return { ids: validIds(ids), container: validContainer(searchParams.get('container')) };
}

/** The id in the path, if there is one and it is valid. */
function pathIds({ params }: RoutedRequest): string[] {
  return validIds([params?.id]);
}

/** Does not parse bodies above `bodyLimit`, so that denied requests cost little. */
function namesInBody(received: ReceivedBody, headers: Headers, fallback: string | undefined): Names {
  if (received.bytes.length > bodyLimit) return { ids: [] };
  try {
    const { value } = readJson(received, headers, jsonTypes);
    const items = isObject(value) && Array.isArray(value.tokens) ? value.tokens : [value];
    const named = items.slice(0, maxBatch).map((item) => {
      const { id, container, containers } = isObject(item) ? item : {};
      const [synonym] = Array.isArray(containers) ? containers : [];
      return { id, container: validContainer(container ?? synonym ?? fallback) };
    });
    const containers = named.map(({ container }) => ({ container }));
    return { ...resourceOf(containers), ids: validIds(named.map(({ id }) => id)) };
  } catch {
    return { ids: [] };
  }
}

function validIds(ids: readonly unknown[]): string[] {
  return [...new Set(ids.slice(0, maxIds).filter(isValidId))];
}

function isValidId(id: unknown): id is string {
  return typeof id === 'string' && /^[A-Za-z0-9._:-]{1,200}$/.test(id) && containsNoSecret(id);
}

function validContainer(container: unknown): string | undefined {
  return Container.safeParse(container).data;
}
