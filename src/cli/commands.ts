/** THE table of commands. */
import { openDatabase } from '../app.ts';
import { version } from '../version.ts';
import { applyCommands } from './apply.ts';
import { appCommands } from './apps.ts';
import { auditCommands } from './audit.ts';
import { auditTailCommand } from './audit-tail.ts';
import { backupCommand } from './backup.ts';
import { canCommands } from './can.ts';
import type { Command, Invocation } from './command.ts';
import { completionScript, shells } from './completion.ts';
import { yesOption } from './confirm.ts';
import { doctorCommand } from './doctor.ts';
import { healthCommand } from './health.ts';
import { initCommands } from './init.ts';
import { keyCommands } from './keys.ts';
import { logsCommands } from './logs.ts';
import { dropOldOption, printMasterKey, rotate } from './master-key.ts';
import { recoverCommand } from './recover.ts';
import { restoreCommand } from './restore.ts';
import { serve } from './serve.ts';
import { sessionCommands } from './sessions.ts';
import { tenantCommands } from './tenants.ts';
import { tokenCommands } from './tokens.ts';
import { usageCommands } from './usage.ts';

export const commands: readonly Command[] = [
  {
    words: ['serve'],
    takes: [],
    summary: 'Run the service.',
    details: 'On an empty database, the first start makes a tenant and writes its management key to a file.',
    run: serve,
  },
  ...tenantCommands,
  {
    words: ['master-key', 'new'],
    takes: [],
    summary: 'Print a new master key, for a fleet that is given one.',
    run: printMasterKey,
  },
  {
    words: ['master-key', 'rotate'],
    takes: [],
    options: [dropOldOption, yesOption],
    summary: 'Seal all that the master key seals with a new one, while the service runs.',
    details:
      'A key file gets the new key on top. The old one stays below it, since backups and audit exports from before need it; --drop-old takes it out, for ever, and asks first. With SALLYPORT_MASTER_KEY, restart the nodes one by one with NEW,OLD in it, rotate with the same value, and restart them with NEW alone; keep OLD elsewhere. Where every node has a copy of the key file, do the same with the new key on a line above the old one. A rotation that breaks off leaves everything readable: run it again.',
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
    summary: 'Bring the database schema up to date, and stop.',
    details: 'Starting the service does the same; this is for doing it beforehand.',
    run: migrateOnly,
  },
  healthCommand,
  {
    words: ['completion'],
    takes: ['SHELL'],
    summary: `Print what teaches a shell to complete the command line: ${shells.join(', ')}.`,
    details: 'The first lines say where to put it.',
    run: async ({ args, print }) => {
      print(completionScript(args[0] as string, commands));
      return 0;
    },
  },
  {
    words: ['version'],
    takes: [],
    summary: 'Print the version.',
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
  const { store, migrated } = await openDatabase(config);
  await store.close();
  const { from, to } = migrated;
  const words = from === to ? `schema ${to}: nothing to do` : `schema ${from} → ${to}`;
  print(json ? JSON.stringify(migrated) : words);
  return 0;
}
