import { relative } from 'node:path';
import { type App, openApp } from '../app.ts';
import type { Config } from '../config.ts';
import { newestSchema } from '../store/migrate.ts';
import { version } from '../version.ts';
import type { Invocation } from './run.ts';
import { isWorker, leaveSupervisor, superviseWorkers, tellSupervisor } from './workers.ts';

export async function serve(invocation: Invocation): Promise<number> {
  const { config, print } = invocation;
  if (config.workers > 1 && !isWorker()) return superviseWorkers(config, print);
  const stop = untilTold();
  const app = await openApp(config, { shared: isWorker() });
  if (isWorker()) tellSupervisor(app.url);
  else print(banner(config, app));
  await stop;
  await app.close();
  if (isWorker()) leaveSupervisor();
  return 0;
}

/** Milliseconds within which a second signal is the first one again: a launcher passes on what the terminal sent. */
const echo = 500;

/** Resolves at the first request to stop; at the second, it stops waiting. */
export function untilTold(): Promise<void> {
  return new Promise((resolve) => {
    let told = Number.POSITIVE_INFINITY;
    const tell = () => {
      if (performance.now() > told + echo) process.exit(130);
      told = Math.min(told, performance.now());
      resolve();
    };
    process.on('SIGTERM', tell);
    process.on('SIGINT', tell);
    process.on('disconnect', tell);
  });
}

/** What to do next. The key itself is shown to a person only, never to a pipe or a log. */
export function banner(
  config: Config,
  { url, migrated, bootstrapped }: Pick<App, 'url' | 'migrated' | 'bootstrapped'>,
): string {
  const keyFile = shortest(config.managementKeyFile);
  const made = bootstrapped.secret;
  const state = migrated.from === 0 ? 'new' : made ? 'was empty' : 'kept as it was';
  const upgraded =
    migrated.from > 0 && migrated.from < newestSchema ? `, schema ${migrated.from} → ${migrated.to}` : '';
  const key = made && process.stdout.isTTY ? `${keyFile} (${made.reveal()})` : keyFile;
  return [
    `Sallyport ${version} is listening on ${url}`,
    '',
    `  reference       ${url}/docs`,
    `  database        ${place(config.databaseUrl)} (${state}${upgraded})`,
    `  management key  ${key}${made ? ', just made: it may do everything' : ''}`,
    '',
    '  Try it:',
    `    curl -H "SVC-API-KEY: $(cat ${keyFile})" ${url}/applications/key`,
    '',
  ].join('\n');
}

function shortest(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? path : near;
}

function place(databaseUrl: string): string {
  if (databaseUrl.startsWith('sqlite:')) return shortest(databaseUrl.slice('sqlite:'.length));
  const url = new URL(databaseUrl);
  return `postgres://${url.host}${url.pathname}`;
}
