/**
 * Connections to destinations: checked addresses, persistent connections, limits per tenant, destination and application,
 * and circuit breakers. All state is in memory of this process.
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
  type StreamedReply,
} from './http-connection.ts';
import { CircuitBreakers, type EndAttempt, Slots, type SlotUser } from './limits.ts';

export interface DestinationTarget extends Certificates, SlotUser {
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
  /**
   * See `HttpConnection.stream`. `timeout` of `open` is that until the head of the reply, and each `next` has it again, up to
   * an hour in all.
   */
  stream(request: OutboundRequest): Promise<StreamedReply>;
  /** Returns the connection for reuse, if it is usable. Otherwise closes it. */
  release(): void;
}

export interface Outbound {
  /**
   * Connects, or reuses an idle connection. Throws `destination_unreachable` if that fails, and
   * `destination_suspended` if too many requests wait or the last ones failed. Sends no request. `timeout` is for
   * connecting and the exchange, in milliseconds. The time before, to wait for others, is limited, too.
   */
  open(target: DestinationTarget, timeout: number): Promise<Lease>;
  /** The ids of destinations that get no requests at present, at least of one application: the last ones failed. */
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

/** Idle connections of a tenant. */
const maxIdlePerTenant = 50;
/** Servers close idle connections after 5 seconds or more. */
const maxIdle = 4_000;
const connectTimeout = 10_000;
const maxStream = 3_600_000;
const setting = 'add it to SALLYPORT_DESTINATION_NETWORKS';

interface Idle {
  /** Destination, version and address. Connections with the same name are interchangeable. */
  readonly name: string;
  readonly connection: HttpConnection;
  readonly since: number;
}

export function outboundDestinations({ allowPrivate, resolve, now, onFailure }: OutboundOptions): Outbound {
  const idle = new IdleConnections(now);
  const slots = new Slots();
  const breakers = new CircuitBreakers(now);

  /** Returns whether the connection is a new one. */
  async function connected(target: DestinationTarget, signal: AbortSignal) {
    const url = new URL(target.origin);
    const address = await beforeAbort(checkedAddress(url.hostname, allowPrivate, resolve, setting), signal);
    const name = `${target.id} ${target.version} ${address}`;
    const kept = idle.take(target.tenantId, name);
    const connection = kept ?? (await connect(url, address, target, signal));
    return { name, connection, isNew: kept === undefined };
  }

  return {
    open: async (target, timeout) => {
      // Callers cannot make connecting fail, but their requests can make a destination hang: that is counted for each
      // application.
      const endConnecting = breakers.begin(target.id);
      let endExchange: EndAttempt = () => {};
      let leave = () => {};
      const deadline = new Deadline();
      const { signal } = deadline;
      try {
        endExchange = breakers.begin(`${target.id} ${target.applicationId}`);
        leave = await slots.enter(target, Math.min(timeout, connectTimeout));
        const began = now();
        deadline.set(Math.min(timeout, connectTimeout));
        const { name, connection, isNew } = await connected(target, signal);
        deadline.clear();
        if (isNew) endConnecting('answered');
        const rest = timeout - (now() - began);
        const answered = async <T>(reply: Promise<T>): Promise<T> => {
          // Not before: the caller has recorded that it sends the request, which may have taken long.
          deadline.set(rest);
          try {
            return await reply;
          } finally {
            // A reply that is too large or not valid is an answer: it may repeat what the caller has sent.
            const isAnswered = connection.hasAnswered && !signal.aborted;
            endExchange(isAnswered ? 'answered' : 'failed');
            endConnecting(isAnswered ? 'answered' : undefined);
          }
        };
        return {
          isOpen: () => connection.isOpen,
          exchange: (request, limit) => answered(connection.exchange(request, signal, limit)),
          stream: async (request) => {
            const reply = await answered(connection.stream(request, signal));
            return withDeadlines(reply, deadline, timeout, now() + maxStream, now);
          },
          release: () => {
            deadline.clear();
            leave();
            endExchange();
            endConnecting();
            idle.keep(target.tenantId, name, connection);
          },
        };
      } catch (error) {
        deadline.clear();
        // Until the system gives up, the attempt counts, so that sockets to a destination are limited.
        if (error instanceof ConnectTimeout) void error.attempt.finally(leave);
        else leave();
        endExchange();
        const isSuspended = (error as { code?: Code }).code === 'destination_suspended';
        endConnecting(isSuspended ? undefined : 'failed');
        if (isSuspended) throw error;
        onFailure(target, error);
        throw fail('destination_unreachable', { expected: true, cause: error });
      }
    },
    suspended: () => [...new Set(breakers.suspended().map((name) => name.split(' ')[0] as string))],
    close: () => idle.close(),
  };
}

/** Aborts once. `AbortSignal.timeout` would stay in memory until it aborts, long after most requests. */
class Deadline {
  readonly #controller = new AbortController();
  #timer: Timer | undefined;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** In milliseconds from now. Replaces an earlier one. */
  set(milliseconds: number): void {
    this.clear();
    this.#timer = setTimeout(() => this.#controller.abort(), Math.max(1, milliseconds));
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** Each part has `timeout` milliseconds to arrive, and all have until `end`. */
function withDeadlines(
  reply: StreamedReply,
  deadline: Deadline,
  timeout: number,
  end: number,
  now: () => number,
): StreamedReply {
  const next = () => {
    deadline.set(Math.min(timeout, end - now()));
    return reply.next().finally(() => deadline.clear());
  };
  return { ...reply, next };
}

/** Connections that wait for the next request, at most `maxIdlePerTenant` of a tenant. */
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
    if (this.#idle.get(tenantId)?.length === maxIdlePerTenant) this.#prune();
    const kept = this.#idle.get(tenantId) ?? [];
    const added = { name, connection, since: this.#now() };
    if (!this.#isUsable(added)) return;
    if (kept.length === maxIdlePerTenant) kept.shift()?.connection.close();
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
