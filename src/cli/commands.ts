/** The table of commands. The module of a command is loaded when the command is used, so that others start fast. */
import { build, version } from '../config/version.ts';
import { type Command, firstWordOf } from './command.ts';
import { completionScripts, shells } from './terminal/completion.ts';

/** All commands that begin with the same word: one command, or a group such as `apps`. */
export interface Topic {
  /** Its heading in the help. */
  readonly kind: 'server' | 'api' | 'other';
  /** A copy of the summary of the command, or the summary of the group. */
  readonly summary: string;
  /** Commands that begin with another word are ignored. */
  readonly load: () => Promise<Command | readonly Command[]>;
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
    const { newestSchema } = await import('../store/engine/migrate.ts');
    return printResult({ version, build: build(), schema: newestSchema }, build());
  },
};

/** By the first word, in the order of the help. */
export const topics: Readonly<Record<string, Topic>> = {
  serve: {
    kind: 'server',
    summary: 'Run the service.',
    load: async () => (await import('./commands/serve.ts')).serveCommand,
  },
  tenants: {
    kind: 'server',
    summary: 'Manage tenants.',
    load: async () => (await import('./commands/tenants.ts')).tenantCommands,
  },
  'master-key': {
    kind: 'server',
    summary: 'Create and rotate the master key.',
    load: async () => (await import('./commands/master-key.ts')).masterKeyCommands,
  },
  audit: {
    kind: 'server',
    summary: 'Read, export and verify the audit log of all tenants.',
    load: async () => (await import('./commands/audit.ts')).auditCommands,
  },
  sinks: {
    kind: 'server',
    summary: 'Show, test and acknowledge the sinks that receive the audit log.',
    load: async () => (await import('./commands/sinks.ts')).sinkCommands,
  },
  backup: {
    kind: 'server',
    summary: 'Back up a SQLite database to a new file.',
    load: async () => (await import('./commands/backup.ts')).backupCommand,
  },
  restore: {
    kind: 'server',
    summary: 'Restore a SQLite database from a backup.',
    load: async () => (await import('./commands/restore.ts')).restoreCommand,
  },
  recover: {
    kind: 'server',
    summary: 'Clean up and accept a database that was restored or lost changes in a failover.',
    load: async () => (await import('./commands/recover.ts')).recoverCommand,
  },
  'copy-to-postgres': {
    kind: 'server',
    summary: 'Copy a SQLite database to an empty PostgreSQL database.',
    load: async () => (await import('./commands/copy-to-postgres.ts')).copyToPostgresCommand,
  },
  doctor: {
    kind: 'server',
    summary: 'Check settings, files, clock, database and audit log.',
    load: async () => (await import('./commands/doctor.ts')).doctorCommand,
  },
  expiring: {
    kind: 'server',
    summary: 'List the applications and keys of all tenants that expire soon.',
    load: async () => (await import('./commands/expiring.ts')).expiringCommand,
  },
  migrate: {
    kind: 'server',
    summary: 'Migrate the database schema.',
    load: async () => (await import('./commands/migrate.ts')).migrateCommand,
  },
  health: {
    kind: 'server',
    summary: 'Check that the local service is ready.',
    load: async () => (await import('./commands/health.ts')).healthCommand,
  },
  apps: {
    kind: 'api',
    summary: 'Manage applications. Also `applications`.',
    load: async () => [
      ...(await import('./commands/apps.ts')).appCommands,
      ...(await import('./commands/quarantine.ts')).quarantineCommands,
    ],
  },
  whoami: {
    kind: 'api',
    summary: 'Show the application that owns the current key.',
    load: async () => (await import('./commands/apps.ts')).appCommands,
  },
  keys: {
    kind: 'api',
    summary: "Manage an application's keys.",
    load: async () => (await import('./commands/keys.ts')).keyCommands,
  },
  sessions: {
    kind: 'api',
    summary: 'Create, authorize and end sessions.',
    load: async () => [
      ...(await import('./commands/sessions.ts')).sessionCommands,
      ...(await import('./commands/quarantine.ts')).quarantineCommands,
    ],
  },
  delegations: {
    kind: 'api',
    summary: 'Issue keys for jobs and agents.',
    load: async () => (await import('./commands/sessions.ts')).sessionCommands,
  },
  tokens: {
    kind: 'api',
    summary: 'Manage tokens.',
    load: async () => (await import('./commands/tokens.ts')).tokenCommands,
  },
  destinations: {
    kind: 'api',
    summary: 'Manage destinations: services where tokens are used without being seen.',
    load: async () => (await import('./commands/destinations.ts')).destinationCommands,
  },
  can: {
    kind: 'api',
    summary: 'Check whether a key or an application has a permission, and explain why.',
    load: async () => (await import('./commands/can.ts')).canCommand,
  },
  access: {
    kind: 'api',
    summary: 'Review who has access.',
    load: async () => (await import('./commands/access.ts')).accessCommands,
  },
  logs: {
    kind: 'api',
    summary: "Read your tenant's audit log.",
    load: async () => (await import('./commands/logs.ts')).logsCommands,
  },
  apply: {
    kind: 'api',
    summary: "Make a tenant's applications and destinations match one or more files.",
    load: async () => (await import('./commands/apply.ts')).applyCommand,
  },
  pull: {
    kind: 'api',
    summary: "Write a tenant's applications to a file for `apply`.",
    load: async () => (await import('./commands/pull.ts')).pullCommand,
  },
  import: {
    kind: 'api',
    summary: 'Copy applications, rules and tokens from another vault.',
    load: async () => (await import('./commands/import.ts')).importCommand,
  },
  init: {
    kind: 'api',
    summary: 'Set up a project: create a backend and a browser application and write their keys to .env.',
    load: async () => (await import('./commands/init.ts')).initCommand,
  },
  completion: { kind: 'other', summary: completionCommand.summary, load: async () => completionCommand },
  version: { kind: 'other', summary: versionCommand.summary, load: async () => versionCommand },
};

/** The commands that begin with a word. */
export async function commandsOf(word: string, { load }: Topic): Promise<Command[]> {
  return [await load()].flat().filter((command) => firstWordOf(command) === word);
}

export async function allCommands(): Promise<readonly Command[]> {
  const loading = Object.entries(topics).map(([word, topic]) => commandsOf(word, topic));
  return (await Promise.all(loading)).flat();
}
