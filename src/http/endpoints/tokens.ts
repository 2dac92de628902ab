import { z } from 'zod';
import { disclosuresOf } from '../../audit/trail.ts';
import { DateTime, optional } from '../../domain/common-fields.ts';
import { Denial } from '../../domain/denial.ts';
import { type Failure, fail, orNotFound } from '../../domain/error.ts';
import { type DecidingRule, ruleOf } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { newId } from '../../domain/key.ts';
import { decide, decideUnder, type Resource } from '../../domain/policy.ts';
import { changeBy, type Principal, permit, permitNamed, trustedWriters } from '../../domain/principal.ts';
import { tokenVersion } from '../../domain/row-version.ts';
import { Container, canonicalContainer, stricter, type Transform } from '../../domain/rule.ts';
import { SearchEquals, type SearchValues } from '../../domain/search.ts';
import {
  containerOf,
  defaultContainer,
  MetadataFilter,
  maxTokenBytes,
  TokenCreate,
  TokenId,
  TokenPatch,
  TokenType,
  Token as TokenView,
} from '../../domain/token.ts';
import { inBoth, visible, within } from '../../domain/visible-scopes.ts';
import type {
  DecidedBy,
  ListedToken,
  LockedToken,
  StoredToken,
  StoreTransaction,
  TokenContent,
  TokenRecord,
  TokenRevision,
} from '../../store/store.ts';
import { etag } from '../pipeline/etag.ts';
import type { Limits, Searcher } from '../pipeline/limits.ts';
import { Cursor, listQuery, oneOrMore, pageOf, paginate, paginationOf } from '../pipeline/pagination.ts';
import type { RequestInfo } from '../pipeline/request-info.ts';
import {
  type Call,
  type ChangeReply,
  changeEndpoint,
  type HandlerContext,
  type Reply,
  readEndpoint,
  reply,
} from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { contentOf, type PatchedContent, patchedContent } from './token-content.ts';

const tag = 'Tokens';
const params = z.object({
  id: TokenId.meta({ description: 'The id of the token.', examples: [example.token.id] }),
});
const tokenReplyDocs = reply('The token. `data` depends on your transform.', TokenView, example.token);

/** Reserved for a token besides the bytes of its body. Its size in the database is known when it is stored. */
const rowBytes = 4096;

export const createToken = changeEndpoint({
  name: 'createToken',
  tag,
  summary: 'Create a token',
  description:
    'Stores data encrypted. The masked value is computed when the token is written; a mask that cannot be rendered is rejected. With `unless_exists`, the response is 200 with the existing token if the container has one with the same value. Concurrent requests create one token. Such a request counts as a search, with its rate limits: see `POST /tokens/search`.',
  body: TokenCreate,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenCreate,
  replies: {
    201: tokenReplyDocs,
    200: reply('The existing token with the value of `unless_exists`.', TokenView, example.token),
  },
  failures: ['reveal_required', 'token_exists', 'idempotency_outdated'],
  etag: 'sent',
  checkLimits: async ({ principal, requestInfo, bodyBytes }, { limits, storage }) => {
    takeTokens(limits, principal, bodyBytes, requestInfo);
    return storage.reserve(principal.tenantId, principal.applicationId, rowBytes + bodyBytes);
  },
  replay: replay(201, 'token:create'),
  entityOf: ({ body }) =>
    body.unless_exists &&
    `${body.unless_exists} ${canonicalContainer(containerOf(body) ?? defaultContainer)}`,
  handle: async (call, { store, usage, limits, memory }) => {
    const { principal, body, requestInfo } = call;
    const id = body.id ?? newId(principal.now);
    const container = containerOf(body) ?? defaultContainer;
    const content = contentOf(withDefaults(body, principal, { id, container }), principal);
    limits.spend('tokens', principal.applicationId, furtherTokens(content));
    // A denial is logged without a generated id, which the caller does not know.
    const logged = { id: body.id, container, isStored: false };
    const { max_uses } = body;
    const verdict = permitNamed(principal, 'token:create', { id, container, max_uses }, logged);
    usage.record(principal, 'token:create', container);
    const names = body.unless_exists === undefined ? [] : [body.unless_exists];
    if (names.length > 0) {
      for (const permission of ['token:search', 'token:read'] as const) {
        permitNamed(principal, permission, { container }, logged);
        usage.record(principal, permission, container);
      }
      const values = valueToFind(names[0] as string, content);
      const found = limits.takeSearch(searcherOf(principal), requestInfo);
      const existing = await store.tokens.findEqual(
        principal.tenantId,
        container,
        values,
        trustedWriters(principal),
        memory.reserverFor(call),
      );
      call.examined = { operation: 'token.search', search: { names, hits: existing ? 1 : 0 } };
      if (existing) {
        found();
        return existingToken(principal, existing, names);
      }
    }
    const token = await store.tokens.create(principal.tenantId, id, content, changeBy(principal));
    if (!token) throw fail('token_exists');
    const { transform } = verdict;
    const data = transform === 'reveal' ? content.data : transform === 'mask' ? content.masked : undefined;
    const rule = ruleOf(principal.kind, verdict);
    const search = names.length > 0 ? { names, hits: 0 } : undefined;
    return { ...tokenReply(201, token, transform, rule, data), search, entity: { kind: 'token', id } };
  },
});

