/** What the endpoints of tokens share: limits, replies, and replies to retries. */
import { type Failure, fail } from '../../domain/error.ts';
import { type DecidingRule, ruleOf } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { type Principal, permit } from '../../domain/principal.ts';
import { tokenVersion } from '../../domain/row-version.ts';
import { stricter, type Transform } from '../../domain/rule.ts';
import { Token as TokenView } from '../../domain/token.ts';
import type { StoredToken, StoreTransaction, TokenRecord, TokenRevision } from '../../store/store.ts';
import { etag } from '../pipeline/etag.ts';
import type { Limits, Searcher } from '../pipeline/limits.ts';
import type { RequestInfo } from '../pipeline/request-info.ts';
import { type Call, type HandlerContext, type Reply, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

export const tag = 'Tokens';
export const tokenReplyDocs = reply('The token. `data` depends on your transform.', TokenView, example.token);

/** A token that is written with eight further index rows takes about as long as two tokens. */
export function furtherTokens({ container, search = {}, metadata = {} }: TokenRevision): number {
  const levels = container.split('/').length;
  return Math.floor((levels + Object.keys(search).length + Object.keys(metadata).length) / 8);
}

/** Guesses count for the application whose access they use, so that more public keys do not allow more of them. */
export function takeTokens(
  limits: Limits,
  { applicationId: client }: Principal,
  bytes: number,
  requestInfo: RequestInfo,
): void {
  limits.take(requestInfo, { limit: 'tokens', client }, { limit: 'token-bytes', client, units: bytes });
}

export function searcherOf(principal: Principal): Searcher {
  const { kind, applicationId } = principal;
  if (kind === 'application') return { applicationId, group: undefined };
  const { authorizedBy = applicationId } = principal;
  return { applicationId: authorizedBy, group: `${authorizedBy} ${applicationId}` };
}

export function transformed(stored: StoredToken, transform: Transform): JsonText {
  return viewOf(stored.token, visibleData(stored, transform));
}

/** Decrypts the plaintext only for `reveal`. */
export function visibleData(stored: StoredToken, transform: Transform): JsonText | undefined {
  return transform === 'reveal' ? stored.plaintext() : transform === 'mask' ? stored.masked() : undefined;
}

export function viewOf(token: StoredToken['token'], data: JsonText | undefined): JsonText {
  return data ? JsonText.extended(token, 'data', data) : JsonText.of(token);
}

/** The idempotency record. It does not contain the token's content, which a replay reads again. */
export interface TokenReplyRecord {
  readonly id: string;
  readonly version: string;
  readonly transform: Transform;
  /** Of the first reply. A token that `unless_exists` found has another status than a new one. */
  readonly status: number;
}

export function tokenReply(
  status: number,
  record: TokenRecord,
  transform: Transform,
  rule: DecidingRule | undefined,
  data: JsonText | undefined,
) {
  const { id, token } = record;
  const version = tokenVersion(record);
  const idempotencyRecord: TokenReplyRecord = { id, version, transform, status };
  const disclosures = [{ tokens: [token], transform, rule }];
  return { status, body: viewOf(token, data), headers: etag(version), idempotencyRecord, disclosures };
}

/**
 * Builds the reply to a retry from the current token, with the caller's current access, but never more than the
 * first reply showed. Throws `idempotency_outdated` if the token was changed or deleted since.
 */
export function replay(own: number, permission: 'token:create' | 'token:update') {
  return async (
    idempotencyRecord: unknown,
    call: Call,
    { store, memory }: Pick<HandlerContext<StoreTransaction>, 'store' | 'memory'>,
  ): Promise<Reply> => {
    const { id, version, transform: first, status } = idempotencyRecord as TokenReplyRecord;
    const { principal } = call;
    const stored = await store.tokens.get(principal.tenantId, id, memory.reserverFor(call));
    if (!stored || tokenVersion(stored) !== version) throw outdated(id);
    const needed = status === own ? permission : 'token:read';
    const current = permit(principal, needed, stored);
    const transform = stricter(first, current.transform);
    const disclosures = [{ tokens: [stored], transform, rule: ruleOf(principal.kind, current) }];
    return { status, body: transformed(stored, transform), headers: etag(version), disclosures };
  };
}

/** Names the token, because the caller may not know a generated id. Does not say whether it still exists. */
function outdated(id: string): Failure {
  return fail('idempotency_outdated', {
    detail: `The first request with this \`Idempotency-Key\` was carried out. The token ${id} was changed again or deleted since, so the response cannot be repeated. Read the token instead.`,
  });
}
