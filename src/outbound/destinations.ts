/**
 * Connections to destinations: checked addresses, persistent connections, limits per tenant and destination, and a
 * circuit breaker. All state is in memory of this process.
 */
import { type Code, fail } from '../domain/error.ts';
import { type AllowPrivate, beforeAbort, checkedAddress, type Resolve } from './address.ts';
import {
  type BodyLimit,
  type Certificates,
  ConnectTimeout,
  connect,
  type HttpConnection,
  type OutboundReply,
  type OutboundRequest,
} from './http-connection.ts';

export interface DestinationTarget extends Certificates {
  readonly tenantId: string;
  readonly id: string;
  /** Changes with every update, so that a connection with an old certificate is not used again. */
  readonly version: string;
  readonly origin: string;
}

/** A connection that this request alone uses. */
export interface Lease {
  /** False after the destination has closed the connection. */
  isOpen(): boolean;
  /** See `HttpConnection.exchange`. */
  exchange(request: OutboundRequest, limit?: BodyLimit): Promise<OutboundReply>;
  /** Returns the connection for reuse, if it is usable. `isFailure`: whether the destination failed. */
  release(isFailure: boolean): void;
}

export interface Outbound {
  /**
   * Connects, or reuses an idle connection. Throws `destination_unreachable` if that fails, and
   * `destination_suspended` if too many requests wait or the last ones failed. Sends no request. `timeout` is for
   * connecting and the exchange, in milliseconds.
   */
  open(target: DestinationTarget, timeout: number): Promise<Lease>;
  /** The ids of the destinations that get no requests at present, because the last ones failed. */
  suspended(): string[];
  /** Closes idle connections. */
  close(): void;
}

export interface OutboundOptions {
  readonly allowPrivate: AllowPrivate;
  readonly resolve: Resolve;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Receives what an operator needs to know about a failure, without secrets. */
  readonly onFailure: (target: DestinationTarget, error: unknown) => void;
}

const maxPerDestination = 20;
const maxPerTenant = 50;
const maxWaiting = 50;
/** Servers close idle connections after 5 seconds or more. */
const maxIdle = 4_000;
const connectTimeout = 10_000;
const setting = 'add it to SALLYPORT_DESTINATION_NETWORKS';
/** After so many failures in a row, a destination gets no request for `suspension` milliseconds, then one. */
const maxFailures = 5;
const suspension = 10_000;

interface Idle {
  /** Destination, version and address. Connections with the same name are interchangeable. */
  readonly name: string;
  readonly connection: HttpConnection;
  readonly since: number;
}

export function outboundDestinations({ allowPrivate, resolve, now, onFailure }: OutboundOptions): Outbound {
  const idle = new IdleConnections(now);
  const destinations = new Slots(maxPerDestination);
  const tenants = new Slots(maxPerTenant);
  const breakers = breakersOf(now);

  async function connected(
    target: DestinationTarget,
    signal: AbortSignal,
  ): Promise<[string, HttpConnection]> {
    const url = new URL(target.origin);
    const address = await beforeAbort(checkedAddress(url.hostname, allowPrivate, resolve, setting), signal);
    const name = `${target.id} ${target.version} ${address}`;
    const kept = idle.take(target.tenantId, name);
    return [name, kept ?? (await connect(url, address, target, signal))];
  }

  return {
    open: async (target, timeout) => {
      breakers.check(target.id);
      // `AbortSignal.timeout` would stay in memory until it aborts, long after most requests.
      const deadline = new AbortController();
      const { signal } = deadline;
      const began = now();
      let timer = setTimeout(() => deadline.abort(), Math.min(timeout, connectTimeout));
      let [leaveDestination, leaveTenant] = [() => {}, () => {}];
      const leave = (attempt?: Promise<unknown>) => {
        clearTimeout(timer);
        leaveTenant();
        if (attempt) void attempt.finally(leaveDestination);
        else leaveDestination();
      };
      try {
        // In this order, so that requests that wait for a slow destination do not take the slots of others.
        leaveDestination = await destinations.enter(target.id, signal);
        leaveTenant = await tenants.enter(target.tenantId, signal);
        const [name, connection] = await connected(target, signal);
        clearTimeout(timer);
        const rest = Math.max(1, timeout - (now() - began));
        return {
          isOpen: () => connection.isOpen,
          exchange: (request, limit) => {
            // Not before: the caller has recorded that it sends the request, which may have taken long.
            timer = setTimeout(() => deadline.abort(), rest);
            return connection.exchange(request, signal, limit);
          },
          release: (isFailure) => {
            leave();
            breakers.count(target.id, isFailure);
            idle.keep(target.tenantId, name, connection);
          },
        };
      } catch (error) {
        // Until the system gives up, the attempt counts, so that sockets to a destination are limited.
        leave(error instanceof ConnectTimeout ? error.attempt : undefined);
        if ((error as { code?: Code }).code === 'destination_suspended') throw error;
        breakers.count(target.id, true);
        onFailure(target, error);
        throw fail('destination_unreachable', { expected: true, cause: error });
      }
    },
    suspended: breakers.suspended,
    close: () => idle.close(),
  };
}

