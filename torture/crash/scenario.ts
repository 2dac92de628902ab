/** A sequence of changes by one caller to its application, session and token, and the expected state. */
import type { Body } from '../fleet-clients.ts';
import type { Secrets } from '../secrets.ts';

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly key: string;
  readonly body?: unknown;
}

export interface Pending extends Request {
  /** Sent as `Idempotency-Key`, if the route supports it. */
  readonly name?: string;
}

/** A read and its expected response. */
export interface ExpectedResponse extends Request {
  readonly says: string;
  readonly status: number;
  /** The masked part of the token's data. */
  readonly shown?: string;
}

interface Step {
  request(): Request;
  /** Applies a successful response. */
  accept(body: Body): void;
  /** False if the change cannot be retried with the same idempotency key. */
  readonly repeatable?: false;
}

export class Scenario {
  readonly #number: string;
  readonly #management: string;
  readonly #secrets: Secrets;
  #application: { id: string; key: string; revokedKey?: string; gone?: true } | undefined;
  #session: { key: string; nonce: string; authorized?: true } | undefined;
  #token: { shown: string; gone?: true } | undefined;
  #done = 0;
  readonly #steps: readonly Step[];
  #pending: Pending | undefined;
  /** Whether the pending change was sent without a response, and may have happened. */
  inDoubt = false;

  constructor(number: string, management: string, secrets: Secrets, ending: 'stays' | 'new key' | 'goes') {
    this.#number = number;
    this.#management = management;
    this.#secrets = secrets;
    const endings = { stays: [], 'new key': [this.#regenerate], goes: [this.#deleteToken, this.#delete] };
    this.#steps = [
      this.#create,
      this.#createSession,
      this.#authorize,
      this.#createToken,
      this.#updateToken,
      ...endings[ending],
    ];
  }

  /** The next change, or the same one until it is accepted. Undefined at the end. */
  get pending(): Pending | undefined {
    const step = this.#steps[this.#done];
    if (!step) return undefined;
    this.#pending ??= { ...step.request(), ...(step.repeatable !== false && { name: crypto.randomUUID() }) };
    return this.#pending;
  }

  accept(body: Body): void {
    this.#steps[this.#done++]?.accept(body);
    this.#pending = undefined;
    this.inDoubt = false;
  }

  /** Reads, with the responses that follow from all acknowledged changes. */
  claims(): ExpectedResponse[] {
    return [...this.#ofKeys(), ...this.#ofSession(), ...this.#ofToken()];
  }

  #ofKeys(): ExpectedResponse[] {
    if (!this.#application) return [];
    const { key, revokedKey, gone } = this.#application;
    const claims = [this.#whoami(key, gone ? 401 : 200, 'the application key')];
    return revokedKey ? [...claims, this.#whoami(revokedKey, 401, 'a replaced key')] : claims;
  }

  #ofSession(): ExpectedResponse[] {
    if (!this.#session || !this.#application) return [];
    const { key, authorized } = this.#session;
    const status = this.#application.gone ? 401 : authorized ? 200 : 403;
    return [this.#whoami(key, status, 'the session key')];
  }

  #ofToken(): ExpectedResponse[] {
    if (!this.#token) return [];
    const { shown, gone } = this.#token;
    const read = { ...this.#asManager('GET', this.#tokenPath()), says: 'a Token' };
    return [gone ? { ...read, status: 404 } : { ...read, status: 200, shown }];
  }

  #whoami(key: string, status: number, says: string): ExpectedResponse {
    return { method: 'GET', path: '/applications/key', key, status, says };
  }

  #asManager(method: string, path: string, body?: unknown): Request {
    return { method, path, key: this.#management, ...(body !== undefined && { body }) };
  }

  #tokenPath(): string {
    return `/tokens/${this.#number}`;
  }

  readonly #grants = { permissions: ['application:read'] };

  readonly #create: Step = {
    request: () => {
      const body = { name: `application ${this.#number}`, type: 'public', ...this.#grants };
      return this.#asManager('POST', '/applications', body);
    },
    accept: ({ id, key }) => {
      this.#application = { id, key: this.#secrets.add(key) };
    },
  };

  readonly #createSession: Step = {
    repeatable: false,
    request: () => ({ method: 'POST', path: '/sessions', key: this.#application?.key as string }),
    accept: ({ session_key, nonce }) => {
      this.#session = { key: this.#secrets.add(session_key), nonce: this.#secrets.add(nonce) };
    },
  };

  readonly #authorize: Step = {
    request: () => {
      const body = { nonce: this.#session?.nonce, ...this.#grants };
      return this.#asManager('POST', '/sessions/authorize', body);
    },
    accept: () => {
      if (this.#session) this.#session.authorized = true;
    },
  };

  #content(ending: string) {
    return { data: `${this.#secrets.plaintext(this.#number)}${ending}`, mask: '{{ data | last: 3 }}' };
  }

  readonly #createToken: Step = {
    request: () => this.#asManager('POST', '/tokens', { id: this.#number, ...this.#content('one') }),
    accept: () => {
      this.#token = { shown: 'one' };
    },
  };

  readonly #updateToken: Step = {
    request: () => this.#asManager('PATCH', this.#tokenPath(), this.#content('two')),
    accept: () => {
      this.#token = { shown: 'two' };
    },
  };

  readonly #deleteToken: Step = {
    request: () => this.#asManager('DELETE', this.#tokenPath()),
    accept: () => {
      if (this.#token) this.#token.gone = true;
    },
  };

  readonly #regenerate: Step = {
    request: () => this.#asManager('POST', `/applications/${this.#application?.id}/regenerate`),
    accept: ({ key }) => {
      const { id, key: revokedKey } = this.#application as { id: string; key: string };
      this.#application = { id, key: this.#secrets.add(key), revokedKey };
    },
  };

  readonly #delete: Step = {
    request: () => this.#asManager('DELETE', `/applications/${this.#application?.id}`),
    accept: () => {
      if (this.#application) this.#application.gone = true;
    },
  };
}
