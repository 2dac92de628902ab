/** Milliseconds that anything waits at most for what is under way to come back. */
const hold = 2;

export interface Gathering {
  /** How many may leave together. */
  readonly most: number;
  /** How many loads may be under way. */
  readonly lanes: number;
}

/**
 * Whatever is added within one tick, or while an earlier load is under way, leaves together, after the last of it
 * was added: the busier it is, the more of it shares a load. `send` never rejects.
 */
export function gather<T>(
  send: (load: T[]) => Promise<void>,
  { most, lanes }: Gathering = { most: Infinity, lanes: Infinity },
): (one: T) => void {
  let waiting: T[] = [];
  let out = 0;
  let held: ReturnType<typeof setTimeout> | undefined;

  function leaveOrHold(): void {
    if (out === 0 || waiting.length >= most) leave();
    else held ??= setTimeout(leave, hold);
  }

  async function leave(): Promise<void> {
    clearTimeout(held);
    held = undefined;
    if (waiting.length === 0 || out >= lanes) return;
    const load = waiting.slice(0, most);
    waiting = waiting.slice(load.length);
    out++;
    if (waiting.length > 0) leaveOrHold();
    await send(load);
    out--;
    if (waiting.length > 0) leave();
  }

  return (one) => {
    const count = waiting.push(one);
    if (count === 1 || count === most) setImmediate(leaveOrHold);
  };
}
