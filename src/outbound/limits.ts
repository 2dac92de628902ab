/**
 * Limits of requests to destinations. Circuit breakers: several failures in a row suspend further attempts for some time;
 * then one at a time is allowed. Slots: how many requests run at a time, so that slow destinations and busy applications
 * leave room for others.
 */
import { fail } from '../domain/error.ts';

/** Undefined: the attempt says nothing, for example because it was given up before a request was sent. */
export type Outcome = 'answered' | 'failed' | undefined;

/** Reports how an attempt ended. Only the first call counts. */
export type EndAttempt = (outcome?: Outcome) => void;

/** After so many failures in a row, no attempt is allowed for `suspension` milliseconds, then one. */
export const maxFailures = 5;
export const suspension = 10_000;
const maxNames = 10_000;

export class CircuitBreakers {
  readonly #now: () => number;
  /** Names that have failed since their last answer, the latest failure last. `until`: when the next attempt is allowed. */
  readonly #failing = new Map<string, { readonly failures: number; until: number }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Throws `destination_suspended`. */
  begin(name: string): EndAttempt {
    const failing = this.#failing.get(name);
    // After a suspension, one attempt finds out whether there is an answer again.
    const isTrial = failing !== undefined && failing.failures >= maxFailures;
    if (isTrial && this.#now() < failing.until)
      throw suspended('The last requests to this destination failed.', failing.until - this.#now());
    const until = this.#now() + suspension;
    if (isTrial) failing.until = until;
    let hasEnded = false;
    return (outcome) => {
      if (hasEnded) return;
      hasEnded = true;
      if (outcome === 'answered') this.#failing.delete(name);
      else if (outcome === 'failed') this.#fail(name, isTrial);
      else if (isTrial && failing.until === until) failing.until = this.#now();
    };
  }

  /** The names for which no attempt is allowed at present. */
  suspended(): string[] {
    return [...this.#failing.keys()].filter((name) => {
      const { failures, until } = this.#failing.get(name) as { failures: number; until: number };
      return failures >= maxFailures && this.#now() < until;
    });
  }

  #fail(name: string, isTrial: boolean): void {
    const failures = this.#failing.get(name)?.failures ?? 0;
    // An attempt from before the suspension does not extend it.
    if (failures >= maxFailures && !isTrial) return;
    this.#failing.delete(name);
    this.#failing.set(name, { failures: failures + 1, until: this.#now() + suspension });
    if (this.#failing.size > maxNames) this.#failing.delete(this.#failing.keys().next().value as string);
  }
}

export interface SlotUser {
  readonly tenantId: string;
  /** The destination. */
  readonly id: string;
  readonly applicationId: string;
  /** Requests to the destination at a time. */
  readonly maxInFlight: number;
}

/** So large that one destination can have `max_in_flight` requests, at most 1,000. */
const maxPerTenant = 1250;
const maxWaiting = 50;

interface Tenant {
  /** Requests in progress, in total as `total` and by each name of `namesOf`. */
  readonly running: Map<string, number>;
  readonly waiting: { readonly user: SlotUser; readonly start: () => void }[];
}

const namesOf = ({ id, applicationId }: SlotUser) => [id, applicationId, `${id} ${applicationId}`] as const;

export class Slots {
  readonly #tenants = new Map<string, Tenant>();

  /**
   * Returns a function to call at the end. Waits at most `timeout` milliseconds. Throws `destination_suspended` if that
   * is not enough, or if too many requests of the application wait for this destination.
   */
  async enter(user: SlotUser, timeout: number): Promise<() => void> {
    const tenant = this.#tenants.get(user.tenantId) ?? { running: new Map(), waiting: [] };
    this.#tenants.set(user.tenantId, tenant);
    if (hasRoom(tenant, user)) count(tenant, user, 1);
    else await wait(tenant, user, timeout);
    return () => {
      count(tenant, user, -1);
      for (const { user: next, start } of [...tenant.waiting]) if (hasRoom(tenant, next)) start();
      if (tenant.running.size === 0) this.#tenants.delete(user.tenantId);
    };
  }
}

/**
 * An application takes at most four times the slots of a destination that are free, so four fifths if no other uses it.
 * The same holds for a destination or an application, and the slots of the tenant. When one becomes free, those that
 * have fewer get it first.
 */
function hasRoom({ running }: Tenant, user: SlotUser): boolean {
  const [destination, application, both] = namesOf(user).map((name) => running.get(name) ?? 0) as [
    number,
    number,
    number,
  ];
  const ofTenant = maxPerTenant - (running.get('total') ?? 0);
  return Math.max(destination, application) < 4 * ofTenant && both < 4 * (user.maxInFlight - destination);
}

function count({ running }: Tenant, user: SlotUser, change: 1 | -1): void {
  for (const name of ['total', ...namesOf(user)]) {
    const next = (running.get(name) ?? 0) + change;
    if (next > 0) running.set(name, next);
    else running.delete(name);
  }
}

/** Returns when the request may run. It is counted then. */
function wait(tenant: Tenant, user: SlotUser, timeout: number): Promise<void> {
  const { waiting } = tenant;
  const isSame = (other: SlotUser) => other.id === user.id && other.applicationId === user.applicationId;
  if (waiting.filter((each) => isSame(each.user)).length >= maxWaiting)
    throw suspended('Too many requests wait.', 1000);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const leave = () => {
    clearTimeout(timer);
    waiting.splice(waiting.indexOf(entry), 1);
  };
  const entry = {
    user,
    start: () => {
      leave();
      count(tenant, user, 1);
      resolve();
    },
  };
  const timer = setTimeout(() => {
    leave();
    reject(suspended('Too many requests wait.', 1000));
  }, timeout);
  waiting.push(entry);
  return promise;
}

function suspended(reason: string, wait: number) {
  const detail = `${reason} The request was not sent. Retry after the number of seconds in \`Retry-After\`.`;
  return fail('destination_suspended', { detail, retryAfter: Math.ceil(wait / 1000), expected: true });
}
