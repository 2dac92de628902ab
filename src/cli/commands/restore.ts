import { SQLiteError } from 'bun:sqlite';
import { existsSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { masterKeys } from '../../operations/master-key.ts';
import {
  anythingOf,
  flaws,
  foreignSchema,
  moveAway,
  removeDatabase,
  settle,
  unpack,
  type Verification,
} from '../../operations/sqlite-backup.ts';
import type { MasterKeys } from '../../store/crypto/keyring.ts';
import { makeFolder, makeLike } from '../../store/engine/file-ownership.ts';
import { lockAlone } from '../../store/engine/sqlite-lock.ts';
import { openStore } from '../../store/open.ts';
import type { Command, Invocation } from '../command.ts';
import { Refused, UsageError } from '../errors.ts';
import { mustBeFile, syncFolderOf } from '../terminal/files.ts';
import { sqlitePath } from '../terminal/paths.ts';
import { describeSystemError } from '../terminal/system-error.ts';
import { mustGoTogether, type Report, recoverOptions, recoverStore, reportLines } from './recover.ts';

export const restoreCommand: Command = {
  words: ['restore'],
  takes: ['FILE'],
  options: [
    { name: 'force', sentence: 'Replace an existing database. It is moved aside, not deleted.' },
    {
      name: 'unverified',
      sentence:
        'Restore a file without a valid MAC or with a different schema. Anyone who could write to the file may have added keys, grants or triggers that work as soon as the service starts.',
    },
    ...recoverOptions,
  ],
  summary: 'Restore a SQLite database from a backup.',
  examples: ['sallyport restore /backups/sallyport.db'],
  details:
    'Stop the service first. Checks the MAC of the backup, its integrity and its schema. Sessions, nonces and idempotency records are not restored.',
  run: restore,
};

async function restore(invocation: Invocation): Promise<number> {
  const { config, args, options, json, print } = invocation;
  const target = sqlitePath(config.databaseUrl);
  if (target === undefined)
    throw new UsageError('PostgreSQL restores its own backups', 'pg_restore, then sallyport recover');
  mustGoTogether(options);
  const file = resolve(args[0] as string);
  mustBeFile(file);
  makeFolder(dirname(target));
  const letGo = lockAlone(target);
  try {
    mayReplace(file, target, options.on('force'));
    const staged = `${target}.restoring`;
    const before = existsSync(target) ? settle(target) : undefined;
    const { verification, report } = await stage(file, staged, target, before, invocation).catch((error) => {
      removeDatabase(staged);
      throw error;
    });
    const replaced = putInPlace(staged, target);
    print(
      json
        ? JSON.stringify({ database: target, ...(replaced && { replaced }), backup: verification, ...report })
        : inWords(target, file, replaced, verification, report),
    );
    return 0;
  } finally {
    letGo();
  }
}

function mayReplace(file: string, target: string, force: boolean): void {
  if (!existsSync(target)) return;
  if (realpathSync(file) === realpathSync(target)) throw new UsageError(`${file} is the database itself`);
  if (!force)
    throw new Refused(`${target} is there already`, '--force replaces it, and keeps it beside the new one');
}

/** Makes the backup ready under another name, so that nothing is touched until all of it is known to be good. */
async function stage(
  file: string,
  staged: string,
  target: string,
  before: string | undefined,
  { config, options }: Invocation,
): Promise<{ verification: Verification; report: Report }> {
  removeDatabase(staged);
  const masters = masterKeys(config);
  const accept = (why: string, todo: string) => {
    if (options.on('unverified')) return;
    throw new Refused(`${file} is not verified: ${why}`, `${todo}; ${elseUnverified}`);
  };
  const unpacked = tryUnpack(file, staged, masters, accept);
  const [flaw] = 'flaw' in unpacked ? [unpacked.flaw] : flaws(staged);
  if (flaw || 'flaw' in unpacked)
    throw new Refused(`${file} cannot be restored: ${flaw}`, 'try an earlier backup');
  const verification = withSchema(unpacked, foreignSchema(staged), accept);
  makeLike(target, staged);
  const { maintenance, close } = await openStore(`sqlite:${staged}`, { masters });
  try {
    const story = {
      ...(before !== undefined && { audit_head: { from: before } }),
      backup: { to: verification },
    };
    return { verification, report: await recoverStore(maintenance, options, story) };
  } finally {
    await close();
  }
}

function withSchema(
  verification: Verification,
  foreign: readonly string[],
  accept: (why: string, todo: string) => void,
): Verification {
  if (foreign.length === 0) return verification;
  const why = `its schema is not the one that this version makes: ${foreign.join('; ')}`;
  accept(why, 'use another backup');
  return { verified: false, why: verification.verified ? why : `${verification.why}; ${why}` };
}

const elseUnverified =
  'or --unverified, if you trust the file and every place where it was kept: see docs/operations/backups.md';

/** Names what is wrong with the file, if SQLite cannot read it. */
function tryUnpack(
  file: string,
  staged: string,
  masters: MasterKeys,
  accept: (why: string, todo: string) => void,
): Verification | { flaw: string } {
  try {
    return unpack(file, staged, masters, accept);
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error;
    if (error.code === 'SQLITE_FULL') throw describeSystemError(`${staged} cannot be written`, error);
    return { flaw: error.message };
  }
}

/** Between the two steps there is no database at all, which a start takes notice of: never half of one. */
function putInPlace(staged: string, target: string): string | undefined {
  settle(staged);
  const replaced = anythingOf(target) ? `${target}.replaced-${stamp()}` : undefined;
  if (replaced) moveAway(target, replaced);
  moveAway(staged, target);
  removeDatabase(staged);
  syncFolderOf(target);
  return replaced;
}

function stamp(): string {
  return new Date().toISOString().replace(/[-:.]/g, '');
}

function inWords(
  target: string,
  file: string,
  replaced: string | undefined,
  verification: Verification,
  report: Report,
): string {
  const proof = verification.verified
    ? `backup verified: taken at ${verification.taken_at}, MAC under the master key ${verification.master_key}`
    : `NOT verified: ${verification.why}. Review applications and keys before you start the service`;
  const kept = replaced ? [`the database before is kept as ${replaced}`] : [];
  return [`restored ${target} from ${file}`, proof, ...kept, ...reportLines(report)].join('\n');
}
