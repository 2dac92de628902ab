/**
 * A Sallyport in memory, for tests of applications in Node 20 or later. It answers requests with the handlers, the rules
 * and the validation of the service. The implementation is in ../testing, and the build bundles it into this module.
 */

export interface FakeOptions {
  /** The URL that the fake answers. Default: `http://sallyport.test`. */
  readonly url?: string;
  /** The current time in milliseconds. Default: `Date.now`, which fake timers of test frameworks replace. */
  readonly now?: () => number;
  /** Lifetime of a session in seconds. Default: 180. */
  readonly sessionTtl?: number;
  /** The purposes that requests may state. Default: every purpose. */
  readonly purposes?: readonly string[];
}

/** A request that the fake has answered. */
export interface RecordedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** Names are lower-case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The parsed JSON. Undefined without a body. */
  readonly body: unknown;
  /** The status of the response. */
  readonly status: number;
}

/** It can be passed to clients: `new Sallyport(fake)`, `startSession({ ...fake, publicKey, authorize })`. */
export interface FakeSallyport {
  readonly url: string;
  /** The key of a management application with every built-in permission. */
  readonly key: string;
  readonly fetch: typeof globalThis.fetch;
  /** All requests so far, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** Ends all sessions and delegations. Their next request gets 401. */
  expireSessions(): void;
  /** Revokes a key of an application, or ends the session or delegation of the key. Throws if the key is unknown. */
  revoke(key: string): void;
  /** Moves the clock of the fake forward. */
  advance(milliseconds: number): void;
}

/** Each call returns a new, empty tenant. */
export declare function fakeSallyport(options?: FakeOptions): FakeSallyport;
