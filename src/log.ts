/** One JSON object a line on standard error; a person at a terminal gets the same in words. */
import { logLevels } from './config.ts';
import { escapeJson, escapeLines } from './domain/escape.ts';
import { redactSecrets } from './domain/key.ts';

export type Level = (typeof logLevels)[number];
type Fields = Record<string, unknown>;

export interface Log {
  /** Whether anything of this level is written. */
  watches(level: Level): boolean;
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

export interface LogOptions {
  readonly level: Level;
  readonly write?: (line: string) => void;
  readonly forPeople?: boolean;
  readonly now?: () => number;
}

export function makeLog(options: LogOptions): Log {
  const { level, forPeople = process.stderr.isTTY, now = Date.now } = options;
  const write = options.write ?? ((line: string) => process.stderr.write(`${line}\n`));
  const least = logLevels.indexOf(level);
  const stacks = new Stacks(now);
  const at = (name: Exclude<Level, 'silent'>) => {
    if (logLevels.indexOf(name) < least) return () => {};
    return (message: string, fields: Fields = {}) => {
      const time = new Date(now()).toISOString();
      const plain = Object.fromEntries(
        Object.entries(fields).map(([key, value]) => [key, stacks.printable(value)]),
      );
      const line = forPeople
        ? escapeLines(forEyes(time, name, message, plain))
        : escapeJson(JSON.stringify({ time, level: name, message, ...plain }));
      write(redactSecrets(line));
    };
  };
  return {
    watches: (name) => logLevels.indexOf(name) >= least,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
}

function forEyes(time: string, level: string, message: string, fields: Fields): string {
  const rest = Object.entries(fields).map(
    ([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return `${time.slice(11, 19)} ${level.padEnd(5)} ${message}${rest.join('')}`;
}

/** Milliseconds for which a stack is not written again, and how many are kept in mind. */
const quiet = 60_000;
const mostStacks = 100;

/** A failure that goes on fails every request: its stack is written now and then, its message every time. */
class Stacks {
  readonly #written = new Map<string, number>();
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
    const last = this.#written.get(stack);
    if (last !== undefined && Math.abs(now - last) < quiet) return false;
    this.#written.delete(stack);
    this.#written.set(stack, now);
    if (this.#written.size > mostStacks) this.#written.delete(this.#written.keys().next().value as string);
    return true;
  }
}
