/** Runs random commands against the service and the model, and compares the results. */
import type { Client } from './client.ts';
import type { Body } from './fleet-clients.ts';
import { Model, type ModelApplication } from './model.ts';
import type { Random } from './random.ts';
import { containers, someGrants } from './random-grants.ts';
import type { Secrets } from './secrets.ts';

const maxKeys = 3;

export interface HistoryContext {
  readonly client: Client;
  readonly tenantId: string;
  /** A management key with all permissions. */
  readonly owner: string;
  readonly now: () => number;
  readonly sessionTtl: number;
  readonly random: Random;
  readonly secrets: Secrets;
  switchTenant(on: boolean): Promise<unknown>;
}

export class History {
  readonly #context: HistoryContext;
  readonly #model: Model;
  readonly #random: Random;
  /** The commands so far, and the first difference between service and model. */
  readonly done: string[] = [];
  difference: string | undefined;
  /** Requests and responses without ids and keys, identical on every database. */
  trace = '';
  /** Whether the database timed out, so that the outcome of the last command is unknown. */
  brokenOff = false;

  constructor(context: HistoryContext) {
    this.#context = context;
    this.#random = context.random;
    this.#model = new Model(context.now);
  }

  async step(): Promise<void> {
    if (this.brokenOff || this.difference !== undefined) return;
    if (!this.#model.enabled && this.#random.chance(0.6)) return this.#switch(true);
    const { applications, sessions, tokens } = this.#model;
    const able = this.#commands.filter(
      ([, needs]) =>
        needs === 'nothing' ||
        { application: applications, session: sessions, token: tokens }[needs].length > 0,
    );
    const weighted = able.flatMap(([weight, , command]) => Array<Command>(weight).fill(command));
    await this.#random.one(weighted).call(this);
  }

