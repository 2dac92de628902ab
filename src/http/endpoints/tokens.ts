import { z } from 'zod';
import { disclosuresOf } from '../../audit/trail.ts';
import { Count, DateTime, Id, optional, Text } from '../../domain/common-fields.ts';
import { orNotFound } from '../../domain/error.ts';
import { ruleOf } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { decideUnder } from '../../domain/policy.ts';
import { changeBy, type Principal, permit } from '../../domain/principal.ts';
import { tokenVersion } from '../../domain/row-version.ts';
import { Container, canonicalContainer, stricter } from '../../domain/rule.ts';
import { SearchEquals } from '../../domain/search.ts';
import {
  MetadataFilter,
  maxTokenBytes,
  TokenId,
  TokenPatch,
  TokenReplace,
  TokenType,
  Token as TokenView,
} from '../../domain/token.ts';
import { inBoth, visible, within } from '../../domain/visible-scopes.ts';
import type { DecidedBy, ListedToken, LockedToken, StoreTransaction, TokenSeqs } from '../../store/store.ts';
import { etag } from '../pipeline/etag.ts';
import {
  Cursor,
  cursorOf,
  listQuery,
  oneOrMore,
  pageOf,
  paginate,
  paginationOf,
} from '../pipeline/pagination.ts';
import {
  type Call,
  type ChangeReply,
  changeEndpoint,
  type HandlerContext,
  type LimitedRequest,
  readEndpoint,
  reply,
} from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { type PatchedContent, patchedContent, replacedContent } from './token-content.ts';
import {
  furtherTokens,
  replay,
  searcherOf,
  tag,
  takeTokens,
  tokenReply,
  tokenReplyDocs,
  transformed,
  viewOf,
} from './token-reply.ts';

const params = z.object({
  id: TokenId.meta({ description: 'The id of the token.', examples: [example.token.id] }),
});

const transform = z
  .enum(['mask', 'redact'])
  .optional()
  .describe('Return less of the data than your access allows: the masked value, or none.');

const ListQuery = listQuery({
  transform,
  id: oneOrMore(TokenId, { type: 'string' }),
  type: TokenType.optional().describe('Filter by type.'),
  container: Container.optional().describe('Filter by container. Includes the containers below it.'),
  metadata: MetadataFilter.optional().meta({
    description: 'Filter by metadata, as `metadata[NAME]=VALUE`, at most 10 times.',
    examples: [{ customer: '42' }],
  }),
  created_after: DateTime.optional().describe('Only tokens created at or after this time.'),
  created_before: DateTime.optional().describe('Only tokens created before this time.'),
  expires_before: DateTime.optional().describe('Only tokens that expire before this time.'),
  created_by: Id.optional().describe('Only tokens that this application created, also through its sessions.'),
});

export const listTokens = readEndpoint({
  name: 'listTokens',
  tag,
  summary: 'List tokens',
  description:
    'Returns the tokens that your key can read, newest first. `data` depends on the transform for each token. A request examines a limited number of tokens, and a page has at most 8 MiB. A page can therefore be short or empty and still have `next`. Totals are absent if there are too many tokens to count.',
  query: ListQuery,
  replies: { 200: reply('A page of tokens.', pageOf(TokenView), example.tokenPage) },
  handle: async (call, { store, usage, memory }) => {
    const { principal, query } = call;
    const container = canonicalContainer(query.container ?? '/');
    const readable = within(visible(principal, 'token:read'), container);
    for (const scope of readable.scopes) usage.record(principal, 'token:read', scope.container?.value);
    const decideRead = (token: DecidedBy) => {
      if (!canonicalContainer(token.container).startsWith(container)) return undefined;
      const verdict = decideUnder(principal.policy, principal.ceiling, 'token:read', token);
      if (!verdict.allowed || !query.transform) return verdict.allowed ? verdict : undefined;
      return { ...verdict, transform: stricter(verdict.transform, query.transform) };
    };
    const { id: ids, type, metadata, created_by: createdBy } = query;
    const {
      created_after: createdAfter,
      created_before: createdBefore,
      expires_before: expiresBefore,
    } = query;
    const filter = { ids, type, metadata, createdAfter, createdBefore, expiresBefore, createdBy };
    const { pagination, data: rows } = await paginate(query, memory.reserverFor(call), (window) =>
      store.tokens.list(principal.tenantId, { visible: readable, decide: decideRead, filter, ...window }),
    );
    return { status: 200, body: listBody(pagination, rows), disclosures: disclosuresOf(principal, rows) };
  },
});

function listBody(pagination: object, rows: readonly ListedToken[]): JsonText {
  const views = rows.map(({ token, data }) => viewOf(token, data));
  return JsonText.extended({ pagination }, 'data', JsonText.list(views));
}

