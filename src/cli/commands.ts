/** The table of commands. */
import { openDatabase } from '../app.ts';
import { build, version } from '../config/version.ts';
import { retryTimeouts } from '../operations/slow-start.ts';
import { newestSchema } from '../store/engine/migrate.ts';
import type { Command, Invocation } from './command.ts';
import { accessCommands } from './commands/access.ts';
import { applyCommand } from './commands/apply.ts';
import { appCommands } from './commands/apps.ts';
import { auditCommands } from './commands/audit.ts';
import { backupCommand } from './commands/backup.ts';
import { canCommand } from './commands/can.ts';
import { copyToPostgresCommand } from './commands/copy-to-postgres.ts';
import { doctorCommand } from './commands/doctor.ts';
import { expiringCommand } from './commands/expiring.ts';
import { healthCommand } from './commands/health.ts';
import { importCommand } from './commands/import.ts';
import { initCommand } from './commands/init.ts';
import { keyCommands } from './commands/keys.ts';
import { logsCommands } from './commands/logs.ts';
import { masterKeyCommands } from './commands/master-key.ts';
import { pullCommand } from './commands/pull.ts';
import { quarantineCommands } from './commands/quarantine.ts';
import { recoverCommand } from './commands/recover.ts';
import { restoreCommand } from './commands/restore.ts';
import { serveCommand } from './commands/serve.ts';
import { sessionCommands } from './commands/sessions.ts';
import { sinkCommands } from './commands/sinks.ts';
import { tenantCommands } from './commands/tenants.ts';
import { tokenCommands } from './commands/tokens.ts';
import { completionScripts, shells } from './terminal/completion.ts';
import { whileWaiting } from './terminal/database.ts';

export const groupSummaries: Readonly<Record<string, string>> = {
  tenants: 'Manage tenants.',
  'master-key': 'Create and rotate the master key.',
  audit: 'Read, export and verify the audit log of all tenants.',
  sinks: 'Show, test and acknowledge the sinks that receive the audit log.',
  apps: 'Manage applications.',
  keys: "Manage an application's keys.",
  sessions: 'Create, authorize and end sessions.',
  tokens: 'Manage tokens.',
  access: 'Review who has access.',
  logs: "Read your tenant's audit log.",
};

export const commands: readonly Command[] = [
  serveCommand,
  ...tenantCommands,
  ...masterKeyCommands,
  ...auditCommands,
  ...sinkCommands,
  backupCommand,
  restoreCommand,
  recoverCommand,
  copyToPostgresCommand,
  doctorCommand,
  expiringCommand,
  {
    usage: 'migrate',
    summary: 'Migrate the database schema.',
    details:
      'Creates the schema in an empty database, unless SALLYPORT_REQUIRE_EXISTING is true, and updates it after an upgrade. `sallyport serve` does the same when it starts; run `migrate` before it to see errors before anything listens.',
    examples: ['sallyport migrate'],
    run: migrateOnly,
  },
  healthCommand,
  ...appCommands,
  ...quarantineCommands,
  ...keyCommands,
  ...sessionCommands,
  ...tokenCommands,
  canCommand,
  ...accessCommands,
  ...logsCommands,
  applyCommand,
  pullCommand,
  importCommand,
  initCommand,
  {
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
  },
  {
    usage: 'version',
    summary: 'Print the version, and the commit for a build from source.',
    standalone: true,
    examples: ['sallyport version --json'],
    run: async ({ printResult }) => printResult({ version, build: build(), schema: newestSchema }, build()),
  },
];

async function migrateOnly(invocation: Invocation): Promise<number> {
  const { config, printResult } = invocation;
  const { migrated, close } = await whileWaiting(invocation, (onStep) =>
    retryTimeouts(() => openDatabase(config, { onStep })),
  );
  await close();
  const { from, to } = migrated;
  const words =
    from === to ? `schema is up to date (version ${to})` : `migrated schema from version ${from} to ${to}`;
  return printResult(migrated, words);
}
