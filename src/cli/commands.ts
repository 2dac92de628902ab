/** The table of commands. */
import { openDatabase } from '../app.ts';
import { version } from '../version.ts';
import type { Command, Invocation } from './command.ts';
import { applyCommands } from './commands/apply.ts';
import { appCommands } from './commands/apps.ts';
import { auditCommands } from './commands/audit.ts';
import { auditTailCommand } from './commands/audit-tail.ts';
import { backupCommand } from './commands/backup.ts';
import { canCommands } from './commands/can.ts';
import { doctorCommand } from './commands/doctor.ts';
import { healthCommand } from './commands/health.ts';
import { initCommands } from './commands/init.ts';
import { keyCommands } from './commands/keys.ts';
import { logsCommands } from './commands/logs.ts';
import { dropOldOption, printMasterKey, rotate } from './commands/master-key.ts';
import { recoverCommand } from './commands/recover.ts';
import { restoreCommand } from './commands/restore.ts';
import { serve } from './commands/serve.ts';
import { sessionCommands } from './commands/sessions.ts';
import { tenantCommands } from './commands/tenants.ts';
import { tokenCommands } from './commands/tokens.ts';
import { usageCommands } from './commands/usage.ts';
import { completionScripts, shells } from './terminal/completion.ts';
import { yesOption } from './terminal/confirm.ts';

export const groupSummaries: Readonly<Record<string, string>> = {
  tenants: 'Manage tenants.',
  'master-key': 'Create and rotate the master key.',
  audit: 'Read, export and verify the audit log of all tenants.',
  apps: 'Manage applications.',
  keys: "Manage an application's keys.",
  sessions: 'Create, authorize and end sessions.',
  tokens: 'Manage tokens.',
  logs: "Read your tenant's audit log.",
};

export const commands: readonly Command[] = [
  {
    words: ['serve'],
    args: [],
    summary: 'Run the service.',
    details:
      'On an empty database, the first start creates a tenant and writes its management key to a file.',
    examples: ['sallyport serve', 'sallyport serve --port 8081 --data-dir /var/lib/sallyport'],
    run: serve,
  },
  ...tenantCommands,
  {
    words: ['master-key', 'new'],
    args: [],
    summary: 'Generate a master key and print it.',
    standalone: true,
    examples: ['(umask 077; sallyport master-key new > master.key)'],
    run: printMasterKey,
  },
  {
    words: ['master-key', 'rotate'],
    args: [],
    options: [dropOldOption, yesOption],
    summary: 'Rotate the master key while the service runs.',
    details:
      'Generates a master key, writes it above the old one in the key file, and rewraps all data keys with it. The old key stays in the file, because older backups and audit exports need it; --drop-old deletes it.\n\nWith SALLYPORT_MASTER_KEY, or if every node has its own copy of the key file: restart the nodes one by one with NEW,OLD, run this command with the same value, then restart the nodes with NEW. Store OLD elsewhere.\n\nIf the rotation is interrupted, all data stays readable. Run it again.',
    examples: ['sallyport master-key rotate'],
    run: rotate,
  },
  auditTailCommand,
  ...auditCommands,
  backupCommand,
  restoreCommand,
  recoverCommand,
  doctorCommand,
  {
    words: ['migrate'],
    args: [],
    summary: 'Migrate the database schema.',
    details: '`sallyport serve` does the same when it starts. Use this to migrate beforehand.',
    examples: ['sallyport migrate'],
    run: migrateOnly,
  },
  healthCommand,
  ...appCommands,
  ...usageCommands,
  ...keyCommands,
  ...sessionCommands,
  ...tokenCommands,
  ...canCommands,
  ...logsCommands,
  ...applyCommands,
  ...initCommands,
  {
    words: ['completion'],
    args: ['SHELL'],
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
    words: ['version'],
    args: [],
    summary: 'Print the version.',
    standalone: true,
    examples: ['sallyport version --json'],
    run: async ({ print, json }) => {
      print(json ? JSON.stringify({ version }) : version);
      return 0;
    },
  },
];

async function migrateOnly({ config, json, print }: Invocation): Promise<number> {
  const { migrated, close } = await openDatabase(config);
  await close();
  const { from, to } = migrated;
  const words =
    from === to ? `schema is up to date (version ${to})` : `migrated schema from version ${from} to ${to}`;
  print(json ? JSON.stringify(migrated) : words);
  return 0;
}