/** A token that is written with eight further index rows takes about as long as two tokens. */
function furtherTokens({ container, search = {}, metadata = {} }: TokenRevision): number {
  const levels = container.split('/').length;
  return Math.floor((levels + Object.keys(search).length + Object.keys(metadata).length) / 8);
}

/**
 * Adds the templates of the caller's rule, if the request has none. Tokens with `max_uses` get none: they are secrets.
 * Throws `reveal_required` if a ceiling could not set them on the stored token: its holder chose these templates, and
 * does not know the data.
 */
function withDefaults(body: TokenCreate, principal: Principal, resource: Resource): TokenCreate {
  if (body.max_uses !== undefined) return body;
  const { policy, ceiling } = principal;
  const verdict = decide(policy, 'token:create', resource);
  const defaults = (verdict.allowed && verdict.rule?.rule.defaults) || {};
  const mask = body.mask ?? (defaults.mask as TokenCreate['mask'] | null) ?? undefined;
  const search = body.search ?? (defaults.search as TokenCreate['search'] | null) ?? undefined;
  const isAdded = mask !== body.mask || search !== body.search;
  const above = ceiling && isAdded ? decide(ceiling, 'token:update', resource) : undefined;
  if (above && !(above.allowed && above.transform === 'reveal')) throw defaultsRefused(resource, body.id);
  return { ...body, mask, search };
}

function defaultsRefused({ container }: Resource, id: string | undefined): Denial {
  const permission = 'token:update';
  return new Denial(
    'reveal_required',
    'The `defaults` of your rule set a mask or search templates. For this, the application that authorized you needs `token:update` with the transform `reveal` in this container.',
    {
      reason: `the defaults of the rule need ${permission} with the transform reveal, which the authorizer does not have here`,
      missing: { permission, container: canonicalContainer(container ?? '/'), transform: 'reveal' },
    },
    { id, container, isStored: false },
  );
}

/** Guesses count for the application whose access they use, so that more public keys do not allow more of them. */
function takeTokens(
  limits: Limits,
  { applicationId: client }: Principal,
  bytes: number,
  requestInfo: RequestInfo,
): void {
  limits.take(requestInfo, { limit: 'tokens', client }, { limit: 'token-bytes', client, units: bytes });
}

function searcherOf(principal: Principal): Searcher {
  const { kind, applicationId } = principal;
  if (kind === 'application') return { applicationId, group: undefined };
  const { authorizedBy = applicationId } = principal;
  return { applicationId: authorizedBy, group: `${authorizedBy} ${applicationId}` };
}

