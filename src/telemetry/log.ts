/**
 * Writes one JSON object per line to standard error, or text on a terminal. Repeated failures are written once per
 * second, with a count.
 */
import { logLevels } from '../config/settings.ts';
import { cut, escapeJson, escapeLines } from '../domain/escape.ts';
import { redactSecrets } from '../domain/key.ts';

export type Level = (typeof logLevels)[number];
type Fields = Record<string, unknown>;

export interface Log {
  /** Whether messages of this level are written. */
  isEnabled(level: Level): boolean;
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
  /** Writes the failures that were held back in the last second. */
  flush(): void;
}

export interface LogOptions {
  readonly level: Level;
  readonly write?: (line: string) => void;
  /** Text instead of JSON. Default: whether standard error is a terminal. */
  readonly asText?: boolean;
  readonly now?: () => number;
}

export function makeLog(options: LogOptions): Log {
  const { level, asText = process.stderr.isTTY, now = Date.now } = options;
  const write = options.write ?? ((line: string) => process.stderr.write(`${line}\n`));
  const minLevel = logLevels.indexOf(level);
  const stacks = new StackLimiter(now);
  const writeLine = (name: string, message: string, fields: Fields) => {
    const time = new Date(now()).toISOString();
    const values = Object.fromEntries(
      Object.entries(fields).map(([key, value]) => [key, stacks.printable(value)]),
    );
    const line = asText
      ? escapeLines(formatText(time, name, message, values))
      : escapeJson(JSON.stringify({ time, level: name, message, ...values }));
    write(redactSecrets(line));
  };
  const failures = new FailureLimiter(writeLine, now);
  const at = (name: Exclude<Level, 'silent'>, writer: typeof writeLine) => {
    if (logLevels.indexOf(name) < minLevel) return () => {};
    return (message: string, fields: Fields = {}) => writer(name, message, fields);
  };
  return {
    isEnabled: (name) => logLevels.indexOf(name) >= minLevel,
    debug: at('debug', writeLine),
    info: at('info', writeLine),
    warn: at('warn', failures.write),
    error: at('error', failures.write),
    flush: failures.flush,
  };
}

function formatText(time: string, level: string, message: string, fields: Fields): string {
  const rest = Object.entries(fields).map(
    ([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return `${time.slice(11, 19)} ${level.padEnd(5)} ${message}${rest.join('')}`;
}

/** Milliseconds before the same stack trace is written again, and the maximum number of stack traces in memory. */
const stackInterval = 60_000;
const maxStacks = 100;

/** Writes each stack trace only once per minute, because a lasting failure affects every request. */
class StackLimiter {
  readonly #writtenAt = new Map<string, number>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  printable(value: unknown): unknown {
    if (!(value instanceof Error)) return value;
    const cause = value.cause === undefined ? '' : ` ← ${this.printable(value.cause)}`;
    const stack = value.stack ?? value.message;
    return `${this.#isDue(stack) ? stack : `${value.name}: ${value.message}`}${cause}`;
  }

  #isDue(stack: string): boolean {
    const now = this.#now();
    const last = this.#writtenAt.get(stack);
    if (last !== undefined && Math.abs(now - last) < stackInterval) return false;
    this.#writtenAt.delete(stack);
    this.#writtenAt.set(stack, now);
    if (this.#writtenAt.size > maxStacks)
      this.#writtenAt.delete(this.#writtenAt.keys().next().value as string);
    return true;
  }
}

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
 * Limits log lines about repeated failures, for example if every request fails while the disk is full.
 *
 * Applies to lines with the field `error`. Writes the first failure of a kind immediately. After that, writes one line
 * per second: the newest failure, with the number of failures since the previous line as `count`.
 */
class FailureLimiter {
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
const distinctive = ['code', 'sink', 'worker', 'error'];

function nameOf(message: string, fields: Fields): string {
  return [message, ...distinctive.map((name) => describe(fields[name]))].join('\n');
}

/** Replaces numbers in an error message, such as a port, so that they do not make a new kind. */
function describe(value: unknown): string {
  if (!(value instanceof Error)) return value === undefined ? '' : cut(String(value), 200);
  const text = cut(`${value.name}: ${value.message}`, 200).replace(/\d+/g, '0');
  return value.cause === undefined ? text : `${text} ← ${describe(value.cause)}`;
}
