/** The table of commands. The module of a command is loaded when the command is used, so that others start fast. */
import { build, version } from '../config/version.ts';
import type { Command } from './command.ts';
import { completionScripts, shells } from './terminal/completion.ts';

/** All commands that begin with the same word: one command, or a group such as `apps`. */
export interface Topic {
  /** Its heading in the help. */
  readonly kind: 'server' | 'api' | 'other';
  /** A copy of the summary of the command, or the summary of the group. */
  readonly summary: string;
  /** Commands that begin with another word are ignored. */
  readonly modules: readonly (() => Promise<Module>)[];
}

interface Module {
  readonly commands: Command | readonly Command[];
}

function topic(kind: Topic['kind'], summary: string, ...modules: Topic['modules']): Topic {
  return { kind, summary, modules };
}

const completionCommand: Command = {
  usage: 'completion <SHELL>',
  choices: shells,
  summary: 'Print a shell completion script.',
  standalone: true,
  details: `SHELL is ${shells.slice(0, -1).join(', ')} or ${shells.at(-1)}. The script starts with a comment that says how to install it.`,
  examples: ['eval "$(sallyport completion bash)"'],
  run: async ({ args, print }) => {
    print(completionScripts[args[0] as string] as string);
    return 0;
  },
};

const versionCommand: Command = {
  usage: 'version',
  summary: 'Print the version, and the commit for a build from source.',
  standalone: true,
  examples: ['sallyport version --json'],
  run: async ({ printResult }) => {
    const { newestSchema } = await import('../db/migrate.ts');
    return printResult({ version, build: build(), schema: newestSchema }, build());
  },
};

/** By the first word, in the order of the help. */
export const topics: Readonly<Record<string, Topic>> = {
  serve: topic('server', 'Run the service.', () => import('./commands/serve.ts')),
  tenants: topic('server', 'Manage tenants.', () => import('./commands/tenants.ts')),
  'master-key': topic(
    'server',
    'Create and rotate the master key.',
    () => import('./commands/master-key.ts'),
  ),
  audit: topic(
    'server',
    'Read, export and verify the audit log of all tenants.',
    () => import('./commands/audit.ts'),
    () => import('./commands/audit-files.ts'),
  ),
  sinks: topic(
    'server',
    'Show, test and acknowledge the sinks that receive the audit log.',
    () => import('./commands/sinks.ts'),
  ),
  backup: topic('server', 'Back up a SQLite database to a new file.', () => import('./commands/backup.ts')),
  restore: topic('server', 'Restore the database from a backup.', () => import('./commands/restore.ts')),
  recover: topic(
    'server',
    'Clean up and accept a database that was restored or lost changes in a failover.',
    () => import('./commands/recover.ts'),
  ),
  'copy-to-postgres': topic(
    'server',
    'Copy a SQLite database to an empty PostgreSQL database.',
    () => import('./commands/copy-to-postgres.ts'),
  ),
  doctor: topic(
    'server',
    'Check settings, files, clock, database and audit log.',
    () => import('./commands/doctor.ts'),
  ),
  support: topic(
    'server',
    'Write an archive without secrets for a support request.',
    () => import('./commands/support.ts'),
  ),
  expiring: topic(
    'server',
    'List the applications and keys of all tenants that expire soon.',
    () => import('./commands/expiring.ts'),
  ),
  migrate: topic('server', 'Migrate the database schema.', () => import('./commands/migrate.ts')),
  health: topic('server', 'Check that the local service is ready.', () => import('./commands/health.ts')),
  login: topic(
    'other',
    'Store the URL and the key of a service as a profile.',
    () => import('./commands/login.ts'),
  ),
  logout: topic('other', 'Remove a profile.', () => import('./commands/login.ts')),
  apps: topic(
    'api',
    'Manage applications. Also `applications`.',
    () => import('./commands/apps.ts'),
    () => import('./commands/quarantine.ts'),
  ),
  whoami: topic('api', 'Show the application that owns the current key.', () => import('./commands/apps.ts')),
  keys: topic('api', "Manage an application's keys.", () => import('./commands/keys.ts')),
  sessions: topic(
    'api',
    'Create, authorize and end sessions.',
    () => import('./commands/sessions.ts'),
    () => import('./commands/quarantine.ts'),
  ),
  delegations: topic('api', 'Issue keys for jobs and agents.', () => import('./commands/sessions.ts')),
  tokens: topic('api', 'Manage tokens.', () => import('./commands/tokens.ts')),
  destinations: topic(
    'api',
    'Manage destinations: services where tokens are used without being seen.',
    () => import('./commands/destinations.ts'),
    () => import('./commands/destination-presets.ts'),
  ),
  can: topic(
    'api',
    'Check whether a key or an application has a permission, and explain why.',
    () => import('./commands/can.ts'),
  ),
  access: topic('api', 'Review who has access.', () => import('./commands/access.ts')),
  logs: topic('api', "Read your tenant's audit log.", () => import('./commands/logs.ts')),
  apply: topic(
    'api',
    "Make a tenant's applications and destinations match one or more files.",
    () => import('./commands/apply.ts'),
  ),
  pull: topic(
    'api',
    "Write a tenant's applications and destinations to a file for `apply`.",
    () => import('./commands/pull.ts'),
  ),
  init: topic(
    'api',
    'Set up a project: create a backend and a browser application and write their keys to .env.',
    () => import('./commands/init.ts'),
  ),
  completion: topic('other', completionCommand.summary, async () => ({ commands: completionCommand })),
  version: topic('other', versionCommand.summary, async () => ({ commands: versionCommand })),
};

export async function commandsOf(word: string, { modules }: Topic): Promise<Command[]> {
  const loaded = await Promise.all(modules.map((load) => load()));
  return loaded.flatMap(({ commands }) => commands).filter(({ usage }) => usage.split(' ', 1)[0] === word);
}

export async function allCommands(): Promise<readonly Command[]> {
  const loading = Object.entries(topics).map(([word, topic]) => commandsOf(word, topic));
  return (await Promise.all(loading)).flat();
}
