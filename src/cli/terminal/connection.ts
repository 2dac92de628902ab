/** The URL of the service and the key for API commands. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { githubToken, workloadKey } from '../../../sdk/src/sallyport.ts';
import { normalizedUrl } from '../../../sdk/src/transport.ts';
import { type Option, type Options, option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { type Input, parseSecret } from './input.ts';
import { defaultProfile, type Profile, readProfiles } from './profiles.ts';
import type { Terminal } from './terminal.ts';

/** Environment variables of the API commands. */
export const callVariables = [
  {
    variable: 'SALLYPORT_URL',
    fallback: 'http://127.0.0.1:8080',
    description: 'URL of the service. `--url` overrides it.',
  },
  {
    variable: 'SALLYPORT_KEY',
    fallback: 'none',
    description: 'Your key. `--key-file` and `--key-stdin` override it.',
  },
  {
    variable: 'SALLYPORT_PROFILE',
    fallback: defaultProfile,
    description:
      'A profile that `login` stored. Used without `--profile` if neither an option nor another variable has a URL, a key or a client id.',
  },
  {
    variable: 'SALLYPORT_CLIENT_ID',
    fallback: 'none',
    description:
      'TAG.APPLICATION_ID: without a key, exchanges a JWT for a key of this application. The JWT is in `SALLYPORT_TOKEN_FILE` or `SALLYPORT_TOKEN`, or comes from GitHub Actions.',
  },
  {
    variable: 'SALLYPORT_TOKEN_FILE',
    fallback: 'none',
    description: 'File with a JWT of a trusted issuer. Read again for every exchange.',
  },
  {
    variable: 'SALLYPORT_TOKEN',
    fallback: 'none',
    description: 'A JWT of a trusted issuer.',
  },
  {
    variable: 'SALLYPORT_AUDIENCE',
    fallback: 'the URL of the service',
    description: 'In GitHub Actions, the audience of the JWT that is requested.',
  },
  {
    variable: 'SALLYPORT_CREDENTIAL',
    fallback: 'standard input',
    description: 'The credential that `can` checks.',
  },
  {
    variable: 'SALLYPORT_NONCE',
    fallback: 'standard input',
    description: 'The nonce for `sessions authorize`.',
  },
  {
    variable: 'SALLYPORT_SOURCE_KEY',
    fallback: 'none',
    description: 'The key of the source for `import`. `--from-key-file` overrides it.',
  },
] as const;

export const callOptions: readonly Option[] = [
  option('url URL', 'URL of the service. [env: SALLYPORT_URL, default: http://127.0.0.1:8080]'),
  option('profile PROFILE', 'Profile that `login` stored. [env: SALLYPORT_PROFILE]'),
  option('key-file FILE', 'File with your key. Without it, SALLYPORT_KEY is the key.'),
  option('key-stdin', 'Read your key from standard input.'),
];

/**
 * The profile that a command uses. Undefined if an option or the environment has a URL or a key, because the key of a
 * profile is sent to its URL only. Throws UsageError if a named profile does not exist.
 */
function profileOf(options: Options, terminal: Terminal): Profile | undefined {
  const { SALLYPORT_URL, SALLYPORT_KEY, SALLYPORT_CLIENT_ID, SALLYPORT_PROFILE } = terminal.env;
  const flag = options.value('profile');
  const hasOptions =
    options.value('url') !== undefined || ownKeyFile(options) !== undefined || options.on('key-stdin');
  if (flag !== undefined && hasOptions)
    throw new UsageError('--profile cannot be combined with --url, --key-file or --key-stdin');
  const isOverridden = hasOptions || SALLYPORT_URL || SALLYPORT_KEY || SALLYPORT_CLIENT_ID;
  if (flag === undefined && isOverridden) return undefined;
  const named = flag ?? (SALLYPORT_PROFILE || undefined);
  const profile = readProfiles(terminal).get(named ?? defaultProfile);
  if (profile || named === undefined) return profile;
  throw new UsageError(`there is no profile "${named}"`, `run \`sallyport login --profile ${named}\``);
}

/** With `--preset`, the file has the key of another service. */
function ownKeyFile(options: Options): string | undefined {
  return options.value('preset') === undefined ? options.value('key-file') : undefined;
}

export function serviceUrl(options: Options, terminal: Terminal): string {
  const { env } = terminal;
  const profile = profileOf(options, terminal);
  if (profile) return parseUrl(profile.url, 'the URL of the profile');
  const flag = options.value('url');
  const given = flag ?? (env.SALLYPORT_URL || callVariables[0].fallback);
  return parseUrl(given, flag !== undefined ? '--url' : 'SALLYPORT_URL');
}

/** Returns the URL without a trailing slash. Throws UsageError, with `name` in its message. */
export function parseUrl(text: string, name: string): string {
  const url = normalizedUrl(text);
  if (url !== undefined) return url;
  throw new UsageError(`${name} must be a URL such as https://HOST:PORT`);
}

/** Exchanges a JWT for a key, as the environment says. Returns undefined if it names no application. */
export function workloadKeyOf(url: string, { env }: Terminal): (() => Promise<string>) | undefined {
  const { SALLYPORT_CLIENT_ID: clientId, SALLYPORT_TOKEN_FILE: file, SALLYPORT_TOKEN: jwt } = env;
  if (!clientId) return undefined;
  const token = () => {
    if (file) return readFile(file, 'utf8');
    if (jwt) return jwt;
    if (env.ACTIONS_ID_TOKEN_REQUEST_URL) return githubToken(env.SALLYPORT_AUDIENCE || url, env)();
    throw new UsageError(
      'SALLYPORT_CLIENT_ID is set, but no JWT is available',
      'set SALLYPORT_TOKEN_FILE or SALLYPORT_TOKEN; in GitHub Actions, give the job the permission id-token: write',
    );
  };
  return workloadKey({ url, clientId, token });
}

export async function keyOf(
  options: Options,
  terminal: Terminal,
  input: Input,
): Promise<string | (() => Promise<string>)> {
  const { env } = terminal;
  const file = ownKeyFile(options);
  if (file !== undefined && options.on('key-stdin'))
    throw new UsageError('--key-file and --key-stdin cannot both be given');
  if (file !== undefined) return parseSecret(await input.text(file, '--key-file'), `--key-file ${file}`);
  if (options.on('key-stdin')) return parseSecret(await input.piped('key', '--key-stdin'), '--key-stdin');
  const profile = profileOf(options, terminal);
  if (profile) return parseSecret(profile.key, 'the key of the profile');
  if (env.SALLYPORT_KEY) return parseSecret(env.SALLYPORT_KEY, 'SALLYPORT_KEY');
  const exchanged = workloadKeyOf(serviceUrl(options, terminal), terminal);
  if (exchanged) return exchanged;
  const firstKey = 'data/management.key';
  const example = existsSync(firstKey) ? firstKey : 'FILE';
  throw new UsageError(
    'no key was given',
    `run \`sallyport login\`, pass --key-file ${example} or --key-stdin, or set SALLYPORT_KEY`,
  );
}