/** The search value that `unless_exists` names. Throws `validation_failed` if the token has no such value. */
function valueToFind(name: string, { searchValues = {} }: TokenContent): SearchValues {
  const value = Object.hasOwn(searchValues, name) ? searchValues[name] : undefined;
  if (value !== undefined) return { [name]: value };
  throw fail('validation_failed', {
    errors: { unless_exists: ['must be a name in `search` whose template does not render to an empty text'] },
  });
}

function existingToken(principal: Principal, token: StoredToken, names: string[]): ChangeReply {
  const verdict = permit(principal, 'token:read', token);
  const { transform } = verdict;
  const data = visibleData(token, transform);
  return {
    ...tokenReply(200, token, transform, ruleOf(principal.kind, verdict), data),
    operation: 'token.search',
    search: { names, hits: 1 },
    entity: { kind: 'token', id: token.id },
  };
}

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
    const { created_after: createdAfter, created_before: createdBefore } = query;
    const filter = { ids: query.id, type: query.type, metadata: query.metadata, createdAfter, createdBefore };
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
    const { size, start: before, type, equals } = body;
    const { created_after: createdAfter, created_before: createdBefore } = body;
    const filter = { type, equals, createdAfter, createdBefore };
    const found = limits.takeSearch(searcherOf(principal), requestInfo);
    const reserve = memory.reserverFor(call);
    const query = { visible: searchable, decide: decideBoth, filter, size, before, reserve };
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
  replies: { 200: tokenReplyDocs },
  failures: ['not_found', 'reveal_required', 'idempotency_outdated'],
  etag: 'both',
  replay: replay(200, 'token:update'),
  checkLimits: async ({ principal, requestInfo, bodyBytes }, { limits }) => {
    takeTokens(limits, principal, bodyBytes, requestInfo);
    return undefined;
  },
  handle: async (call, { store, usage, limits, storageQuota, memory }) => {
    const { principal, params } = call;
    let next: PatchedContent | undefined;
    const revise = async (current: LockedToken) => {
      next = await patchedContent(call, current);
      limits.spend('tokens', principal.applicationId, furtherTokens(next.content));
      for (const { container } of [current, next.content]) usage.record(principal, 'token:update', container);
      return next.content;
    };
    const change = changeBy(principal);
    const token = orNotFound(
      await store.tokens.update(
        principal.tenantId,
        params.id,
        change,
        revise,
        storageQuota,
        memory.reserverFor(call),
      ),
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

function transformed(stored: StoredToken, transform: Transform): JsonText {
  return viewOf(stored.token, visibleData(stored, transform));
}

/** Decrypts the plaintext only for `reveal`. */
function visibleData(stored: StoredToken, transform: Transform): JsonText | undefined {
  return transform === 'reveal' ? stored.plaintext() : transform === 'mask' ? stored.masked() : undefined;
}

function viewOf(token: StoredToken['token'], data: JsonText | undefined): JsonText {
  return data ? JsonText.extended(token, 'data', data) : JsonText.of(token);
}

/** The idempotency record. It does not contain the token's content, which a replay reads again. */
interface TokenReplyRecord {
  readonly id: string;
  readonly version: string;
  readonly transform: Transform;
  /** Of the first reply. A token that `unless_exists` found has another status than a new one. */
  readonly status: number;
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
  const idempotencyRecord: TokenReplyRecord = { id, version, transform, status };
  const disclosures = [{ tokens: [token], transform, rule }];
  return { status, body: viewOf(token, data), headers: etag(version), idempotencyRecord, disclosures };
}

/**
 * Builds the reply to a retry from the current token, with the caller's current access, but never more than the
 * first reply showed. Throws `idempotency_outdated` if the token was changed or deleted since.
 */
function replay(own: number, permission: 'token:create' | 'token:update') {
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
