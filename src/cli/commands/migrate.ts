import { writeFileSync } from 'node:fs';
import { openDatabase } from '../../app.ts';
import { retryTimeouts } from '../../operations/slow-start.ts';
import type { Command, Invocation } from '../command.ts';
import { whileWaiting } from '../terminal/database.ts';

export const commands: Command = {
  usage: 'migrate',
  summary: 'Migrate the database schema.',
  details:
    'Creates the schema in an empty database, and the file of SALLYPORT_WITNESS, unless SALLYPORT_REQUIRE_EXISTING is true, and updates it after an upgrade. `sallyport serve` does the same when it starts; run `migrate` before it to see errors before anything listens.',
  examples: ['sallyport migrate'],
  run: migrateOnly,
};

async function migrateOnly(invocation: Invocation): Promise<number> {
  const { config, printResult } = invocation;
  const { migrated, close } = await whileWaiting(invocation, (onStep) =>
    retryTimeouts(() => openDatabase(config, { onStep })),
  );
  await close();
  // In a database that no node has used, so nothing can be behind.
  if (migrated.from === 0 && config.witness !== undefined)
    writeFileSync(config.witness, '', { flag: 'a', mode: 0o600 });
  const { from, to } = migrated;
  const words =
    from === to ? `schema is up to date (version ${to})` : `migrated schema from version ${from} to ${to}`;
  return printResult(migrated, words);
}
