/** The declaration of a setting, and functions that parse values. Every function throws a message such as "must be …". */
import { join, resolve } from 'node:path';
import { parseDuration } from './domain/duration.ts';
import { Secret } from './domain/key.ts';
import { parseMasterKeys } from './store/crypto/cipher.ts';
import { parsePostgresUrl } from './store/engine/postgres-url.ts';

/** One setting: a flag, an environment variable and a line in `.env`. */
export interface Setting<T> {
  readonly variable: string;
  readonly description: string;
  /** Has no flag, because every user of the machine can read argument lists. */
  readonly secret?: true;
  /** Must not come from `.env`, because its author could run any program. */
  readonly notInEnvFile?: true;
  /** The default in help and documentation. Every one but `unset` is also a valid value. */
  readonly fallback: string;
  /** Returns the default for undefined. May use settings that are declared before. Throws a message such as "must be …". */
  readonly parse: (text: string | undefined, settings: { dataDir: string }) => T;
}

export function integer(text: string | undefined, fallback: number, min: number, max: number): number {
  if (text === undefined) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new Error(`must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

export function zeroOrInteger(text: string | undefined, fallback: number, min: number, max: number): number {
  if (text === '0') return 0;
  try {
    return integer(text, fallback, min, max);
  } catch {
    throw new Error(`must be 0 or a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
  }
}

/** Milliseconds. Undefined if unset. */
export function duration(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = parseDuration(text);
  if (value) return value;
  throw new Error(`must be a duration such as 90d, 24h, 30m or 10s, not ${JSON.stringify(text)}`);
}

export function oneOf<T extends string>(text: string, values: readonly T[]): T {
  if ((values as readonly string[]).includes(text)) return text as T;
  throw new Error(`must be one of ${values.join(', ')}, not ${JSON.stringify(text)}`);
}

/** `sqlite:PATH` or `postgres://…`. The value may contain a password, so the message does not repeat it. */
export function databaseUrl(text: string | undefined, { dataDir }: { dataDir: string }): string {
  if (text === undefined) return `sqlite:${join(dataDir, 'sallyport.db')}`;
  if (/^sqlite:./.test(text)) return `sqlite:${resolve(text.slice('sqlite:'.length))}`;
  parsePostgresUrl(text);
  return text;
}

/**
 * The program and its arguments, split at spaces. Quotes group text with spaces; there are no escapes, variables or
 * other features of a shell. The value may contain secrets, so the message does not repeat it.
 */
export function commandLine(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const words = text.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const isComplete = text.replace(/"[^"]*"|'[^']*'/g, '').search(/["']/) < 0;
  const argv = words.map((word) =>
    word.replace(/"([^"]*)"|'([^']*)'/g, (_, one = '', two = '') => one + two),
  );
  if (isComplete && argv[0]) return argv;
  throw new Error('must be a program with its arguments; every quote must be closed');
}

export function checkedMasterKey(text: string): Secret {
  parseMasterKeys(text);
  return new Secret(text);
}
