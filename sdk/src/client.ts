/** The API client: one method per operation. */
import type {
  Application,
  ApplicationCreate,
  ApplicationKeyCreate,
  ApplicationRegenerate,
  ApplicationUpdate,
  Decision,
  DecisionRequest,
  Decisions,
  DelegationCreate,
  Destination,
  DestinationCreate,
  DestinationUpdate,
  Impact,
  Resource,
  Session,
  SessionAuthorize,
  Token,
  TokenCreate,
  TokenPatch,
  TokenReplace,
  TokenSearch,
} from './api.ts';
import { ProblemError, SallyportError, toError } from './errors.ts';
import { paginate, type Query, ResourceClient } from './resource-client.ts';
import { Access, Logs, Requests } from './review.ts';
import {
  type ChangeOptions,
  type ClientOptions,
  type ProxyOptions,
  pathSegment,
  type RequestOptions,
  type Transport,
  transport,
} from './transport.ts';

/** The base of relative paths. Only path and query of the result are used. */
const anyOrigin = 'https://destination.invalid';

const proxyMethods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Sends requests to one destination. */
export interface DestinationProxy {
  /**
   * Works like `fetch`, also as the `fetch` option of an SDK for the API of the destination. The first argument is a path,
   * or a URL whose origin is ignored: the service knows the origin of the destination. Placeholders such as
   * `{{ token: ID }}` are replaced on the way. Resolves with the reply of the destination, or with a problem of the service
   * that SDKs read as an error of their API: `errorIn(response)` tells them apart. Throws ConnectionError if the request
   * was certainly not sent. Never sends a request twice.
   */
  fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
}

type DecisionQuestion = Omit<DecisionRequest, 'resource' | 'resources'>;

