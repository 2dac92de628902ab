/** THE table of commands. */
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
import { completionScript, shells } from './terminal/completion.ts';
import { yesOption } from './terminal/confirm.ts';

/** What each group of commands is for. */
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
    takes: [],
    summary: 'Run the service.',
    details:
      'On an empty database, the first start creates a tenant and writes its management key to a file.',
    examples: ['sallyport serve', 'sallyport serve --port 8081 --data-dir /var/lib/sallyport'],
    run: serve,
  },
  ...tenantCommands,
  {
    words: ['master-key', 'new'],
    takes: [],
    summary: 'Generate a master key and print it.',
    examples: ['(umask 077; sallyport master-key new > master.key)'],
    run: printMasterKey,
  },
  {
    words: ['master-key', 'rotate'],
    takes: [],
    options: [dropOldOption, yesOption],
    summary: 'Re-encrypt all data keys with a new master key while the service runs.',
    details:
      'The new key is written above the old one in the key file. The old key stays there, because older backups and audit exports need it; --drop-old removes it permanently. With SALLYPORT_MASTER_KEY, restart the nodes one by one with NEW,OLD, rotate with the same value, then restart them with NEW; store OLD elsewhere. If every node has its own copy of the key file, do the same with both keys in the file, the new one first. An interrupted rotation leaves all data readable: run it again.',
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
    takes: [],
    summary: 'Migrate the database schema.',
    details: '`sallyport serve` does the same when it starts. Use this to migrate beforehand.',
    examples: ['sallyport migrate'],
    run: migrateOnly,
  },
  healthCommand,
  {
    words: ['completion'],
    takes: ['SHELL'],
    summary: 'Print a shell completion script.',
    details: `SHELL is ${shells.join(', ')}. The first lines of the script say how to install it.`,
    examples: ['eval "$(sallyport completion bash)"'],
    run: async ({ args, print }) => {
      print(completionScript(args[0] as string, commands));
      return 0;
    },
  },
  {
    words: ['version'],
    takes: [],
    summary: 'Print the version.',
    examples: ['sallyport version --json'],
    run: async ({ print, json }) => {
      print(json ? JSON.stringify({ version }) : version);
      return 0;
    },
  },
  ...appCommands,
  ...usageCommands,
  ...keyCommands,
  ...sessionCommands,
  ...tokenCommands,
  ...canCommands,
  ...logsCommands,
  ...applyCommands,
  ...initCommands,
];

async function migrateOnly({ config, json, print }: Invocation): Promise<number> {
  const { migrated, close } = await openDatabase(config);
  await close();
  const { from, to } = migrated;
  const words = from === to ? `schema ${to}: nothing to do` : `schema ${from} → ${to}`;
  print(json ? JSON.stringify(migrated) : words);
  return 0;
}
