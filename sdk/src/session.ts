/** The two doors, from both sides: a browser starts a Session, its backend authorizes it. */
import type { SessionAuthorize } from './api.ts';
import { Sallyport } from './client.ts';
import type { CallOptions, Options } from './transport.ts';

export interface StartOptions extends Omit<Options, 'key'> {
  /** The key of a public Application. */
  readonly publicKey: string;
  /** Hands the nonce to your backend; resolves when the backend has authorized the Session. */
  readonly authorize: (nonce: string) => Promise<unknown>;
  /** Milliseconds before its end at which the Session is replaced by a new one; 20 seconds unless told otherwise. */
  readonly renewBefore?: number;
}

export interface StartedSession {
  /** Calls with the key of the Session, and renews the Session when it is about to end. */
  readonly client: Sallyport;
  /** When the present Session ends, unless the backend has said otherwise. */
  readonly expiresAt: Date;
  /** No new Session is started from now on. */
  stop(): void;
}

/** For browsers: creates a Session, has it authorized, and keeps one alive for as long as it is used. */
export async function startSession(options: StartOptions): Promise<StartedSession> {
  const { publicKey, authorize, renewBefore = 20_000, ...rest } = options;
  const door = new Sallyport({ ...rest, key: publicKey });
  let stopped = false;
  let current = await open();
  let renewing: Promise<Opened> | undefined;

  async function open(): Promise<Opened> {
    const { session_key, nonce, expires_at } = await door.sessions.create();
    await authorize(nonce);
    return { key: session_key, end: Date.parse(expires_at) };
  }

  /** Requests that come while a new Session is under way share it. */
  async function key(): Promise<string> {
    if (stopped || Date.now() < current.end - renewBefore) return current.key;
    renewing ??= open().finally(() => {
      renewing = undefined;
    });
    current = await renewing;
    return current.key;
  }

  return {
    client: new Sallyport({ ...rest, key }),
    get expiresAt() {
      return new Date(current.end);
    },
    stop: () => {
      stopped = true;
    },
  };
}

interface Opened {
  readonly key: string;
  readonly end: number;
}

/** For backends: opens the second door, once, for what is named. */
export async function authorizeSession(
  client: Sallyport,
  nonce: string,
  grant: Omit<SessionAuthorize, 'nonce'>,
  options?: CallOptions,
): Promise<void> {
  await client.sessions.authorize({ nonce, ...grant }, options);
}
