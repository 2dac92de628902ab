/**
 * Quotas of one application: how many sessions may wait to be authorized, and how many bytes of tokens may be
 * stored, so that a public key cannot fill the disk. Not every request counts anew: the last count is used for a
 * second, together with what this process has added since.
 */

import { type Awaitable, then } from '../../domain/awaitable.ts';
import type { Failure } from '../../domain/error.ts';

export interface PendingSessionLimit {
  /** Throws if `amount` more would exceed the quota. Returns what to call when the request is done. */
  enter(tenant: string, application: string, amount?: number): Awaitable<() => void>;
}

/** For how many milliseconds a count is good: what other processes made, or what was freed, is known then. */
const freshness = 1000;
/** More Applications than this at once are counted again. */
const maxApplications = 10_000;

interface PendingCount {
  countedAt: number;
  counted: number;
  /** Made here since it was counted. */
  since: number;
  /** Being made here: whether a count sees them is not known. */
  entering: number;
  counting: Promise<void> | undefined;
}

/** Counts up to `most`. */
type Count = (tenant: string, application: string, most: number) => Awaitable<number>;

export function pendingSessionLimit(
  most: number,
  count: Count,
  now: () => number,
  full: () => Failure,
): PendingSessionLimit {
  const rooms = new Map<string, PendingCount>();

  function roomOf(application: string): PendingCount {
    const known = rooms.get(application);
    if (known) return known;
    if (rooms.size >= maxApplications) rooms.clear();
    const room = { countedAt: -freshness, counted: 0, since: 0, entering: 0, counting: undefined };
    rooms.set(application, room);
    return room;
  }

  const isFull = ({ counted, since, entering }: PendingCount, amount: number) =>
    counted + since + entering + amount > most;

  /** A fresh count will do, unless only what came since makes it full: there may be room again. */
  function isKnown(room: PendingCount, amount: number): boolean {
    return now() - room.countedAt < freshness && (room.counted + amount > most || !isFull(room, amount));
  }

  function admit(room: PendingCount, amount: number): () => void {
    if (isFull(room, amount)) throw full();
    room.entering += amount;
    return () => {
      room.entering -= amount;
      room.since += amount;
    };
  }

  async function recount(room: PendingCount, tenant: string, application: string): Promise<void> {
    const before = room.since;
    room.counted = await count(tenant, application, most);
    room.since -= before;
    room.countedAt = now();
  }

  /** Whoever comes while it counts waits for the same count. */
  async function refresh(room: PendingCount, tenant: string, application: string): Promise<void> {
    const counting = room.counting ?? recount(room, tenant, application);
    room.counting = counting;
    try {
      await counting;
    } finally {
      if (room.counting === counting) room.counting = undefined;
    }
  }

  return {
    enter: (tenant, application, amount = 1) => {
      const room = roomOf(application);
      if (isKnown(room, amount)) return admit(room, amount);
      return then(refresh(room, tenant, application), () => admit(room, amount));
    },
  };
}

/** Without a limit. */
export const unlimitedPending: PendingSessionLimit = { enter: () => () => {} };