const TokenSearch = z
  .strictObject({
    equals: SearchEquals,
    type: optional(TokenType).describe('Only tokens of this type.'),
    container: optional(Container).describe('Only tokens in this container or below it.'),
    created_after: optional(DateTime).describe('Only tokens created at or after this time.'),
    created_before: optional(DateTime).describe('Only tokens created before this time.'),
    size: z
      .int()
      .min(1)
      .max(100)
      .nullish()
      .transform((size) => size ?? 20)
      .describe('The maximum number of tokens on a page. 20 by default.'),
    start: optional(Cursor).describe('A cursor: the `next` value of an earlier response.'),
  })
  .meta({ id: 'TokenSearch' });

export const searchTokens = readEndpoint({
  name: 'searchTokens',
  tag,
  summary: 'Search for tokens by value',
  description:
    'Returns the tokens whose `search` templates have rendered to these values, and that your key can both search and read, newest first. `data` depends on the transform of `token:read` for each token. Searches have their own rate limits per application, with a lower one for searches that find nothing. The audit log has an entry for every search, without the values.',
  body: TokenSearch,
  bodyExample: example.tokenSearch,
  replies: { 200: reply('A page of tokens, without totals.', pageOf(TokenView), example.tokenSearchPage) },
  failures: ['quarantined'],
  handle: async (call, { store, usage, limits, memory }) => {
    const { principal, body, requestInfo } = call;
    const container = canonicalContainer(body.container ?? '/');
    const both = inBoth(visible(principal, 'token:search'), visible(principal, 'token:read'));
    const searchable = within(both, container);
    for (const scope of searchable.scopes)
      for (const permission of ['token:search', 'token:read'])
        usage.record(principal, permission, scope.container?.value);
    const decideBoth = (token: DecidedBy) => {
      if (!canonicalContainer(token.container).startsWith(container)) return undefined;
      const [search, read] = ['token:search', 'token:read'].map((permission) =>
        decideUnder(principal.policy, principal.ceiling, permission, token),
      );
      return search?.allowed && read?.allowed ? read : undefined;
    };
    const { size, start, type, equals } = body;
    const { created_after: createdAfter, created_before: createdBefore } = body;
    const filter = { type, equals, createdAfter, createdBefore };
    const found = limits.takeSearch(searcherOf(principal), requestInfo);
    const reserve = memory.reserverFor(call);
    const query = { visible: searchable, decide: decideBoth, filter, size, start, reserve };
    const { rows, ...list } = await store.tokens.list(principal.tenantId, query);
    if (rows.length > 0) found();
    return {
      status: 200,
      body: listBody(paginationOf(size, undefined, list), rows),
      disclosures: disclosuresOf(principal, rows),
      search: { names: Object.keys(equals), hits: rows.length },
    };
  },
});

export const getToken = readEndpoint({
  name: 'getToken',
  tag,
  summary: 'Get a token',
  params,
  query: z.strictObject({ transform }),
  replies: { 200: tokenReplyDocs },
  failures: ['not_found'],
  etag: 'sent',
  handle: async (call, { store, usage, memory }) => {
    const { principal, params, query } = call;
    const token = orNotFound(await store.tokens.get(principal.tenantId, params.id, memory.reserverFor(call)));
    const verdict = permit(principal, 'token:read', token);
    const transform = stricter(verdict.transform, query.transform ?? 'reveal');
    usage.record(principal, 'token:read', token.container);
    const disclosures = [{ tokens: [token], transform, rule: ruleOf(principal.kind, verdict) }];
    const headers = etag(tokenVersion(token));
    return { status: 200, body: transformed(token, transform), headers, disclosures };
  },
});

/** What `updateToken` and `replaceToken` have in common. */
const revision = {
  replies: { 200: tokenReplyDocs },
  failures: ['not_found', 'idempotency_outdated'],
  etag: 'both',
  replay: replay(200, 'token:update'),
  checkLimits: async ({ principal, requestInfo, bodyBytes }: LimitedRequest, { limits }: HandlerContext) => {
    takeTokens(limits, principal, bodyBytes, requestInfo);
    return undefined;
  },
} satisfies Partial<Parameters<typeof changeEndpoint>[0]>;

export const updateToken = changeEndpoint({
  name: 'updateToken',
  tag,
  summary: 'Update a token',
  description:
    'Applies a JSON merge patch. To move a token, your key needs `token:update` on both containers. The transform `reveal` is required to change the mask or a part of `data`, unless the patch replaces `data` completely: then the new or the stored data is not an object. `reveal` is also required if a session or a public key moves a token, and to move it to a container where your key sees more of the data. No key has `reveal` for a token with `max_uses`.',
  params,
  body: TokenPatch,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenPatch,
  ...revision,
  failures: [...revision.failures, 'reveal_required'],
  handle: (call, context) => revise(call, context, (current) => patchedContent(call, current)),
});

