/** The type of a setting, and functions that parse values. They throw messages such as "must be …". */
import { join, resolve } from 'node:path';
import { parseMasterKeys } from '../db/keys/cipher.ts';
import { parsePostgresUrl } from '../db/postgres/postgres-url.ts';
import { type Age, parseAge } from '../domain/duration.ts';
import { Secret } from '../domain/key.ts';
import { isIssuerUrl } from '../domain/trusted-issuer.ts';

/** One setting: a flag, an environment variable and a line in `.env`. */
export interface Setting<T> {
  readonly variable: string;
  readonly description: string;
  /** The setting has no flag, because every user of the machine can read the arguments of a process. */
  readonly secret?: true;
  /** The setting must not come from `.env`: a person who can write that file could run any program. */
  readonly notInEnvFile?: true;
  /** The default that help and documentation show. A valid value, or `unset`. */
  readonly fallback: string;
  /** Returns the default if `text` is undefined. May use settings that are declared earlier. */
  readonly parse: (text: string | undefined, settings: { dataDir: string }) => T;
}

export function integer(text: string | undefined, fallback: number, min: number, max: number): number {
  if (text === undefined) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new Error(`must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

/** The default and the parser of a setting with a whole number, which is multiplied by `unit`. */
export function whole(fallback: number, min: number, max: number, unit = 1) {
  const parse = (text: string | undefined) => integer(text, fallback, min, max) * unit;
  return { fallback: String(fallback), parse };
}

export function zeroOrInteger(text: string | undefined, fallback: number, min: number, max: number): number {
  if (text === '0') return 0;
  try {
    return integer(text, fallback, min, max);
  } catch {
    throw new Error(`must be 0 or a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
  }
}

/** Returns undefined if the setting is unset. */
export function age(text: string | undefined): Age | undefined {
  if (text === undefined) return undefined;
  const value = parseAge(text);
  if (value) return value;
  throw new Error(`must be an age such as 3mo, 90d, 24h, 30m or 10s, not ${JSON.stringify(text)}`);
}

export function oneOf<T extends string>(text: string, values: readonly T[]): T {
  if ((values as readonly string[]).includes(text)) return text as T;
  throw new Error(`must be one of ${values.join(', ')}, not ${JSON.stringify(text)}`);
}

/** The SQLite file that the service uses without DATABASE_URL. */
export function defaultDatabase(dataDir: string): string {
  return join(dataDir, 'sallyport.db');
}

/** Accepts `sqlite:PATH` or `postgres://…`. The value may contain a password, so error messages do not repeat it. */
export function databaseUrl(text: string | undefined, { dataDir }: { dataDir: string }): string {
  if (text === undefined) return `sqlite:${defaultDatabase(dataDir)}`;
  if (/^sqlite:./.test(text)) return `sqlite:${resolve(text.slice('sqlite:'.length))}`;
  parsePostgresUrl(text);
  return text;
}

/**
 * Returns the program and its arguments, split at spaces. Quotes group text with spaces. Escapes, variables and other
 * shell syntax are not supported. The value may contain secrets, so error messages do not repeat it.
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

/** Variables with settings and secrets of the service. */
const ownVariables = /^(SALLYPORT_.*|DATABASE_URL|PG.*)$/i;

/** Returns names of environment variables, separated by commas. */
export function variableNames(text: string | undefined): readonly string[] {
  const names = text?.split(',').map((name) => name.trim()) ?? [];
  for (const name of names) {
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw new Error(`must list names of variables, separated by commas, not ${JSON.stringify(name)}`);
    if (ownVariables.test(name))
      throw new Error(`must not list ${name}: SALLYPORT_*, DATABASE_URL and PG* are never passed on`);
  }
  return names;
}

export function checkedMasterKey(text: string): Secret {
  parseMasterKeys(text);
  return new Secret(text);
}

/** Returns the values that are separated by spaces. */
export function words(text: string | undefined): readonly string[] {
  return text?.match(/\S+/g) ?? [];
}

export function issuerUrls(text: string | undefined): readonly string[] {
  const urls = words(text);
  const invalid = urls.find((url) => !isIssuerUrl(url));
  if (invalid === undefined) return urls;
  throw new Error(
    `must be an https URL without credentials, query and fragment, not ${JSON.stringify(invalid)}`,
  );
}
