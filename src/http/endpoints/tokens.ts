import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { then } from '../../domain/awaitable.ts';
import { fail } from '../../domain/error.ts';
import { JsonText } from '../../domain/json-text.ts';
import { newId } from '../../domain/key.ts';
import { decideUnder } from '../../domain/policy.ts';
import { type Principal, permit, permitNamed } from '../../domain/principal.ts';
import { Container, canonicalContainer } from '../../domain/rule.ts';
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
import type { Transform } from '../../domain/transform.ts';
import { visible, within } from '../../domain/visible-scopes.ts';
import type { StoredToken, StoreTransaction } from '../../store/store.ts';
import {
  defaultSize,
  notBoth,
  notBothError,
  oneOrMore,
  pageFields,
  pageOf,
  paginationOf,
} from '../pipeline/pagination.ts';
import { changeEndpoint, type Reply, readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { contentOf, revised } from './token-content.ts';

const tag = 'Tokens';
const params = z.object({
  id: TokenId.meta({ description: 'The id of the Token.', examples: [example.token.id] }),
});
const reply = {
  description: 'The Token, as the transform shows it.',
  schema: TokenView,
  example: example.token,
};

export const createToken = changeEndpoint({
  name: 'createToken',
  tag,
  summary: 'Create a Token',
  description:
    'Its data is sealed at once, and its mask is rendered now: a mask that does not render is refused.',
  body: TokenCreate,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenCreate,
  replies: { 201: reply },
  failures: ['token_exists', 'storage_full'],
  enter: ({ principal, bytes, quotas }, { limits, storage }) => {
    limits.tokens(principal.applicationId, bytes, quotas);
    return storage.enter(principal.tenantId, principal.applicationId, storedSize(bytes));
  },
  replay,
  handle: ({ principal, body }, { store, usage }) => {
    const id = body.id ?? newId(principal.now);
    const content = contentOf(body, principal.now);
    const transform = permitNamed(principal, 'token:create', { id, container: content.container });
    usage.note(principal, 'token:create', content.container);
    const creating = store.tokens.create(principal.tenantId, id, content, changeBy(principal));
    return then(creating, (made) => {
      if (!made) throw fail('token_exists');
      return { ...shown(201, made, transform), entity: { kind: 'token', id } };
    });
  },
});

const ListQuery = z
  .strictObject({
    ...pageFields,
    id: oneOrMore(TokenId, { type: 'string' }),
    type: TokenType.optional().describe('Only those of this type.'),
    container: Container.optional().describe('Only those in this container and below.'),
    metadata: MetadataFilter.optional().describe(
      'Only those with this metadata, as `metadata.NAME=VALUE`; at most 10 of them.',
    ),
  })
  .refine(notBoth, notBothError);

export const listTokens = readEndpoint({
  name: 'listTokens',
  tag,
  summary: 'List Tokens',
  description:
    'Newest first: those that the key may read, each as its transform shows it. A request examines a bounded number of Tokens, and a page has at most 8 MiB: a page may be shorter than `size`, or empty, and still have a `next`. Totals are left out where there are too many Tokens to count.',
  query: ListQuery,
  replies: {
    200: { description: 'One page of them.', schema: pageOf(TokenView), example: example.tokenPage },
  },
  handle: async ({ principal, query }, { store, usage }) => {
    const container = canonicalContainer(query.container ?? '/');
    const lies = within(visible(principal, 'token:read'), container);
    for (const scope of lies.scopes) usage.note(principal, 'token:read', scope.container?.value);
    const { size = defaultSize, start: before } = query;
    const page = before === undefined ? (query.page ?? 1) : undefined;
    const found = await store.tokens.list(principal.tenantId, {
      visible: lies,
      show: (token) => {
        if (!canonicalContainer(token.container ?? '/').startsWith(container)) return undefined;
        const verdict = decideUnder(principal.policy, principal.ceiling, 'token:read', token);
        return verdict.allowed ? verdict.transform : undefined;
      },
      filter: { ids: query.id, type: query.type, metadata: query.metadata },
      size,
      page,
      before,
    });
    const pagination = paginationOf(size, page, found);
    const views = found.rows.map(({ token, data }) => viewOf(token, data));
    return { status: 200, body: JsonText.extended({ pagination }, 'data', JsonText.list(views)) };
  },
});

export const getToken = readEndpoint({
  name: 'getToken',
  tag,
  summary: 'Get a Token',
  params,
  replies: { 200: reply },
  failures: ['not_found'],
  handle: ({ principal, params }, { store, usage }) =>
    then(store.tokens.get(principal.tenantId, params.id), (token) => {
      if (!token) throw fail('not_found');
      const transform = permit(principal, 'token:read', token);
      usage.note(principal, 'token:read', token.container);
      return { status: 200, body: view(token, transform) };
    }),
});

export const updateToken = changeEndpoint({
  name: 'updateToken',
  tag,
  summary: 'Update a Token',
  description:
    'A JSON merge patch. Moving a Token needs `token:update` on both containers. Changing the mask or part of `data` needs the transform `reveal`, unless the same patch replaces `data` as a whole. So does a move by a Session or a public key, and a move to a container where the caller sees more of the data.',
  params,
  body: TokenPatch,
  bodyLimit: maxTokenBytes,
  bodyExample: example.tokenPatch,
  replies: { 200: reply },
  failures: ['not_found', 'reveal_required', 'storage_full'],
  replay,
  enter: ({ principal, bytes, quotas }, { limits }) => {
    limits.tokens(principal.applicationId, bytes, quotas);
    return () => {};
  },
  handle: async ({ principal, params, body }, { store, usage, storageQuota }) => {
    let next: ReturnType<typeof revised> | undefined;
    const revise = (current: StoredToken) => {
      next = revised(principal, current, body);
      for (const { container } of [current, next.content]) usage.note(principal, 'token:update', container);
      return next.content;
    };
    const change = changeBy(principal);
    const token = await store.tokens.update(principal.tenantId, params.id, change, revise, storageQuota);
    if (!token || !next) throw fail('not_found');
    const { transform, difference } = next;
    return { ...shown(200, token, transform), entity: { kind: 'token', id: params.id }, difference };
  },
});

export const deleteToken = changeEndpoint({
  name: 'deleteToken',
  tag,
  summary: 'Delete a Token',
  params,
  replies: { 204: { description: 'Deleted.' } },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store, usage }) => {
    const gone = await store.tokens.delete(principal.tenantId, params.id, (current) => {
      permit(principal, 'token:delete', current);
      usage.note(principal, 'token:delete', current.container);
    });
    if (!gone) throw fail('not_found');
    return { status: 204, entity: { kind: 'token', id: params.id } };
  },
});

