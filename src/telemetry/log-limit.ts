/** Limits log lines about repeated failures, for example if every request fails while the disk is full. */

type Fields = Readonly<Record<string, unknown>>;
type Write = (level: string, message: string, fields: Fields) => void;

/** Milliseconds between two lines about failures of the same kind. */
const interval = 1000;
const maxKinds = 100;

interface Kind {
  writtenAt: number;
  /** Failures since `writtenAt` that were not written. */
  heldBack: number;
  /** Writes the newest of these failures, with their number. */
  writeNewest: () => void;
}

/**
 * Applies to lines with the field `error`. Writes the first failure of a kind immediately. After that, writes one line
 * per second: the newest failure, with the number of failures since the previous line as `count`.
 */
export class FailureLimiter {
  readonly #write: Write;
  readonly #now: () => number;
  readonly #kinds = new Map<string, Kind>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: Write, now: () => number) {
    this.#write = write;
    this.#now = now;
  }

  readonly write: Write = (level, message, fields) => {
    if (fields.error === undefined) return this.#write(level, message, fields);
    const kind = this.#kindOf(message, fields);
    kind.heldBack++;
    kind.writeNewest = () => {
      const { heldBack: count } = kind;
      Object.assign(kind, { writtenAt: this.#now(), heldBack: 0, writeNewest: () => {} });
      this.#write(level, message, count > 1 ? { ...fields, count } : fields);
    };
    if (this.#isDue(kind)) kind.writeNewest();
    else this.#timer ??= setTimeout(this.flush, interval).unref();
  };

  readonly flush = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const { heldBack, writeNewest } of this.#kinds.values()) if (heldBack > 0) writeNewest();
  };

  /** Whether the interval has passed, or the clock was set back by more than that. */
  #isDue({ writtenAt }: Kind): boolean {
    return Math.abs(this.#now() - writtenAt) >= interval;
  }

  /** If there are too many kinds, further failures with the same message count as one kind. */
  #kindOf(message: string, fields: Fields): Kind {
    const name = nameOf(message, fields);
    if (this.#kinds.size >= maxKinds && !this.#kinds.has(name)) this.#forget();
    return this.#find(this.#kinds.size < maxKinds || this.#kinds.has(name) ? name : message);
  }

  #find(name: string): Kind {
    const known = this.#kinds.get(name);
    if (known) return known;
    const kind = { writtenAt: Number.NEGATIVE_INFINITY, heldBack: 0, writeNewest: () => {} };
    this.#kinds.set(name, kind);
    return kind;
  }

  #forget(): void {
    for (const [name, kind] of this.#kinds)
      if (kind.heldBack === 0 && this.#isDue(kind)) this.#kinds.delete(name);
  }
}

/** Fields that distinguish kinds of failures. Other fields, such as the request id, differ for each failure. */
const distinctive = ['code', 'sink', 'error'];

function nameOf(message: string, fields: Fields): string {
  return [message, ...distinctive.map((name) => describe(fields[name]))].join('\n');
}

/** Replaces numbers in an error message, such as a port, so that they do not make a new kind. */
function describe(value: unknown): string {
  if (!(value instanceof Error)) return value === undefined ? '' : String(value).slice(0, 200);
  const text = `${value.name}: ${value.message}`.slice(0, 200).replace(/\d+/g, '0');
  return value.cause === undefined ? text : `${text} ← ${describe(value.cause)}`;
}
