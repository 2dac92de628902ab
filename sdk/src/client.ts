/** The service, operation by operation. */
import type {
  Application,
  ApplicationCreate,
  ApplicationUpdate,
  Decision,
  DecisionRequest,
  Decisions,
  LogEntry,
  Resource,
  Session,
  SessionAuthorize,
  Token,
  TokenCreate,
  TokenPatch,
} from './api.ts';
import { type CallOptions, type Input, type Options, type Transport, transport } from './transport.ts';

type Query<O extends 'listApplications' | 'listSessions' | 'listTokens' | 'listLogs'> = NonNullable<
  Input<O>['query']
>;
type Ask = Omit<DecisionRequest, 'resource' | 'resources'>;

export class Sallyport {
  readonly applications: Applications;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly logs: Logs;
  readonly #transport: Transport;

  constructor(options: Options) {
    this.#transport = transport(options);
    this.applications = new Applications(this.#transport);
    this.sessions = new Sessions(this.#transport);
    this.tokens = new Tokens(this.#transport);
    this.logs = new Logs(this.#transport);
  }

  /** Whether a credential may do something, how much it may see, and why. */
  decide(ask: Ask & { resource?: Resource }, options?: CallOptions): Promise<Decision> {
    return this.#transport.call('decide', { body: ask }, options) as Promise<Decision>;
  }

  /** The same for up to 100 resources at once, answered in their order. */
  decideAll(ask: Ask & { resources: Resource[] }, options?: CallOptions): Promise<Decisions> {
    return this.#transport.call('decide', { body: ask }, options) as Promise<Decisions>;
  }

  /** The tenant that the key belongs to. */
  tenant(options?: CallOptions) {
    return this.#transport.call('getTenant', {}, options);
  }

  /** The permissions that are built in. */
  async permissions(options?: CallOptions) {
    return (await this.#transport.call('listPermissions', {}, options)).data;
  }

  /** Resolves if requests should be sent there, and throws if not. */
  async ready(options?: CallOptions): Promise<void> {
    await this.#transport.call('ready', {}, options);
  }
}

abstract class Room {
  protected readonly transport: Transport;
  constructor(transport: Transport) {
    this.transport = transport;
  }
}

interface Page<T> {
  readonly pagination: { readonly next?: string };
  readonly data: T[];
}

/** Entry after entry, fetching the next page when it is needed. */
async function* entries<T, Q extends { start?: string; page?: number }>(
  fetch: (query: Q) => Promise<Page<T>>,
  query: Q,
): AsyncGenerator<T, void, undefined> {
  let { data, pagination } = await fetch(query);
  yield* data;
  while (pagination.next !== undefined) {
    const { page: _, ...rest } = query;
    ({ data, pagination } = await fetch({ ...(rest as Q), start: pagination.next }));
    yield* data;
  }
}

class Applications extends Room {
  /** The reply is the only one that shows the key. */
  create(body: ApplicationCreate, options?: CallOptions) {
    return this.transport.call('createApplication', { body }, options);
  }
  list(query: Query<'listApplications'> = {}, options?: CallOptions) {
    return this.transport.call('listApplications', { query }, options);
  }
  /** Every one that matches, newest first, page after page. */
  all(
    query: Query<'listApplications'> = {},
    options?: CallOptions,
  ): AsyncGenerator<Application, void, undefined> {
    return entries((page: Query<'listApplications'>) => this.list(page, options), { size: 100, ...query });
  }
  get(id: string, options?: CallOptions) {
    return this.transport.call('getApplication', { params: { id } }, options);
  }
  /** The one whose key this client uses. */
  own(options?: CallOptions) {
    return this.transport.call('getApplicationByKey', {}, options);
  }
  update(id: string, body: ApplicationUpdate, options?: CallOptions) {
    return this.transport.call('updateApplication', { params: { id }, body }, options);
  }
  /** Every older key is dead when this resolves. */
  regenerate(id: string, options?: CallOptions) {
    return this.transport.call('regenerateKey', { params: { id } }, options);
  }
  delete(id: string, options?: CallOptions) {
    return this.transport.call('deleteApplication', { params: { id } }, options);
  }
  /** What its grants were used for, and which of them never. */
  usage(id: string, options?: CallOptions) {
    return this.transport.call('getUsage', { params: { id } }, options);
  }
  /** One more, beside those that go on working. The reply is the only one that shows it. */
  createKey(id: string, options?: CallOptions) {
    return this.transport.call('createKey', { params: { id } }, options);
  }
  /** All of them, newest first, by their last four characters. */
  async keys(id: string, options?: CallOptions) {
    return (await this.transport.call('listKeys', { params: { id } }, options)).data;
  }
  /** It is dead when this resolves. */
  deleteKey(id: string, keyId: string, options?: CallOptions) {
    return this.transport.call('deleteKey', { params: { id, key_id: keyId } }, options);
  }
}

class Sessions extends Room {
  /** With the key of a public Application. */
  create(options?: CallOptions) {
    return this.transport.call('createSession', {}, options);
  }
  /** With the key of a backend, once per nonce. */
  authorize(body: SessionAuthorize, options?: CallOptions) {
    return this.transport.call('authorizeSession', { body }, options);
  }
  /** Those whose key works, newest first. */
  list(query: Query<'listSessions'> = {}, options?: CallOptions) {
    return this.transport.call('listSessions', { query }, options);
  }
  all(query: Query<'listSessions'> = {}, options?: CallOptions): AsyncGenerator<Session, void, undefined> {
    return entries((page: Query<'listSessions'>) => this.list(page, options), { size: 100, ...query });
  }
  /** It is dead when this resolves. */
  end(id: string, options?: CallOptions) {
    return this.transport.call('endSession', { params: { id } }, options);
  }
}

class Tokens extends Room {
  create(body: TokenCreate, options?: CallOptions) {
    return this.transport.call('createToken', { body }, options);
  }
  list(query: Query<'listTokens'> = {}, options?: CallOptions) {
    return this.transport.call('listTokens', { query }, options);
  }
  all(query: Query<'listTokens'> = {}, options?: CallOptions): AsyncGenerator<Token, void, undefined> {
    return entries((page: Query<'listTokens'>) => this.list(page, options), { size: 100, ...query });
  }
  get(id: string, options?: CallOptions) {
    return this.transport.call('getToken', { params: { id } }, options);
  }
  /** A JSON merge patch. */
  update(id: string, body: TokenPatch, options?: CallOptions) {
    return this.transport.call('updateToken', { params: { id }, body }, options);
  }
  delete(id: string, options?: CallOptions) {
    return this.transport.call('deleteToken', { params: { id } }, options);
  }
}

class Logs extends Room {
  list(query: Query<'listLogs'> = {}, options?: CallOptions) {
    return this.transport.call('listLogs', { query }, options);
  }
  all(query: Query<'listLogs'> = {}, options?: CallOptions): AsyncGenerator<LogEntry, void, undefined> {
    return entries((page: Query<'listLogs'>) => this.list(page, options), { size: 100, ...query });
  }
}
