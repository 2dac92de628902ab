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

/** Shown for settings without a default. */
export const unset = 'unset';

/** The default and the parser of a setting. */
type Value<T> = Omit<Setting<T>, 'variable' | 'description'>;

export function setting<T>(variable: string, description: string, value: Value<T>): Setting<T> {
  return { variable, description, ...value };
}

export function optional<T>(parse: (text: string) => T): Value<T | undefined> {
  return { fallback: unset, parse: (text) => (text === undefined ? undefined : parse(text)) };
}

export function secret(parse: (text: string) => Secret): Value<Secret | undefined> {
  return { ...optional(parse), secret: true };
}

export function text(fallback: string): Value<string> {
  return { fallback, parse: (given) => given ?? fallback };
}

export function inDataDir(file: string): Value<string> {
  const parse: Setting<string>['parse'] = (given, { dataDir }) =>
    given === undefined ? join(dataDir, file) : resolve(given);
  return { fallback: `<data dir>/${file}`, parse };
}

export function choice<T extends string>(fallback: NoInfer<T>, values: readonly T[]): Value<T> {
  return { fallback, parse: (given) => oneOf(given ?? fallback, values) };
}

export const flag: Value<boolean> = {
  fallback: 'false',
  parse: (given) => oneOf(given ?? 'false', ['true', 'false']) === 'true',
};

export function integer(text: string | undefined, fallback: number, min: number, max: number): number {
  if (text === undefined) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new Error(`must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

/** The default and the parser of a setting with a whole number, which is multiplied by `unit`. */
export function whole(fallback: number, min: number, max: number, unit = 1): Value<number> {
  const parse = (text: string | undefined) => integer(text, fallback, min, max) * unit;
  return { fallback: String(fallback), parse };
}

export function zeroOrWhole(fallback: number, min: number, max: number): Value<number> {
  const parse = (given: string | undefined) => {
    if (given === '0') return 0;
    try {
      return integer(given, fallback, min, max);
    } catch {
      throw new Error(`must be 0 or a whole number from ${min} to ${max}, not ${JSON.stringify(given)}`);
    }
  };
  return { fallback: String(fallback), parse };
}

export function age(text: string): Age {
  const value = parseAge(text);
  if (value) return value;
  throw new Error(`must be an age such as 3mo, 90d, 24h, 30m or 10s, not ${JSON.stringify(text)}`);
}

function oneOf<T extends string>(text: string, values: readonly T[]): T {
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
export function commandLine(text: string): readonly string[] {
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

export function secretOf(text: string): Secret {
  return new Secret(text);
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
