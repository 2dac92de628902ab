/** Creates tokens: one, or a batch. */
import { z } from 'zod';
import { disclosuresOf } from '../../audit/trail.ts';
import { resourceOf } from '../../domain/audit.ts';
import { Denial } from '../../domain/denial.ts';
import { type Errors, Failure, fail, maxErrors, withErrors } from '../../domain/error.ts';
import { ruleOf } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { newId } from '../../domain/key.ts';
import { type Allowed, decide, type Resource } from '../../domain/policy.ts';
import { changeBy, type Principal, permit, permitNamed, trustedWriters } from '../../domain/principal.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import type { SearchValues } from '../../domain/search.ts';
import {
  containerOf,
  defaultContainer,
  maxTokenBytes,
  TokenBatch,
  TokenCreate,
  Token as TokenView,
} from '../../domain/token.ts';
import { validate } from '../../domain/validate.ts';
import type { StoredToken, StoreTransaction, TokenContent, TokenRecord } from '../../store/store.ts';
import {
  type Call,
  type ChangeReply,
  changeEndpoint,
  type HandlerContext,
  reply,
} from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { contentOf } from './token-content.ts';
import {
  furtherTokens,
  replay,
  searcherOf,
  type TokenReplyRecord,
  tag,
  takeTokens,
  tokenReply,
  tokenReplyDocs,
  visibleData,
} from './token-reply.ts';

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
  handle: async (call, context) => {
    const { principal, body } = call;
    const { store, usage, limits } = context;
    const item = itemOf(body, principal);
    const { id, content, names } = item;
    limits.spend('tokens', principal.applicationId, furtherTokens(content));
    const verdict = permitCreation(principal, item, usage);
    const { found: [existing] = [] } = names.length > 0 ? await findExisting(call, [item], context) : {};
    if (existing) return existingToken(principal, existing, names);
    const token = await store.tokens.create(principal.tenantId, id, content, changeBy(principal));
    if (!token) throw fail('token_exists');
    const rule = ruleOf(principal.kind, verdict);
    const search = names.length > 0 ? { names, hits: 0 } : undefined;
    const data = visibleContent(content, verdict);
    return {
      ...tokenReply(201, token, verdict.transform, rule, data),
      search,
      entity: { kind: 'token', id },
    };
  },
});

/** A token to create. */
interface Item {
  readonly body: TokenCreate;
  readonly id: string;
  readonly content: TokenContent;
  /** The name in `unless_exists`, and its value. */
  readonly names: string[];
  readonly wanted: SearchValues;
}

function itemOf(body: TokenCreate, principal: Principal): Item {
  const id = body.id ?? newId(principal.now);
  const container = containerOf(body) ?? defaultContainer;
  const content = contentOf(withDefaults(body, principal, { id, container }), principal);
  const names = body.unless_exists === undefined ? [] : [body.unless_exists];
  return {
    body,
    id,
    content,
    names,
    wanted: Object.assign({}, ...names.map((name) => valueToFind(name, content))),
  };
}

/** Checks all permissions that the creation needs. */
function permitCreation(
  principal: Principal,
  { body, id, content: { container }, names }: Item,
  usage: HandlerContext['usage'],
): Allowed {
  // A denial is logged without a generated id, which the caller does not know.
  const logged = { id: body.id, container, isStored: false };
  const { max_uses } = body;
  const verdict = permitNamed(principal, 'token:create', { id, container, max_uses }, logged);
  usage.record(principal, 'token:create', container);
  for (const permission of names.length > 0 ? ['token:search', 'token:read'] : []) {
    permitNamed(principal, permission, { container }, logged);
    usage.record(principal, permission, container);
  }
  return verdict;
}

/**
 * The existing tokens with the values of `unless_exists` of the items, in their order. The values are locked in the order
 * of their names, so that transactions cannot deadlock. An item whose value is that of an earlier one waits for it.
 */