export class Sallyport {
  readonly applications: Applications;
  readonly sessions: Sessions;
  readonly delegations: Delegations;
  readonly tokens: Tokens;
  readonly destinations: Destinations;
  readonly logs: Logs;
  readonly requests: Requests;
  readonly access: Access;
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = transport(options);
    this.applications = new Applications(this.#transport);
    this.sessions = new Sessions(this.#transport);
    this.delegations = new Delegations(this.#transport);
    this.tokens = new Tokens(this.#transport);
    this.destinations = new Destinations(this.#transport);
    this.logs = new Logs(this.#transport);
    this.requests = new Requests(this.#transport);
    this.access = new Access(this.#transport);
  }

  /** Uses tokens at the destination with this name, without seeing their data: `proxy(name).fetch(path, init)`. */
  proxy(name: string, options: ProxyOptions = {}): DestinationProxy {
    const prefix = `/proxy/${pathSegment('name', name)}`;
    const fetch: DestinationProxy['fetch'] = async (input, init) => {
      // Resolves dot segments within the destination: a path cannot leave it.
      const url = new URL(input instanceof Request ? input.url : input, anyOrigin);
      if (!/^https?:$/.test(url.protocol))
        throw new SallyportError('a destination needs a path or an HTTPS URL');
      const request = new Request(input instanceof Request ? input : url, init);
      if (!proxyMethods.includes(request.method))
        throw new SallyportError(`a destination takes ${proxyMethods.join(', ')}, not ${request.method}`);
      return this.#transport.forward(prefix + url.pathname + url.search, request, options);
    };
    return { fetch };
  }

  /** Decides whether a credential may use a permission on a resource, with which transform, and why. */
  decide(question: DecisionQuestion & { resource?: Resource }, options?: RequestOptions): Promise<Decision> {
    return this.#transport.call('decide', { body: question }, options) as Promise<Decision>;
  }

  /** Decides for up to 100 resources in one request. Results are in the order of `resources`. */
  decideAll(
    question: DecisionQuestion & { resources: Resource[] },
    options?: RequestOptions,
  ): Promise<Decisions> {
    return this.#transport.call('decide', { body: question }, options) as Promise<Decisions>;
  }

  /** Revokes a leaked key, or ends the session or delegation of its key. The client needs no key. Public keys are rejected. */
  async revokeKey(key: string, options?: RequestOptions): Promise<void> {
    await this.#transport.call('revokeKey', { body: { key } }, options);
  }

  /** Returns the tenant of the key. */
  tenant(options?: RequestOptions) {
    return this.#transport.call('getTenant', {}, options);
  }

  /** Lists the built-in permissions. */
  async permissions(options?: RequestOptions) {
    return (await this.#transport.call('listPermissions', {}, options)).data;
  }

  /** Lists the permissions of the key, each at least in one container. Works with every valid key. */
  async ownPermissions(options?: RequestOptions) {
    return (await this.#transport.call('listOwnPermissions', {}, options)).permissions;
  }

  /** Readiness check. Throws if the service should not receive requests now. */
  async ready(options?: RequestOptions): Promise<void> {
    await this.#transport.call('ready', {}, options);
  }
}

/** Response header with the expiry of an authorized session. A backend can pass it on to its page. */
export const sessionExpiryHeader = 'SVC-SESSION-EXPIRES-AT';

/** A field is empty if a proxy removed its header. */
export interface AuthorizedSession {
  readonly id: string;
  /** ISO 8601. Send it to the page, which then knows when to renew the session: see `startSession`. */
  readonly expiresAt: string;
}

class Applications extends ResourceClient {
  /** Creates an application. The key is returned only here. */
  create(body: ApplicationCreate, options?: RequestOptions) {
    return this.transport.call('createApplication', { body }, options);
  }
  /** Returns one page, newest first. */
  list(query: Query<'listApplications'> = {}, options?: RequestOptions) {
    return this.transport.call('listApplications', { query }, options);
  }
  /** Iterates over all matching applications, newest first. */
  all(
    query: Query<'listApplications'> = {},
    options?: RequestOptions,
  ): AsyncGenerator<Application, void, undefined> {
    return paginate((page: Query<'listApplications'>) => this.list(page, options), { size: 100, ...query });
  }
  /** Throws `NotFoundError` if the id is unknown. */
  get(id: string, options?: RequestOptions) {
    return this.transport.call('getApplication', { params: { id } }, options);
  }
  /** Returns the application of this client's key. For a session key, it is the application of the session. */
  current(options?: RequestOptions) {
    return this.transport.call('getApplicationByKey', {}, options);
  }
  /** Replaces the name, permissions and rules. Other fields are replaced only if they are given. */
  update(id: string, body: ApplicationUpdate, options?: ChangeOptions) {
    return this.transport.call(
      'updateApplication',
      { params: { id }, body },
      options,
    ) as Promise<Application>;
  }
  /**
   * Returns what the update would change, without changing it: access, sessions, tokens, and the recorded reads of the
   * last `days` days (30 by default). Also requires `access:review`.
   */
  preview(id: string, body: ApplicationUpdate, { days }: { days?: number } = {}, options?: ChangeOptions) {
    const query = { dry_run: true, ...(days !== undefined && { days }) };
    const input = { params: { id }, query, body };
    return this.transport.call('updateApplication', input, options) as Promise<Impact>;
  }
  /** Creates a new key. Revokes all existing keys immediately, or lets them expire at `old_keys_expire_at`. */
  regenerate(id: string, body: ApplicationRegenerate = {}, options?: ChangeOptions) {
    return this.transport.call('regenerateKey', { params: { id }, body }, options);
  }
  /** Deletes the application, its keys and its sessions. */
  delete(id: string, options?: ChangeOptions) {
    return this.transport.call('deleteApplication', { params: { id } }, options);
  }
  /** Puts the application into quarantine. Its keys can then change nothing and read no token data. */
  quarantine(id: string, options?: ChangeOptions) {
    return this.transport.call('quarantineApplication', { params: { id } }, options);
  }
  /** Ends the quarantine. */
  release(id: string, options?: ChangeOptions) {
    return this.transport.call('releaseApplication', { params: { id } }, options);
  }
  /** Returns when and in which containers each permission was last used, which grants were never used, and the requests with each key. */
  usage(id: string, options?: RequestOptions) {
    return this.transport.call('getUsage', { params: { id } }, options);
  }
  /** Adds a key. Existing keys stay valid, or expire at `old_keys_expire_at`. The new key is returned only here. */
  createKey(id: string, body: ApplicationKeyCreate = {}, options?: RequestOptions) {
    return this.transport.call('createKey', { params: { id }, body }, options);
  }
  /** Lists the keys, newest first, each with its last four characters. */
  async keys(id: string, options?: RequestOptions) {
    return (await this.transport.call('listKeys', { params: { id } }, options)).data;
  }
  /** Revokes one key immediately. */
  deleteKey(id: string, keyId: string, options?: RequestOptions) {
    return this.transport.call('deleteKey', { params: { id, key_id: keyId } }, options);
  }
}

class Delegations extends ResourceClient {
  /**
   * Issues a key for a job or an agent. Requires the key of a private application, which is its ceiling. List and end
   * delegations with `sessions`.
   */
  create(body: DelegationCreate, options?: ChangeOptions) {
    return this.transport.call('createDelegation', { body }, options);
  }
}

class Sessions extends ResourceClient {
  /** Creates a pending session. Requires the key of a public application. */
  create(options?: RequestOptions) {
    return this.transport.call('createSession', {}, options);
  }
  /**
   * Authorizes a pending session. Requires the key of a private or management application. A nonce works once. Returns
   * the id and the expiry of the session.
   */
  async authorize(body: SessionAuthorize, options?: RequestOptions): Promise<AuthorizedSession> {
    const headers = await this.transport.callForHeaders('authorizeSession', { body }, options);
    return { id: headers.get('SVC-SESSION-ID') ?? '', expiresAt: headers.get(sessionExpiryHeader) ?? '' };
  }
  /** Returns one page of sessions and delegations that have not expired, newest first. */
  list(query: Query<'listSessions'> = {}, options?: RequestOptions) {
    return this.transport.call('listSessions', { query }, options);
  }
  /** Iterates over all matching sessions, newest first. */
  all(query: Query<'listSessions'> = {}, options?: RequestOptions): AsyncGenerator<Session, void, undefined> {
    return paginate((page: Query<'listSessions'>) => this.list(page, options), { size: 100, ...query });
  }
  /** Returns a session or delegation. Throws `NotFoundError` if it has ended. */
  get(id: string, options?: RequestOptions) {
    return this.transport.call('getSession', { params: { id } }, options);
  }
  /** Ends a session immediately. */
  end(id: string, options?: RequestOptions) {
    return this.transport.call('endSession', { params: { id } }, options);
  }
  /** Ends all sessions of a subject immediately: for example when a user signs out everywhere. */
  endAll({ subject }: { subject: string }, options?: RequestOptions) {
    return this.transport.call('endSessions', { query: { subject } }, options);
  }
  /** Puts the session into quarantine. It can then change nothing and read no token data. */
  quarantine(id: string, options?: RequestOptions) {
    return this.transport.call('quarantineSession', { params: { id } }, options);
  }
  /** Ends the quarantine of the session. */
  release(id: string, options?: RequestOptions) {
    return this.transport.call('releaseSession', { params: { id } }, options);
  }
}

/** The result for one item of `createMany`: the token, or why it was refused. */
export type CreatedToken =
  | { readonly body: TokenCreate; readonly token: Token; readonly error?: undefined }
  | { readonly body: TokenCreate; readonly token?: undefined; readonly error: ProblemError };

/** Whether an item of the request is the cause, so that others can succeed. */
function isAboutItems(error: unknown): error is ProblemError {
  return error instanceof ProblemError && [400, 403, 409, 413, 507].includes(error.problem.status);
}

/** The items of a batch that its refusal names. */
function itemsIn({ problem: { errors = {} } }: ProblemError): ReadonlySet<number> {
  const items = Object.keys(errors).map((field) => /^tokens\.(\d+)(?:\.|$)/.exec(field)?.[1]);
  return new Set(items.flatMap((item) => (item === undefined ? [] : [Number(item)])));
}

/** The errors of a batch have the positions of its items. */
function withoutErrors({ problem: { errors: _, ...problem }, retryAfter }: ProblemError): ProblemError {
  return toError(problem, retryAfter);
}

const maxItems = 100;
/** Below the limit of a request, which is 1 MiB. */
const maxBatchBytes = 1_000_000;

async function* batchesOf(bodies: Iterable<TokenCreate> | AsyncIterable<TokenCreate>) {
  let [batch, bytes]: [TokenCreate[], number] = [[], 0];
  for await (const body of bodies) {
    const size = new TextEncoder().encode(JSON.stringify(body)).length + 1;
    if (batch.length === maxItems || (batch.length > 0 && bytes + size > maxBatchBytes)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(body);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

class Tokens extends ResourceClient {
  /** Stores a token, or returns the existing one with `unless_exists`. Throws `ConflictError` if the id is taken. */
  create(body: TokenCreate, options?: RequestOptions) {
    return this.transport.call('createToken', { body }, options);
  }
  /**
   * Creates tokens in batches of up to 100, and yields a result for each, in the order of `bodies`. It reads further
   * `bodies` only when their results are asked for. If a batch is refused, it is sent again without the items that the
   * service names, and these are sent one by one, so that bad items do not stop the others. Throws if no item could
   * succeed, such as for an invalid key.
   */
  async *createMany(
    bodies: Iterable<TokenCreate> | AsyncIterable<TokenCreate>,
    options?: Omit<RequestOptions, 'idempotencyKey'>,
  ): AsyncGenerator<CreatedToken, void, undefined> {
    for await (const batch of batchesOf(bodies)) yield* await this.#createAll(batch, options);
  }
  async #createAll(
    batch: readonly TokenCreate[],
    options: RequestOptions | undefined,
    // A refusal names up to 50 items.
    attempts = 3,
  ): Promise<CreatedToken[]> {
    let refusal: ProblemError;
    try {
      const { data } = await this.transport.call(
        'createTokens',
        { body: { tokens: batch as TokenCreate[] } },
        options,
      );
      return batch.map((body, at) => ({ body, token: data[at] as Token }));
    } catch (error) {
      if (!isAboutItems(error)) throw error;
      refusal = error;
    }
    const named = itemsIn(refusal);
    const others = attempts > 1 && named.size > 0 ? batch.filter((_, at) => !named.has(at)) : [];
    const created = others.length > 0 ? await this.#createAll(others, options, attempts - 1) : [];
    const results: CreatedToken[] = [];
    for (const [at, body] of batch.entries()) {
      const isOther = others.length > 0 && !named.has(at);
      // An item whose id another item has may only be taken by that one.
      const isTaken = refusal.code === 'token_exists' && named.has(at);
      const isAlone = batch.filter(({ id }) => id === body.id).length === 1;
      if (isOther) results.push(created.shift() as CreatedToken);
      else if (isTaken && isAlone) results.push({ body, error: withoutErrors(refusal) });
      else results.push(await this.#created(body, options));
    }
    return results;
  }
  async #created(body: TokenCreate, options: RequestOptions | undefined): Promise<CreatedToken> {
    try {
      return { body, token: await this.create(body, options) };
    } catch (error) {
      if (isAboutItems(error)) return { body, error };
      throw error;
    }
  }
  /** Returns one page of the tokens visible to this key, newest first. */
  list(query: Query<'listTokens'> = {}, options?: RequestOptions) {
    return this.transport.call('listTokens', { query }, options);
  }
  /** Iterates over all matching tokens visible to this key, newest first. */
  all(query: Query<'listTokens'> = {}, options?: RequestOptions): AsyncGenerator<Token, void, undefined> {
    return paginate((page: Query<'listTokens'>) => this.list(page, options), { size: 100, ...query });
  }
  /** Returns one page of the tokens with these values that this key can search and read, newest first. */
  search(body: TokenSearch, options?: RequestOptions) {
    return this.transport.call('searchTokens', { body }, options);
  }
  /** Iterates over all tokens with these values that this key can search and read, newest first. */
  searchAll(body: TokenSearch, options?: RequestOptions): AsyncGenerator<Token, void, undefined> {
    return paginate((page: TokenSearch) => this.search(page, options), { size: 100, ...body });
  }
  /**
   * Returns the token. The access rules decide whether its data is revealed, masked or redacted. With `transform`, less
   * of the data is returned than the rules allow.
   */
  get(id: string, options: RequestOptions & Query<'getToken'> = {}) {
    const { transform, ...rest } = options;
    const query = transform === undefined ? {} : { transform };
    return this.transport.call('getToken', { params: { id }, query }, rest);
  }
  /** Replaces data, mask, search templates, metadata and expiry. Those that are absent are removed. */
  replace(id: string, body: TokenReplace, options?: ChangeOptions) {
    return this.transport.call('replaceToken', { params: { id }, body }, options);
  }
  /** Applies a JSON merge patch. */
  update(id: string, body: TokenPatch, options?: ChangeOptions) {
    return this.transport.call('updateToken', { params: { id }, body }, options);
  }
  delete(id: string, options?: ChangeOptions) {
    return this.transport.call('deleteToken', { params: { id } }, options);
  }
  /**
   * Deletes the tokens in a container and below it that this key may delete, with as many requests as necessary, and
   * returns their number. `onProgress` is called after each request with the number so far.
   */
  async deleteMany(
    { container }: { container: string },
    { onProgress, ...options }: RequestOptions & { onProgress?: (deleted: number) => void } = {},
  ): Promise<number> {
    let deleted = 0;
    let start: string | undefined;
    do {
      const query = { container, ...(start !== undefined && { start }) };
      const reply = await this.transport.call('deleteTokens', { query }, options);
      deleted += reply.deleted;
      onProgress?.(deleted);
      start = reply.next;
    } while (start !== undefined);
    return deleted;
  }
}

class Destinations extends ResourceClient {
  /** Creates a destination. Throws `ConflictError` if the name is taken. */
  create(body: DestinationCreate, options?: RequestOptions) {
    return this.transport.call('createDestination', { body }, options);
  }
  /** Returns one page of destinations, newest first. */
  list(query: Query<'listDestinations'> = {}, options?: RequestOptions) {
    return this.transport.call('listDestinations', { query }, options);
  }
  /** Iterates over all matching destinations, newest first. */
  all(
    query: Query<'listDestinations'> = {},
    options?: RequestOptions,
  ): AsyncGenerator<Destination, void, undefined> {
    return paginate((page: Query<'listDestinations'>) => this.list(page, options), { size: 100, ...query });
  }
  /** Returns one page of the destinations that this key can use, with the requests that it can send. */
  usable(query: Query<'listUsableDestinations'> = {}, options?: RequestOptions) {
    return this.transport.call('listUsableDestinations', { query }, options);
  }
  get(id: string, options?: RequestOptions) {
    return this.transport.call('getDestination', { params: { id } }, options);
  }
  /** Replaces all fields except `origin`. Without `headers`, the stored headers do not change. */
  update(id: string, body: DestinationUpdate, options?: ChangeOptions) {
    return this.transport.call('updateDestination', { params: { id }, body }, options);
  }
  delete(id: string, options?: ChangeOptions) {
    return this.transport.call('deleteDestination', { params: { id } }, options);
  }
  /** Allows an application to use a token again after the destination has repeated its data. */
  allowUse(id: string, tokenId: string, application: string, options?: ChangeOptions) {
    const input = { params: { id, token_id: tokenId }, query: { application } };
    return this.transport.call('allowUse', input, options);
  }
}
