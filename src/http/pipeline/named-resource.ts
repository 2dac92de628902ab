/** The resource of a request that was denied before its input was validated, for the audit log. */
import { type EntryResource, resourceOf } from '../../domain/audit.ts';
import { containsNoSecret } from '../../domain/common-fields.ts';
import { hasTrait } from '../../domain/permission.ts';
import type { Principal } from '../../domain/principal.ts';
import { Container } from '../../domain/rule.ts';
import { defaultContainer, isObject } from '../../domain/token.ts';
import type { Store, TokenLocation } from '../../store/store.ts';
import { bodyLimit, jsonTypes, type ReceivedBody, type RoutedRequest, readJson } from './read-input.ts';
import type { KeyedRoute } from './route.ts';

export interface NamedRequest {
  readonly route: KeyedRoute;
  readonly request: RoutedRequest;
  readonly receiving: Promise<ReceivedBody> | undefined;
}

export interface NamedResource {
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
export async function namedResource(
  named: NamedRequest,
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

async function namesIn({ route, request, receiving }: NamedRequest, isToken: boolean): Promise<Names> {
  if (request.params?.id !== undefined || !isToken) return { ids: pathIds(request) };
  const fallback = route.permission === 'token:create' ? defaultContainer : undefined;
  if (receiving) return namesInBody(await receiving, request.headers, fallback);
  const { searchParams } = new URL(request.url, 'http://localhost');
  const ids = searchParams.getAll('id').flatMap((text) => text.split(','));
  return { ids: validIds(ids), container: validContainer(searchParams.get('container')) };
}

/** The id in the path, if there is one and it is valid. */
export function pathIds({ params }: RoutedRequest): string[] {
  return validIds([params?.id]);
}

/** Does not parse bodies above `bodyLimit`, so that denied requests cost little. */
function namesInBody(received: ReceivedBody, headers: Headers, fallback: string | undefined): Names {
  if (received.bytes.length > bodyLimit) return { ids: [] };
  try {
    const { value } = readJson(received, headers, jsonTypes);
    const { id, container, containers } = isObject(value) ? value : {};
    const [synonym] = Array.isArray(containers) ? containers : [];
    return { ids: validIds([id]), container: validContainer(container ?? synonym ?? fallback) };
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