async function findExisting(
  call: Pick<Call, 'principal' | 'requestInfo' | 'examined'>,
  items: readonly Item[],
  { store, limits, memory }: HandlerContext<StoreTransaction>,
): Promise<{ found: (StoredToken | undefined)[]; search: { names: string[]; hits: number } }> {
  const { principal, requestInfo } = call;
  const countFound = limits.takeSearch(searcherOf(principal), requestInfo, items.length);
  const byValue = new Map(items.map((item) => [placeOf(item.content.container, item.wanted), item]));
  const existing = new Map<string, StoredToken | undefined>();
  const writers = trustedWriters(principal);
  const reserve = memory.reserverFor(call);
  let bytes = 0;
  const reserveSome = (more: number) => {
    bytes += more;
    if (bytes > maxFoundBytes && items.length > 1) throw tooMuchFound();
    reserve(more);
  };
  for (const [value, { content, wanted }] of [...byValue].sort(([a], [b]) => (a < b ? -1 : 1)))
    existing.set(
      value,
      await store.tokens.findEqual(principal.tenantId, content.container, wanted, writers, reserveSome),
    );
  const found = items.map(({ content, wanted }) => existing.get(placeOf(content.container, wanted)));
  const hits = found.filter(Boolean).length;
  const search = { names: [...new Set(items.flatMap(({ names }) => names))], hits };
  call.examined = { operation: 'token.search', search };
  countFound(hits);
  return { found, search };
}

/** Identifies a value of a search template in a container. */
function placeOf(container: string, values: SearchValues): string {
  return JSON.stringify([canonicalContainer(container), values]);
}

/** The memory for the tokens that a batch finds, and the size of its response. */
const maxFoundBytes = 32 * 1_048_576;
const maxReplyBytes = 8 * 1_048_576;

function tooMuchFound(): Failure {
  const errors = { tokens: ['finds existing tokens with more than 8 MiB: send fewer at a time'] };
  return fail('validation_failed', { errors });
}

export const createTokens = changeEndpoint({
  name: 'createTokens',
  tag,
  summary: 'Create up to 100 tokens',
  description:
    'Creates all tokens of the list, or none. Each item has the fields of `POST /tokens`, and needs the same permissions. The response has the tokens in the same order; with `unless_exists`, existing ones, too. If an item is refused, `errors` names it, such as `tokens.3.mask`. A batch counts as its items in the limits for tokens, bytes and searches.',
  body: TokenBatch,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenBatch,
  replies: {
    201: reply(
      'The tokens, in the order of the request.',
      z.object({ data: z.array(TokenView).describe('The tokens.') }).meta({ id: 'TokenList' }),
      example.tokenList,
    ),
  },
  failures: ['reveal_required', 'token_exists', 'idempotency_outdated'],
  checkLimits: async ({ principal, requestInfo, bodyBytes }, { limits, storage }) => {
    takeTokens(limits, principal, bodyBytes, requestInfo);
    // What the batch takes with all rows is known, and checked, when it is stored.
    return storage.reserve(principal.tenantId, principal.applicationId, rowBytes + bodyBytes);
  },
  isAlone: true,
  replay: async (record, call, context) => {
    const replies = await Promise.all(
      (record as TokenReplyRecord[]).map((each) => replay(201, 'token:create')(each, call, context)),
    );
    const body = listOf(replies.map(({ body }) => body as JsonText));
    return { status: 201, body, disclosures: replies.flatMap(({ disclosures = [] }) => disclosures) };
  },
  prepare: function* ({ principal, body }, { limits }) {
    const items: Item[] = [];
    const failures: Failure[] = [];
    for (const [at, value] of body.tokens.entries()) {
      yield;
      atItem(at, () => items.push(itemOf(validate(TokenCreate, value, 'body'), principal)), failures);
      if (failures.length === maxErrors) break;
    }
    const further = items.reduce((sum, { content }) => sum + furtherTokens(content), 0);
    limits.spend('tokens', principal.applicationId, body.tokens.length - 1 + further);
    return { items, failures };
  },
  handle: async (call, context) => {
    const { principal } = call;
    const { store, usage, storageQuota } = context;
    const { items, failures: invalid } = call.prepared as { items: Item[]; failures: Failure[] };
    throwAll(invalid);
    const failures: Failure[] = [];
    const permitted = items.map((item, at) =>
      atItem(at, () => permitCreation(principal, item, usage), failures),
    );
    throwAll(failures);
    const searching = items.filter(({ names }) => names.length > 0);
    const { found, search } =
      searching.length > 0 ? await findExisting(call, searching, context) : { found: [] };
    const existing = new Map(searching.map((item, at) => [item, found[at]]));

    /** For each item the token, or the item before it that creates it. */
    const results = new Map<Item, StoredToken | Item>();
    const creating = new Map<string, Item>();
    for (const item of items) {
      const { container, searchValues = {} } = item.content;
      const earlier = item.names.length > 0 ? creating.get(placeOf(container, item.wanted)) : undefined;
      const token = earlier ?? existing.get(item) ?? item;
      results.set(item, token);
      if (token === item)
        for (const [name, value] of Object.entries(searchValues))
          creating.set(placeOf(container, { [name]: value }), item);
    }
    const created = items.filter((item) => results.get(item) === item);
    const tokens = await createAll(created, principal, store, storageQuota, (taken) => {
      const isTaken = (item: Item) => taken.has(item.id) && created.includes(item);
      return Object.fromEntries(
        items.flatMap((item, at) => (isTaken(item) ? [[`tokens.${at}.id`, ['is taken']]] : [])),
      );
    });

    let bytes = 0;
    const replies = items.map((item, at) => {
      const result = results.get(item) as StoredToken | Item;
      const { token, content } =
        'content' in result
          ? { token: tokens.get(result) as TokenRecord, content: result.content }
          : { token: result, content: undefined };
      const isNew = result === item;
      const verdict = isNew
        ? (permitted[at] as Allowed)
        : orThrow(
            atItem(at, () => permit(principal, 'token:read', token), failures),
            failures,
          );
      const data = content
        ? visibleContent(content, verdict)
        : visibleData(token as StoredToken, verdict.transform);
      const rule = ruleOf(principal.kind, verdict);
      const { body, idempotencyRecord } = tokenReply(isNew ? 201 : 200, token, verdict.transform, rule, data);
      bytes += body.length;
      if (bytes > maxReplyBytes) throw tooMuchFound();
      return { body, idempotencyRecord, isNew, token, verdict };
    });
    const parts = [true, false].flatMap((isNew) => {
      const some = replies.filter((reply) => reply.isNew === isNew);
      return disclosuresOf(principal, some).map((disclosure) => ({
        ...(isNew ? {} : { operation: 'token.search' }),
        entity: { kind: 'container', id: resourceOf(disclosure.tokens).container as string },
        ...(search && { search: { ...search, hits: isNew ? 0 : disclosure.tokens.length } }),
        disclosures: [disclosure],
      }));
    });
    return {
      status: 201,
      body: listOf(replies.map(({ body }) => body)),
      idempotencyRecord: replies.map(({ idempotencyRecord }) => idempotencyRecord),
      entries: parts,
      entity: (parts[0] as (typeof parts)[0]).entity,
    };
  },
});

