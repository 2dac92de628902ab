/**
 * Writes one JSON object per line to standard error, or text on a terminal. Repeated failures are written once per
 * second, with a count.
 */
import { logLevels } from '../config/settings.ts';
import { escapeJson, escapeLines } from '../domain/escape.ts';
import { redactSecrets } from '../domain/key.ts';
import { FailureLimiter } from './log-limit.ts';

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