/** What the transform leaves of it. Only `reveal` ever opens the plaintext. */
function view(stored: StoredToken, transform: Transform): JsonText {
  const data =
    transform === 'reveal' ? stored.plaintext() : transform === 'mask' ? stored.masked() : undefined;
  return viewOf(stored.token, data);
}

function viewOf(token: StoredToken['token'], data: JsonText | undefined): JsonText {
  return data ? JsonText.extended(token, 'data', data) : JsonText.of(token);
}

/** A reply that shows data, and what of it is remembered: everything but the data. */
interface Kept {
  readonly status: number;
  readonly token: StoredToken['token'];
  readonly transform: Transform;
}

function shown(status: number, stored: StoredToken, transform: Transform) {
  const kept: Kept = { status, token: stored.token, transform };
  return { status, body: view(stored, transform), kept };
}

/** With its data only while the Token is as it was: what has been deleted, moved or changed since is not shown. */
async function replay(
  remembered: unknown,
  { principal }: { principal: Principal },
  { store }: { store: Pick<StoreTransaction, 'tokens'> },
): Promise<Reply> {
  const { status, token, transform } = remembered as Kept;
  const stored = await store.tokens.get(principal.tenantId, token.id);
  const same = stored && isDeepStrictEqual(stored.token, token);
  return { status, body: same ? view(stored, transform) : token };
}

function changeBy(principal: Principal) {
  return { by: principal.applicationId, at: principal.now };
}