  readonly #commands: readonly [weight: number, needs: Needs, command: Command][] = [
    [4, 'nothing', this.#create],
    [3, 'nothing', this.#createToken],
    [2, 'application', this.#update],
    [1, 'application', this.#regenerate],
    [1, 'application', this.#addKey],
    [1, 'application', this.#deleteKey],
    [1, 'application', this.#delete],
    [3, 'application', this.#createSession],
    [4, 'session', this.#authorize],
    [1, 'token', this.#deleteToken],
    [8, 'token', this.#read],
    [3, 'application', this.#whoami],
    [2, 'token', this.#listTokens],
    [1, 'application', this.#listApplications],
    [1, 'application', this.#switchOff],
  ];

  /** Sends a request and compares the status. Returns the body if the expected success arrived. */
  async #ask(expected: number, method: string, path: string, key: string, body?: unknown): Promise<Body> {
    const right = this.#model.enabled ? expected : 401;
    const { status, text } = await this.#context.client.call(method, path, { key, body });
    if (status === 201 || path.endsWith('/regenerate')) this.#context.secrets.addFrom(text);
    const sent = `${method} ${path} ${body === undefined ? '' : JSON.stringify(body)}`;
    this.done.push(`${this.#context.now()} ${sent} → ${status}`);
    this.trace += `${method} ${path.split('/')[1]} ${status}\n`;
    if (status === 503) this.brokenOff = true;
    else if (status !== right) this.#differ(`${status}, not ${right}: ${text}`);
    return status < 300 && status === right ? (text === '' ? {} : JSON.parse(text)) : undefined;
  }

  #differ(sentence: string): void {
    this.difference ??= `${sentence}\n  ${this.done.join('\n  ')}`;
  }

  #owned(expected: number, method: string, path: string, body?: unknown): Promise<Body> {
    return this.#ask(expected, method, path, this.#context.owner, body);
  }

  /** A random expiry or none. It is often the exact time of another event. */
  #ending(): number | undefined {
    return this.#random.chance(0.4) ? this.#context.now() + 1000 * (1 + this.#random.below(5)) : undefined;
  }

  #application(): ModelApplication {
    return this.#random.one(this.#model.applications);
  }

  async #create(): Promise<void> {
    const type = this.#random.one(['private', 'public'] as const);
    const grants = someGrants(this.#random, false, type === 'private' ? ['session:authorize'] : []);
    const endsAt = this.#ending();
    const body = {
      name: 'x',
      type,
      ...grants,
      ...(endsAt && { expires_at: new Date(endsAt).toISOString() }),
    };
    const made = await this.#owned(201, 'POST', '/applications', body);
    if (!made) return;
    const ends = endsAt ?? Number.POSITIVE_INFINITY;
    const first = { id: 'first', secret: made.key };
    this.#model.applications.push({ id: made.id, type, grants, keys: [first], endsAt: ends, gone: false });
  }

  async #update(): Promise<void> {
    const application = this.#application();
    const grants = someGrants(
      this.#random,
      false,
      application.type === 'private' ? ['session:authorize'] : [],
    );
    const expected = this.#model.isAlive(application) ? 200 : 404;
    if (await this.#owned(expected, 'PUT', `/applications/${application.id}`, { name: 'y', ...grants })) {
      application.grants = grants;
    }
  }

  async #regenerate(): Promise<void> {
    const application = this.#application();
    const expected = this.#model.isAlive(application) ? 200 : 404;
    const made = await this.#owned(expected, 'POST', `/applications/${application.id}/regenerate`);
    if (!made) return;
    this.#model.retire(application);
    application.keys = [{ id: 'first', secret: made.key }];
  }

  async #addKey(): Promise<void> {
    const application = this.#application();
    const free = application.keys.length < maxKeys ? 201 : 409;
    const expected = this.#model.isAlive(application) ? free : 404;
    const made = await this.#owned(expected, 'POST', `/applications/${application.id}/keys`);
    if (made) application.keys.push({ id: made.id, secret: made.key });
  }

  async #deleteKey(): Promise<void> {
    const application = this.#application();
    const key = application.keys.find(({ id }) => id !== 'first');
    const expected = key && this.#model.isAlive(application) ? 204 : 404;
    const id = key?.id ?? crypto.randomUUID();
    if (!(await this.#owned(expected, 'DELETE', `/applications/${application.id}/keys/${id}`))) return;
    if (key) this.#model.retire(application, [key]);
  }

  async #delete(): Promise<void> {
    const application = this.#application();
    const expected = this.#model.isAlive(application) ? 204 : 404;
    if (await this.#owned(expected, 'DELETE', `/applications/${application.id}`)) application.gone = true;
  }

  async #createSession(): Promise<void> {
    const webs = this.#model.applications.filter(({ type }) => type === 'public');
    const { keys } = this.#random.one(webs.length > 0 ? webs : this.#model.applications);
    const secret = this.#random.one([...keys.map((key) => key.secret), ...this.#model.retired, 'none']);
    const principal = this.#model.principalOf(secret);
    const expected = !principal
      ? 401
      : principal.isSession || principal.application.type !== 'public'
        ? 403
        : 201;
    const made = await this.#ask(expected, 'POST', '/sessions', secret);
    if (!made || !principal) return;
    const { application } = principal;
    const createdAt = this.#context.now();
    const endsAt = Math.min(createdAt + this.#context.sessionTtl, application.endsAt);
    const { session_key, nonce } = made;
    const session = { secret: session_key, nonce, application, createdAt, endsAt };
    this.#model.sessions.push({ ...session, grants: undefined, ceiling: undefined });
  }

  async #authorize(): Promise<void> {
    const { nonce } = this.#random.one(this.#model.sessions);
    const secret = this.#anySecret();
    const grants = someGrants(this.#random, true);
    const endsAt = this.#ending();
    const expected = this.#model.authorize(secret, nonce, grants, endsAt);
    const body = { nonce, ...grants, ...(endsAt && { expires_at: new Date(endsAt).toISOString() }) };
    await this.#ask(expected, 'POST', '/sessions/authorize', secret, body);
  }

  async #createToken(): Promise<void> {
    const data = this.#context.secrets.plaintext('history');
    const [container, masked, endsAt] = [
      this.#random.one(containers),
      `m${this.#random.below(1e6)}`,
      this.#ending(),
    ];
    const body = {
      container,
      data,
      mask: masked,
      ...(endsAt && { expires_at: new Date(endsAt).toISOString() }),
    };
    const made = await this.#owned(201, 'POST', '/tokens', body);
    if (!made) return;
    const ends = endsAt ?? Number.POSITIVE_INFINITY;
    this.#model.tokens.push({ id: made.id, container, data, masked, endsAt: ends, gone: false });
  }

  async #deleteToken(): Promise<void> {
    const token = this.#random.one(this.#model.tokens);
    const expected = this.#model.isAlive(token) ? 204 : 404;
    if (await this.#owned(expected, 'DELETE', `/tokens/${token.id}`)) token.gone = true;
  }

  /** A random key or nonce, usually a valid one. */
  #anySecret(): string {
    const all = [...this.#model.secrets, 'none'];
    const living = all.filter((secret) => this.#model.principalOf(secret));
    return this.#random.one(living.length > 0 && this.#random.chance(0.7) ? living : all);
  }

  async #read(): Promise<void> {
    const [secret, token] = [this.#anySecret(), this.#random.one(this.#model.tokens)];
    const expected = this.#model.read(secret, token);
    const seen = await this.#ask(expected.status, 'GET', `/tokens/${token.id}`, secret);
    if (seen && expected.status === 200 && seen.data !== expected.data) {
      this.#differ(`returned data ${seen.data} instead of ${expected.data}`);
    }
  }

  async #whoami(): Promise<void> {
    const secret = this.#anySecret();
    const expected = this.#model.whoami(secret);
    const seen = await this.#ask(expected.status, 'GET', '/applications/key', secret);
    if (seen && expected.status === 200 && seen.id !== expected.id) this.#differ(`returned id ${seen.id}`);
  }

  async #listTokens(): Promise<void> {
    const secret = this.#anySecret();
    const principal = this.#model.principalOf(secret);
    const expected = !principal ? 401 : this.#model.holds(principal, 'token:read') ? 200 : 403;
    const seen = await this.#ask(expected, 'GET', '/tokens?size=100', secret);
    if (!seen) return;
    const visible = this.#model.tokens.filter((token) => this.#model.read(secret, token).status === 200);
    this.#compare(seen.data, visible);
  }

  async #listApplications(): Promise<void> {
    const seen = await this.#owned(200, 'GET', '/applications?size=100');
    if (!seen) return;
    const others = seen.data.filter(({ created_by }: Body) => created_by !== undefined);
    this.#compare(
      others,
      this.#model.applications.filter((application) => this.#model.isAlive(application)),
    );
  }

  /** `seen` is ordered newest first, `expected` oldest first. */
  #compare(seen: readonly { id: string }[], expected: readonly { id: string }[]): void {
    const [left, right] = [seen.map(({ id }) => id), expected.map(({ id }) => id).toReversed()];
    if (!Bun.deepEquals(left, right)) this.#differ(`listed ${left} instead of ${right}`);
  }

  async #switchOff(): Promise<void> {
    if (this.#random.chance(0.3)) await this.#switch(false);
  }

  async #switch(on: boolean): Promise<void> {
    await this.#context.switchTenant(on);
    this.done.push(on ? 'enable the tenant' : 'disable the tenant');
    this.#model.enabled = on;
  }
}

type Needs = 'nothing' | 'application' | 'session' | 'token';
type Command = (this: History) => Promise<void>;
