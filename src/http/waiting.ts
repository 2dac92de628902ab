/**
 * How many Sessions of one Application may wait to be authorized, so that a public key cannot fill the disk.
 * Making one costs no count of all: the last count is good for a moment, together with what came since.
 */

import type { Awaitable } from '../domain/awaitable.ts';
import { fail } from '../domain/error.ts';

export interface WaitingRoom {
  /** Throws if it is full. Answers with what to call when the request is done. */
  enter(tenant: string, application: string): Promise<() => void>;
}

/** For how many milliseconds a count is good: what other processes made, or what was freed, is known then. */
const freshness = 1000;
/** More Applications than this at once are counted again. */
const mostRooms = 10_000;

interface Room {
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

export function makeWaitingRoom(
  most: number,
  count: Count,
  now: () => number,
  turnedAway: () => void,
): WaitingRoom {
  const rooms = new Map<string, Room>();

  function roomOf(application: string): Room {
    const known = rooms.get(application);
    if (known) return known;
    if (rooms.size >= mostRooms) rooms.clear();
    const room = { countedAt: -freshness, counted: 0, since: 0, entering: 0, counting: undefined };
    rooms.set(application, room);
    return room;
  }

  const isFull = ({ counted, since, entering }: Room) => counted + since + entering >= most;

  /** A fresh count will do, unless it takes those who came since to make the room full: others may have left. */
  function isKnown(room: Room): boolean {
    return now() - room.countedAt < freshness && (room.counted >= most || !isFull(room));
  }

  async function recount(room: Room, tenant: string, application: string): Promise<void> {
    const before = room.since;
    room.counted = await count(tenant, application, most);
    room.since -= before;
    room.countedAt = now();
  }

  /** Whoever comes while it counts waits for the same count. */
  async function refresh(room: Room, tenant: string, application: string): Promise<void> {
    const counting = room.counting ?? recount(room, tenant, application);
    room.counting = counting;
    try {
      await counting;
    } finally {
      if (room.counting === counting) room.counting = undefined;
    }
  }

  return {
    enter: async (tenant, application) => {
      const room = roomOf(application);
      if (!isKnown(room)) await refresh(room, tenant, application);
      if (isFull(room)) {
        turnedAway();
        const detail = `This Application has ${most} Sessions that nobody has authorized yet, the most that it may have: try again when some were authorized or have ended.`;
        throw fail('too_many_requests', { detail });
      }
      room.entering++;
      return () => {
        room.entering--;
        room.since++;
      };
    },
  };
}

/** Without a limit. */
export const openRoom: WaitingRoom = { enter: async () => () => {} };
