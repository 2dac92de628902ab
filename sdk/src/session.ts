/** The two doors, from both sides: a browser starts a Session, its backend authorizes it. */
import type { SessionAuthorize } from './api.ts';
import { Sallyport } from './client.ts';
import { SallyportError } from './errors.ts';
import { unlessAborted, within } from './patience.ts';
import { type CallOptions, longestAttempt, type Options } from './transport.ts';

export interface StartOptions extends Omit<Options, 'key'> {
  /** The key of a public Application. */
  readonly publicKey: string;
  /** Hands the nonce to your backend; resolves when the backend has authorized the Session. */
  readonly authorize: (nonce: string) => Promise<unknown>;
  /**
   * Milliseconds before its end at which the Session is replaced by a new one: 20 seconds unless told otherwise,
   * and never before half of its life is over. Where that fails, it is used until its end.
   */
  readonly renewBefore?: number;
}

export interface StartedSession {
  /** Calls with the key of the Session, and renews the Session when it is about to end, or has ended early. */
  readonly client: Sallyport;
  /** The key of the Session, for services of your own that ask Sallyport about it; renewed like the client's. */
  key(): Promise<string>;
  /** When the present Session ends, unless the backend has said otherwise. */
  readonly expiresAt: Date;
  /** No new Session is started from now on. */
  stop(): void;
}

/** For browsers: creates a Session, has it authorized, and keeps one alive for as long as it is used. */
export async function startSession(options: StartOptions): Promise<StartedSession> {
  const { publicKey, authorize, renewBefore = 20_000, ...rest } = options;
  const { timeout = longestAttempt } = rest;
  const send = rest.fetch ?? globalThis.fetch.bind(globalThis);
  const door = new Sallyport({ ...rest, key: publicKey });
  let stopped = false;
  let renewing: Promise<string> | undefined;
  let current = await open();

  async function open(): Promise<Opened> {
    const { session_key, nonce, expires_at } = await door.sessions.create();
    const end = Date.parse(expires_at);
    const useful = Math.min(Math.max(end - Date.now(), timeout), longestTimer);
    await within(useful, 'authorization', () => authorize(nonce));
    return { key: session_key, end, renewAt: renewalOf(end - Date.now(), renewBefore) };
  }

  /** Requests that come while a new Session is under way share it. */
  function renewed(): Promise<string> {
    renewing ??= open()
      .then(
        (opened) => {
          current = opened;
          return opened.key;
        },
        (cause: unknown) => {
          throw new SallyportError('the Session could not be renewed', { cause });
        },
      )
      .finally(() => {
        renewing = undefined;
      });
    return renewing;
  }

  /** A Session that turns out to be over is replaced, and the request sent once more. */
  async function sendTwice(url: string, init: RequestInit & { headers: Record<string, string> }) {
    const response = await send(url, init);
    if (response.status !== 401 || stopped) return response;
    const used = init.headers['SVC-API-KEY'];
    const key = used === current.key ? await unlessAborted(init.signal ?? undefined, renewed) : current.key;
    return send(url, { ...init, headers: { ...init.headers, 'SVC-API-KEY': key } });
  }

  /** While the old key works, a new one is waited for no longer than a moment, and may fail to come. */
  async function key(): Promise<string> {
    if (stopped || Date.now() < current.renewAt) return current.key;
    if (Date.now() >= current.end) return within(timeout, 'new Session', renewed);
    return within(moment, 'new Session', renewed).catch(() => {
      current = { ...current, renewAt: nextTry(current.end) };
      return current.key;
    });
  }

  return {
    key,
    client: new Sallyport({
      ...rest,
      key,
      fetch: sendTwice as typeof globalThis.fetch,
    }),
    get expiresAt() {
      return new Date(current.end);
    },
    stop: () => {
      stopped = true;
    },
  };
}

const moment = 1000;
/** Milliseconds that a timer can be set for: a clock may be wrong by more. */
const longestTimer = 2 ** 31 - 1;

interface Opened {
  readonly key: string;
  readonly end: number;
  readonly renewAt: number;
}

/** By a clock that runs ahead, a new Session is over already: such a clock says nothing about when to renew. */
function renewalOf(left: number, renewBefore: number): number {
  if (left <= 0) return Number.POSITIVE_INFINITY;
  return Date.now() + Math.max(left - renewBefore, left / 2);
}

/** Not at every request, but after half of the time that is left. */
function nextTry(end: number): number {
  const half = (end - Date.now()) / 2;
  return half < moment ? end : Date.now() + half;
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