export const replaceToken = changeEndpoint({
  name: 'replaceToken',
  tag,
  summary: 'Replace a token',
  description:
    'Replaces the data, and with it the mask, search templates, metadata and expiry: those that are absent are removed. `type`, `container` and `max_uses` stay. You can send read-only fields back unchanged. The transform `reveal` is not required, because nothing of the old data stays. `data` that equals the masked value which your key can read is rejected. The token must exist.',
  params,
  body: TokenReplace,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenReplace,
  ...revision,
  handle: (call, context) => revise(call, context, (current) => replacedContent(call, current)),
});

async function revise(
  { principal, params, requestInfo }: Call<{ readonly id: string }>,
  { store, usage, limits, storageQuota, memory }: HandlerContext<StoreTransaction>,
  contentOf: (current: LockedToken) => Promise<PatchedContent>,
): Promise<ChangeReply> {
  let next: PatchedContent | undefined;
  const revise = async (current: LockedToken) => {
    next = await contentOf(current);
    limits.spend('tokens', principal.applicationId, furtherTokens(next.content));
    for (const { container } of [current, next.content]) usage.record(principal, 'token:update', container);
    return next.content;
  };
  const { tenantId } = principal;
  const reserve = memory.reserverFor({ principal, requestInfo });
  const { id } = params;
  const change = changeBy(principal);
  const token = orNotFound(await store.tokens.update(tenantId, id, change, revise, storageQuota, reserve));
  const { transform, rule, visibleData, difference } = orNotFound(next);
  const entity = { kind: 'token', id } as const;
  return { ...tokenReply(200, token, transform, rule, visibleData), entity, difference };
}

export const deleteToken = changeEndpoint({
  name: 'deleteToken',
  tag,
  summary: 'Delete a token',
  params,
  replies: { 204: { description: 'Deleted.' } },
  failures: ['not_found'],
  etag: 'checked',
  urgency: 'takes access away',
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

/** Maximum tokens that one request deletes. */
const maxDeleted = 1000;

export const deleteTokens = changeEndpoint({
  name: 'deleteTokens',
  tag,
  summary: 'Delete the tokens below a container',
  description:
    'Deletes the tokens in a container and below it, newest first, if your key may delete them. Other tokens stay. A request deletes at most 1,000 tokens with 8 MiB. If the response has `next`, repeat the request with it as `start`. The number does not say whether other tokens exist.',
  query: z.strictObject({
    container: Container.refine(
      (container) => canonicalContainer(container) !== '/',
      'must not be the root: delete its containers one by one',
    ).meta({
      description: 'Delete the tokens in this container and below it.',
      examples: ['/customers/42/'],
    }),
    start: Cursor.optional(),
  }),
  replies: {
    200: reply(
      'How many tokens were deleted.',
      z
        .object({
          deleted: Count.describe('The number of tokens that this request has deleted.'),
          next: Text.optional().describe('To send as `start`, to delete further tokens. Absent at the end.'),
        })
        .meta({ id: 'DeletedTokens' }),
      { deleted: 1000, next: 'AZfzwloefECdKz-OahtMXQ' },
    ),
  },
  isAlone: true,
  find: async ({ principal, query }, { store, usage }) => {
    const container = canonicalContainer(query.container);
    const deletable = within(visible(principal, 'token:delete'), container);
    for (const scope of deletable.scopes) usage.record(principal, 'token:delete', scope.container?.value);
    const decide = deletionIn(principal, container);
    const window = { size: maxDeleted, start: query.start };
    return store.tokens.find(principal.tenantId, { visible: deletable, decide, filter: {}, ...window });
  },
  handle: async ({ principal, query, prepared }, { store }) => {
    const container = canonicalContainer(query.container);
    const found = prepared as TokenSeqs;
    const decide = deletionIn(principal, container);
    const mayDelete = (token: DecidedBy) => decide(token) !== undefined;
    const { deleted, next = found.next } = await store.tokens.deleteAll(
      principal.tenantId,
      found.seqs,
      mayDelete,
    );
    return {
      status: 200,
      body: { deleted: deleted.length, ...(next !== undefined && { next: cursorOf(next) }) },
      entity: { kind: 'container', id: container },
      ...(deleted.length > 0 && { resource: deleted }),
    };
  },
});

/** Decides about a token as its deletion by id does. Undefined for tokens outside of the container, too. */
function deletionIn({ policy, ceiling }: Principal, container: string) {
  return (token: DecidedBy) => {
    if (!canonicalContainer(token.container).startsWith(container)) return undefined;
    const verdict = decideUnder(policy, ceiling, 'token:delete', token);
    return verdict.allowed ? verdict : undefined;
  };
}