function listOf(tokens: readonly JsonText[]): JsonText {
  return JsonText.extended({}, 'data', JsonText.list(tokens));
}

/** Returns the result of `work`. If it fails, adds the failure, which names the item. */
function atItem<T>(at: number, work: () => T, failures: Failure[]): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const path = `tokens.${at}`;
    const errors = Object.entries(error.errors ?? { body: [error.detail] });
    const named = errors.map(([field, messages]) => [field === 'body' ? path : `${path}.${field}`, messages]);
    failures.push(withErrors(error, Object.fromEntries(named)));
    return undefined;
  }
}

/** Throws one failure with the errors of all that have its code. Invalid items come first. */
function throwAll(failures: readonly Failure[]): void {
  const first = failures.find(({ code }) => code === 'validation_failed') ?? failures[0];
  if (!first) return;
  const same = failures.filter(({ code }) => code === first.code);
  throw withErrors(first, Object.assign({}, ...same.map(({ errors }) => errors)));
}

function orThrow<T>(value: T | undefined, failures: readonly Failure[]): T {
  throwAll(failures);
  return value as T;
}

/** Throws `token_exists` with the items whose id is taken, also by an earlier item. */
async function createAll(
  items: readonly Item[],
  principal: Principal,
  store: StoreTransaction,
  quota: number | undefined,
  errorsOf: (taken: ReadonlySet<string>) => Errors,
): Promise<Map<Item, TokenRecord>> {
  const ids = items.map(({ id }) => id);
  let taken: ReadonlySet<string> = new Set(ids.filter((id, at) => ids.indexOf(id) !== at));
  if (taken.size === 0) {
    const made = await store.tokens.createAll(principal.tenantId, items, changeBy(principal), quota);
    if ('created' in made) return new Map(items.map((item, at) => [item, made.created[at] as TokenRecord]));
    ({ taken } = made);
  }
  throw fail('token_exists', { errors: errorsOf(taken) });
}

function visibleContent({ data, masked }: TokenContent, { transform }: Allowed): JsonText | undefined {
  return transform === 'reveal' ? data : transform === 'mask' ? masked : undefined;
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
