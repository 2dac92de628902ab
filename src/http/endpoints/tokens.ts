import { z } from 'zod';
import { type Failure, fail, orNotFound } from '../../domain/error.ts';
import { type DecidingRule, decidingRule } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { newId } from '../../domain/key.ts';
import { decideUnder, type Resource } from '../../domain/policy.ts';
import { changeBy, type Principal, permit, permitNamed, questionOf } from '../../domain/principal.ts';
import { tokenVersion } from '../../domain/row-version.ts';
import { Container, canonicalContainer, stricter, type Transform } from '../../domain/rule.ts';
import {
  MetadataFilter,
  maxTokenBytes,
  storedSize,
  TokenCreate,
  TokenId,
  TokenPatch,
  TokenType,
  Token as TokenView,
} from '../../domain/token.ts';
import { visible, within } from '../../domain/visible-scopes.ts';
import type {
  ListedToken,
  LockedToken,
  StoredToken,
  StoreTransaction,
  TokenRecord,
} from '../../store/store.ts';
import { disclosureOf } from '../pipeline/disclosures.ts';
import { etag } from '../pipeline/etag.ts';
import { listQuery, oneOrMore, pageOf, paginate } from '../pipeline/pagination.ts';
import { changeEndpoint, type Disclosure, type Reply, readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { contentOf, type PatchedContent, patchedContent } from './token-content.ts';

const tag = 'Tokens';
const params = z.object({
  id: TokenId.meta({ description: 'The id of the token.', examples: [example.token.id] }),
});
const tokenReplyDocs = reply('The token. `data` depends on your transform.', TokenView, example.token);

export const createToken = changeEndpoint({
  name: 'createToken',
  tag,
  summary: 'Create a token',
  description:
    'Stores data encrypted. The masked value is computed when the token is written; a mask that cannot be rendered is rejected.',
  body: TokenCreate,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenCreate,
  replies: { 201: tokenReplyDocs },
  failures: ['token_exists', 'idempotency_outdated'],
  sendsEtag: true,
  checkLimits: async ({ principal, requestInfo, bodyBytes }, { limits, storage }) => {
    limits.checkTokens(principal.applicationId, bodyBytes, requestInfo);
    return storage.reserve(principal.tenantId, principal.applicationId, storedSize(bodyBytes));
  },
  replay: replay(201, 'token:create'),
  handle: async ({ principal, body }, { store, usage }) => {
    const id = body.id ?? newId(principal.now);
    const content = contentOf(body, principal.now);
    const { container } = content;
    // A denial is logged without a generated id, which the caller does not know.
    const logged = { id: body.id, container, isStored: false };
    const transform = permitNamed(principal, 'token:create', { id, container }, logged);
    usage.record(principal, 'token:create', container);
    const token = await store.tokens.create(principal.tenantId, id, content, changeBy(principal));
    if (!token) throw fail('token_exists');
    const data = transform === 'reveal' ? content.data : transform === 'mask' ? content.masked : undefined;
    const rule = decidingRule(questionOf(principal), 'token:create', token);
    return { ...tokenReply(201, token, transform, rule, data), entity: { kind: 'token', id } };
  },
});

const ListQuery = listQuery({
  id: oneOrMore(TokenId, { type: 'string' }),
  type: TokenType.optional().describe('Filter by type.'),
  container: Container.optional().describe('Filter by container. Includes the containers below it.'),
  metadata: MetadataFilter.optional().meta({
    description: 'Filter by metadata, as `metadata[NAME]=VALUE`, at most 10 times.',
    examples: [{ customer: '42' }],
  }),
});

export const listTokens = readEndpoint({
  name: 'listTokens',
  tag,
  summary: 'List tokens',
  description:
    'Returns the tokens that your key can read, newest first. `data` depends on the transform for each token. A request examines a limited number of tokens, and a page has at most 8 MiB. A page can therefore be short or empty and still have `next`. Totals are absent if there are too many tokens to count.',
  query: ListQuery,
  replies: { 200: reply('A page of tokens.', pageOf(TokenView), example.tokenPage) },
  handle: async ({ principal, query }, { store, usage }) => {
    const container = canonicalContainer(query.container ?? '/');
    const readable = within(visible(principal, 'token:read'), container);
    for (const scope of readable.scopes) usage.record(principal, 'token:read', scope.container?.value);
    const transformFor = (token: Resource) => {
      if (!canonicalContainer(token.container ?? '/').startsWith(container)) return undefined;
      const decision = decideUnder(principal.policy, principal.ceiling, 'token:read', token);
      return decision.allowed ? decision.transform : undefined;
    };
    const filter = { ids: query.id, type: query.type, metadata: query.metadata };
    const { pagination, data: rows } = await paginate(query, (window) =>
      store.tokens.list(principal.tenantId, { visible: readable, transformFor, filter, ...window }),
    );
    const views = rows.map(({ token, data }) => viewOf(token, data));
    const body = JsonText.extended({ pagination }, 'data', JsonText.list(views));
    return { status: 200, body, disclosures: disclosuresOf(principal, rows) };
  },
});

export const getToken = readEndpoint({
  name: 'getToken',
  tag,
  summary: 'Get a token',
  params,
  replies: { 200: tokenReplyDocs },
  failures: ['not_found'],
  sendsEtag: true,
  handle: async ({ principal, params }, { store, usage }) => {
    const token = orNotFound(await store.tokens.get(principal.tenantId, params.id));
    const transform = permit(principal, 'token:read', token);
    usage.record(principal, 'token:read', token.container);
    const rule =
      transform === 'reveal' ? decidingRule(questionOf(principal), 'token:read', token) : undefined;
    const disclosures = [{ tokens: [token], transform, rule }];
    const headers = etag(tokenVersion(token));
    return { status: 200, body: transformed(token, transform), headers, disclosures };
  },
});

export const updateToken = changeEndpoint({
  name: 'updateToken',
  tag,
  summary: 'Update a token',
  description:
    'Applies a JSON merge patch. To move a token, your key needs `token:update` on both containers. The transform `reveal` is required to change the mask or a part of `data`, unless the patch replaces `data` completely. `reveal` is also required if a session or a public key moves a token, and to move it to a container where your key sees more of the data.',
  params,
  body: TokenPatch,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenPatch,
  replies: { 200: tokenReplyDocs },
  failures: ['not_found', 'reveal_required', 'idempotency_outdated'],
  sendsEtag: true,
  takesIfMatch: true,
  replay: replay(200, 'token:update'),
  checkLimits: async ({ principal, requestInfo, bodyBytes }, { limits }) => {
    limits.checkTokens(principal.applicationId, bodyBytes, requestInfo);
    return undefined;
  },
  handle: async ({ principal, params, body, requireMatch }, { store, usage, storageQuota }) => {
    let next: PatchedContent | undefined;
    const revise = async (current: LockedToken) => {
      next = await patchedContent(principal, current, body, requireMatch);
      for (const { container } of [current, next.content]) usage.record(principal, 'token:update', container);
      return next.content;
    };
    const change = changeBy(principal);
    const token = orNotFound(
      await store.tokens.update(principal.tenantId, params.id, change, revise, storageQuota),
    );
    const { transform, rule, visibleData, difference } = orNotFound(next);
    const entity = { kind: 'token', id: params.id } as const;
    return { ...tokenReply(200, token, transform, rule, visibleData), entity, difference };
  },
});

export const deleteToken = changeEndpoint({
  name: 'deleteToken',
  tag,
  summary: 'Delete a token',
  params,
  replies: { 204: { description: 'Deleted.' } },
  failures: ['not_found'],
  takesIfMatch: true,
  handle: async ({ principal, params, requireMatch }, { store, usage }) => {
    let container: string | undefined;
    const deleted = await store.tokens.delete(principal.tenantId, params.id, (current) => {
      permit(principal, 'token:delete', current);
      requireMatch(tokenVersion(current));
      ({ container } = current);
      usage.record(principal, 'token:delete', container);
    });
    orNotFound(deleted);
    const { id } = params;
    return { status: 204, entity: { kind: 'token', id }, resource: { id, container } };
  },
});

/** Groups the tokens of a list by transform. */
function disclosuresOf(principal: Principal, rows: readonly ListedToken[]): Disclosure[] {
  const question = questionOf(principal);
  return Array.from(
    Map.groupBy(rows, ({ transform }) => transform),
    ([transform, some]) => {
      const tokens = some.map(({ token }) => token);
      if (transform !== 'reveal') return { tokens, transform };
      return disclosureOf(question, 'token:read', tokens, transform);
    },
  );
}

/** Decrypts the plaintext only for `reveal`. */
function transformed(stored: StoredToken, transform: Transform): JsonText {
  const data =
    transform === 'reveal' ? stored.plaintext() : transform === 'mask' ? stored.masked() : undefined;
  return viewOf(stored.token, data);
}

function viewOf(token: StoredToken['token'], data: JsonText | undefined): JsonText {
  return data ? JsonText.extended(token, 'data', data) : JsonText.of(token);
}

/** The idempotency record. It has nothing of the token's content, which a replay reads again. */
interface TokenReplyRecord {
  readonly id: string;
  readonly version: string;
  readonly transform: Transform;
}

function tokenReply(
  status: number,
  record: TokenRecord,
  transform: Transform,
  rule: DecidingRule | undefined,
  data: JsonText | undefined,
) {
  const { id, token } = record;
  const version = tokenVersion(record);
  const idempotencyRecord: TokenReplyRecord = { id, version, transform };
  const disclosures = [{ tokens: [token], transform, rule }];
  return { status, body: viewOf(token, data), headers: etag(version), idempotencyRecord, disclosures };
}

/**
 * Builds the reply to a retry from the token as it is now, with the caller's current access, but never more than the
 * first reply showed. Throws `idempotency_outdated` if the token was changed or deleted since.
 */
function replay(status: number, permission: 'token:create' | 'token:update') {
  return async (
    idempotencyRecord: unknown,
    { principal }: { principal: Principal },
    { store }: { store: Pick<StoreTransaction, 'tokens'> },
  ): Promise<Reply> => {
    const { id, version, transform: first } = idempotencyRecord as TokenReplyRecord;
    const stored = await store.tokens.get(principal.tenantId, id);
    if (!stored || tokenVersion(stored) !== version) throw outdated(id);
    const current = permit(principal, permission, stored);
    const transform = stricter(first, current);
    const rule = transform === current ? decidingRule(questionOf(principal), permission, stored) : undefined;
    const disclosures = [{ tokens: [stored], transform, rule }];
    return { status, body: transformed(stored, transform), headers: etag(version), disclosures };
  };
}

/** Names the token, because the caller may not know a generated id. Does not say whether it still exists. */
function outdated(id: string): Failure {
  return fail('idempotency_outdated', {
    detail: `The first request with this \`Idempotency-Key\` was carried out. The token ${id} was changed again or deleted since, so the response cannot be repeated. Read the token instead.`,
  });
}
