/** The URL of the service and the key for API commands. */
import { existsSync } from 'node:fs';
import type { Option, Options } from '../command.ts';
import { UsageError } from '../errors.ts';
import { type Input, parseSecret } from './input.ts';
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
  {
    name: 'url',
    value: 'URL',
    description: 'URL of the service. [env: SALLYPORT_URL, default: http://127.0.0.1:8080]',
  },
  {
    name: 'key-file',
    value: 'FILE',
    description: 'File with your key. Without it, SALLYPORT_KEY is the key.',
  },
  { name: 'key-stdin', description: 'Read your key from standard input.' },
];

export function serviceUrl(options: Options, { env }: Terminal): string {
  const flag = options.value('url');
  const given = flag ?? (env.SALLYPORT_URL || callVariables[0].fallback);
  return parseUrl(given, flag ? '--url' : 'SALLYPORT_URL');
}

/** Returns the URL without a trailing slash. Throws UsageError, with `name` in its message. */
export function parseUrl(text: string, name: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isValid = url && /^https?:$/.test(url.protocol) && !url.username && !url.search && !url.hash;
  if (isValid) return url.href.replace(/\/+$/, '');
  throw new UsageError(`${name} must be a URL such as https://HOST:PORT`);
}

export async function keyOf(options: Options, { env }: Terminal, input: Input): Promise<string> {
  const file = options.value('key-file');
  if (file !== undefined && options.on('key-stdin')) {
    throw new UsageError('--key-file and --key-stdin cannot both be given');
  }
  if (file !== undefined) return parseSecret(await input.text(file, '--key-file'), `--key-file ${file}`);
  if (options.on('key-stdin')) return parseSecret(await input.standard('--key-stdin'), '--key-stdin');
  if (env.SALLYPORT_KEY) return parseSecret(env.SALLYPORT_KEY, 'SALLYPORT_KEY');
  const firstKey = 'data/management.key';
  const example = existsSync(firstKey) ? firstKey : 'FILE';
  throw new UsageError('no key was given', `pass --key-file ${example} or --key-stdin, or set SALLYPORT_KEY`);
}
