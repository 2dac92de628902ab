/** Parses `DATABASE_URL` for PostgreSQL: a libpq connection URI with the parameters listed in `parameters`. */
import { homedir } from 'node:os';
import { join } from 'node:path';

export interface PostgresHost {
  /** A name or address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

export interface PostgresTarget {
  /** In the order in which they are tried. */
  readonly hosts: readonly PostgresHost[];
  readonly user: string;
  /** If undefined, the password file applies. */
  readonly password: string | undefined;
  /** The password file, in libpq's format. */
  readonly passfile: string;
  readonly database: string;
  readonly sslmode: SslMode;
  /** Paths of PEM files. */
  readonly sslrootcert: string | undefined;
  readonly sslcert: string | undefined;
  readonly sslkey: string | undefined;
  readonly schema: string | undefined;
}

const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

const parameters = [
  'host',
  'passfile',
  'schema',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslrootcert',
  'target_session_attrs',
] as const;

/** Sallyport writes to the database, so other values of libpq's `target_session_attrs` are rejected. */
const sessionAttributes = ['any', 'primary', 'read-write'] as const;

const form = /^postgres(?:ql)?:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;
const escapeHint = 'In the user name and password, write % as %25, / as %2F, ? as %3F, # as %23 and @ as %40';

type Environment = Record<string, string | undefined>;

/** Throws an error with a message such as "must have …". The message contains no part of the user name or password. */
export function parsePostgresUrl(url: string, env: Environment = process.env): PostgresTarget {
  const [, authority = '', path = '', query = ''] = form.exec(url) ?? invalid();
  // The password contains an unescaped character, so part of it ended up here.
  if (/@/.test(path + query)) invalid();
  const at = authority.lastIndexOf('@');
  const [user = '', ...rest] = authority.slice(0, Math.max(at, 0)).split(':');
  const given = parseQuery(query);
  const hosts = parseHosts(authority.slice(at + 1), env);
  const name = decode(user) || env.PGUSER || env.USER || 'postgres';
  const target: PostgresTarget = {
    hosts: given.host ? hosts.map(({ port }) => ({ host: given.host as string, port })) : hosts,
    user: name,
    password: decode(rest.join(':')) || env.PGPASSWORD || undefined,
    passfile: given.passfile || env.PGPASSFILE || defaultPassfile(),
    database: decode(path) || env.PGDATABASE || name,
    sslmode: oneOf('sslmode', given.sslmode ?? 'prefer', sslModes),
    sslrootcert: given.sslrootcert === 'system' ? undefined : given.sslrootcert,
    sslcert: given.sslcert,
    sslkey: given.sslkey,
    schema: given.schema,
  };
  oneOf('target_session_attrs', given.target_session_attrs ?? 'read-write', sessionAttributes);
  checkCertificates(target);
  if (given.schema !== undefined && !/^[A-Za-z_]\w{0,62}$/.test(given.schema))
    throw new Error(`must have a schema of letters, digits and _, not ${JSON.stringify(given.schema)}`);
  return target;
}

export function defaultPassfile(): string {
  return join(homedir(), '.pgpass');
}

function invalid(): never {
  throw new Error(`must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME. ${escapeHint}`);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error(`must have two hexadecimal digits after every %. ${escapeHint}`);
  }
}

function parseQuery(query: string): Partial<Record<(typeof parameters)[number], string>> {
  const pairs = query.split('&').filter((pair) => pair !== '');
  const entries = pairs.map((pair): [string, string] => {
    const [name = '', ...value] = pair.split('=');
    if (!(parameters as readonly string[]).includes(name))
      throw new Error(`must have only the parameters ${parameters.join(', ')}, not ${JSON.stringify(name)}`);
    return [name, decode(value.join('='))];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== ''));
}

/** `h1:5432,h2`, with IPv6 addresses in brackets and the folders of Unix sockets escaped. */
function parseHosts(text: string, env: Environment): PostgresHost[] {
  return text.split(',').map((part) => {
    const [, bracketed, plain = '', port = env.PGPORT || '5432'] =
      /^(?:\[([^\]]+)\]|([^:[\]]*))(?::(.*))?$/.exec(part) ?? [];
    const host = bracketed ?? (decode(plain) || env.PGHOST || 'localhost');
    const isPort = /^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535;
    if (!isPort || /[@\s]/.test(host)) throw new Error(`must have a valid host and port. ${escapeHint}`);
    return { host, port: Number(port) };
  });
}

function oneOf<T extends string>(name: string, value: string, values: readonly T[]): T {
  if ((values as readonly string[]).includes(value)) return value as T;
  throw new Error(`must have as ${name} one of ${values.join(', ')}, not ${JSON.stringify(value)}`);
}

/** Rejects certificates that would have no effect, because the operator may rely on them. */
function checkCertificates({ sslmode, sslrootcert, sslcert, sslkey }: PostgresTarget): void {
  if (sslrootcert !== undefined && !sslmode.startsWith('verify-'))
    throw new Error('must have sslmode=verify-full or sslmode=verify-ca if it has sslrootcert');
  if ((sslcert === undefined) !== (sslkey === undefined))
    throw new Error('must have both sslcert and sslkey, or neither');
  if (sslcert !== undefined && (sslmode === 'disable' || sslmode === 'prefer'))
    throw new Error('must have sslmode=require or stricter if it has sslcert');
}
