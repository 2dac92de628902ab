import type { App } from '../../app.ts';
import type { Config } from '../../config/settings.ts';
import { build } from '../../config/version.ts';
import type { Secret } from '../../domain/key.ts';
import type { Bootstrapped } from '../../operations/bootstrap.ts';
import { newestSchema } from '../../store/engine/migrate.ts';
import { databaseLabel, shortPath } from './database.ts';

type Opened = Pick<App, 'url' | 'migrated' | 'bootstrapped' | 'link'>;

/** The startup message. `metricsUrls` has one entry per process. */
export function banner(config: Config, opened: Opened, metricsUrls: readonly string[]): string {
  const { url, migrated, bootstrapped, link } = opened;
  const state = migrated.from === 0 ? 'new' : bootstrapped.secret ? 'was empty' : 'existing';
  const upgrade =
    migrated.from > 0 && migrated.from < newestSchema ? `, migrated from version ${migrated.from}` : '';
  const { description, shellExpression } = managementKey(config.managementKeyFile, bootstrapped);
  return [
    `Sallyport ${build()} is listening on ${url}`,
    '',
    `  console         ${url}/console${signInLink(link)}`,
    `  API reference   ${url}/docs`,
    ...metricsUrls.map((at) => `  metrics         ${at}`),
    `  database        ${databaseLabel(config.databaseUrl)} (${state}, schema version ${newestSchema}${upgrade})`,
    `  management key  ${description}`,
    '',
    '  Try it:',
    `    curl -H "SVC-API-KEY: ${shellExpression}" ${url}/applications/key`,
    '',
  ].join('\n');
}

/** Shown on a terminal only, because anyone with the link can sign in. */
function signInLink(link: Secret | undefined): string {
  return link && process.stdout.isTTY ? `#${link.reveal()} (link works once, for ten minutes)` : '';
}

/**
 * Describes where the management key is, and the shell expression that reads it. Prints the key itself on a terminal
 * only, never to a pipe or a log. Does not name a key file that is missing or is not valid for this database.
 */
function managementKey(
  path: string,
  { secret, keyFileValid }: Bootstrapped,
): { description: string; shellExpression: string } {
  if (!keyFileValid)
    return {
      description:
        'in the key file of the node that created this database; if it is lost, run `sallyport tenants key TENANT`',
      shellExpression: '$KEY',
    };
  const file = shortPath(path);
  const location = secret && process.stdout.isTTY ? `${file} (${secret.reveal()})` : file;
  return {
    description: secret ? `${location}, created now with all permissions` : location,
    shellExpression: `$(cat ${shellQuote(file)})`,
  };
}

function shellQuote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
