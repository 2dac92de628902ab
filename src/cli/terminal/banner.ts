import type { App } from '../../app.ts';
import type { Config } from '../../config.ts';
import type { Secret } from '../../domain/key.ts';
import type { Bootstrapped } from '../../operations/bootstrap.ts';
import { newestSchema } from '../../store/engine/migrate.ts';
import { version } from '../../version.ts';
import { databasePlace, shortPath } from './paths.ts';

type Opened = Pick<App, 'url' | 'migrated' | 'bootstrapped' | 'link'>;

/** What to do next. `figures` is where they are, one address a process. */
export function banner(config: Config, opened: Opened, figures: readonly string[]): string {
  const { url, migrated, bootstrapped, link } = opened;
  const made = bootstrapped.secret;
  const state = migrated.from === 0 ? 'new' : made ? 'was empty' : 'kept as it was';
  const upgraded =
    migrated.from > 0 && migrated.from < newestSchema ? `, schema ${migrated.from} → ${migrated.to}` : '';
  const { note, show } = managementKey(config.managementKeyFile, bootstrapped);
  return [
    `Sallyport ${version} is listening on ${url}`,
    '',
    `  console         ${url}/console${door(link)}`,
    `  reference       ${url}/docs`,
    ...figures.map((at) => `  figures         ${at}`),
    `  database        ${databasePlace(config.databaseUrl)} (${state}${upgraded})`,
    `  management key  ${note}`,
    '',
    '  Try it:',
    `    curl -H "SVC-API-KEY: ${show}" ${url}/applications/key`,
    '',
  ].join('\n');
}

/** Good for one visit, and for a person only. */
function door(link: Secret | undefined): string {
  return link && process.stdout.isTTY ? `#${link.reveal()} (opens once, within ten minutes)` : '';
}

/**
 * Where the key is, and how a shell gets it. The key itself is shown to a person only, never to a pipe or a log. A key
 * file that is missing or does not work on this database is not named.
 */
function managementKey(
  path: string,
  { secret: made, keyFileValid }: Bootstrapped,
): { note: string; show: string } {
  if (!keyFileValid) return { note: 'in the key file of the node that created this database', show: '$KEY' };
  const file = shortPath(path);
  const key = made && process.stdout.isTTY ? `${file} (${made.reveal()})` : file;
  return { note: made ? `${key}, just made: it may do everything` : key, show: `$(cat ${quoted(file)})` };
}

/** As a shell reads it back. */
function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