/** Suspends destinations after `maxFailures` in a row. */
function breakersOf(now: () => number) {
  const breakers = new Map<string, { failures: number; until: number }>();

  function isSuspended(id: string): boolean {
    const { failures = 0, until = 0 } = breakers.get(id) ?? {};
    return failures >= maxFailures && now() < until;
  }

  function check(id: string): void {
    const breaker = breakers.get(id);
    if (!breaker || breaker.failures < maxFailures) return;
    if (isSuspended(id))
      throw suspended('The last requests to this destination failed.', breaker.until - now());
    // One request finds out whether the destination answers again.
    breaker.until = now() + suspension;
  }

  function count(id: string, isFailure: boolean): void {
    if (!isFailure) breakers.delete(id);
    else breakers.set(id, { failures: (breakers.get(id)?.failures ?? 0) + 1, until: now() + suspension });
  }

  return { check, count, suspended: () => [...breakers.keys()].filter(isSuspended) };
}

/** Connections that wait for the next request, at most `maxPerTenant` of a tenant. */
class IdleConnections {
  readonly #now: () => number;
  /** By tenant, the oldest first. */
  readonly #idle = new Map<string, Idle[]>();
  #timer: Timer | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  take(tenantId: string, name: string): HttpConnection | undefined {
    const kept = this.#idle.get(tenantId) ?? [];
    for (;;) {
      const at = kept.findLastIndex((each) => each.name === name);
      const [found] = at < 0 ? [] : kept.splice(at, 1);
      if (!found || this.#isUsable(found)) return found?.connection;
    }
  }

  /** Closes the connection if it cannot be used again, or the oldest of the tenant if there are too many. */
  keep(tenantId: string, name: string, connection: HttpConnection): void {
    if (this.#idle.get(tenantId)?.length === maxPerTenant) this.#prune();
    const kept = this.#idle.get(tenantId) ?? [];
    const added = { name, connection, since: this.#now() };
    if (!this.#isUsable(added)) return;
    if (kept.length === maxPerTenant) kept.shift()?.connection.close();
    kept.push(added);
    this.#idle.set(tenantId, kept);
    this.#timer ??= setTimeout(() => this.#prune(), maxIdle + 100).unref();
  }

  close(): void {
    for (const { connection } of [...this.#idle.values()].flat()) connection.close();
    this.#idle.clear();
  }

  /** Closes connections that were idle for too long, or that the server has closed. */
  #prune(): void {
    for (const [tenantId, kept] of this.#idle) {
      const usable = kept.filter((each) => this.#isUsable(each));
      if (usable.length > 0) this.#idle.set(tenantId, usable);
      else this.#idle.delete(tenantId);
    }
    clearTimeout(this.#timer);
    const again = () => setTimeout(() => this.#prune(), maxIdle + 100).unref();
    this.#timer = this.#idle.size > 0 ? again() : undefined;
  }

  /** Closes the connection if not. */
  #isUsable({ connection, since }: Idle): boolean {
    const isUsable = connection.isOpen && this.#now() - since < maxIdle;
    if (!isUsable) connection.close();
    return isUsable;
  }
}

function suspended(reason: string, wait: number) {
  const detail = `${reason} The request was not sent. Retry after the number of seconds in \`Retry-After\`.`;
  return fail('destination_suspended', { detail, retryAfter: Math.ceil(wait / 1000), expected: true });
}

/** Limits how many requests of one name run concurrently. Others wait in order; beyond `maxWaiting` they are refused. */
class Slots {
  readonly #max: number;
  readonly #names = new Map<string, { running: number; waiting: (() => void)[] }>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns a function to call at the end. Throws `destination_suspended` if too many wait, or `signal` aborts first. */
  async enter(name: string, signal: AbortSignal): Promise<() => void> {
    const slot = this.#names.get(name) ?? { running: 0, waiting: [] };
    this.#names.set(name, slot);
    if (slot.running >= this.#max) {
      if (slot.waiting.length >= maxWaiting) throw suspended('Too many requests wait.', 1000);
      await new Promise<void>((resolve, reject) => {
        slot.waiting.push(resolve);
        const giveUp = () => {
          const at = slot.waiting.indexOf(resolve);
          if (at < 0) return;
          slot.waiting.splice(at, 1);
          reject(suspended('Too many requests wait.', 1000));
        };
        signal.addEventListener('abort', giveUp, { once: true });
      });
    } else slot.running++;
    return () => {
      const next = slot.waiting.shift();
      if (next) next();
      else if (--slot.running === 0) this.#names.delete(name);
    };
  }
}
