import { SQLiteError } from 'bun:sqlite';
import { existsSync, statSync } from 'node:fs';
import { configuredSinks, type Sink } from '../../audit/delivery.ts';
import { type Config, ConfigError } from '../../config/settings.ts';
import { lockFile } from '../../db/sqlite/sqlite-lock.ts';
import { type Check, fail, missingHint, warn } from '../../operations/check.ts';
import { diagnose } from '../../operations/diagnosis.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { memoryProblems } from '../../operations/node-problems.ts';
import { restoreHint } from '../../operations/sqlite-check.ts';
import type { Invocation, LocalCommand } from '../command.ts';
import { systemErrorOf } from '../errors.ts';
import { databaseLabel, shortPath, sqlitePath, unavailableHint, whileWaiting } from '../terminal/database.ts';
import type { Color } from '../terminal/terminal.ts';
import { checkDisk, checkFiles, checkSettings, checkSignIn } from './doctor-host.ts';

export const commands: LocalCommand = {
  usage: 'doctor',
  summary: 'Check settings, files, clock, database and audit log.',
  details: 'Changes nothing and can run while the service runs. Exits with 1 if a check fails.',
  examples: ['sallyport doctor'],
  run: doctor,
};

const colors: Record<Check['state'], Color> = { ok: 'green', warn: 'yellow', fail: 'red' };

async function doctor(invocation: Invocation): Promise<number> {
  const { printResult, colorize } = invocation;
  const checks = await runChecks(invocation);
  const passed = checks.every(({ state }) => state !== 'fail');
  const lines = checks.flatMap(({ name, state, message, hint }) => [
    `${colorize(colors[state], state.padEnd(4))}  ${name.padEnd(13)}  ${message}`,
    ...(hint ? [`      ${''.padEnd(13)}  → ${hint}`] : []),
  ]);
  return printResult({ ok: passed, checks }, lines.join('\n'), passed ? 0 : 1);
}

export async function runChecks(invocation: Invocation): Promise<Check[]> {
  try {
    const { config, terminal } = invocation;
    const host = [
      ...checkSettings(config, terminal.env),
      ...reportSystemErrors('files', () => checkFiles(config, terminal.env)),
      ...memoryProblems(config),
      ...(await checkSignIn(config)),
    ];
    const disk = reportSystemErrors('disk', () => checkDisk(config));
    const sinks = await configuredSinks(config, { env: terminal.env, now: Date.now });
    return [...host, ...disk, ...(await checkDatabase(invocation, sinks, disk))];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [fail('settings', error.message, 'run `sallyport serve --help` for the settings')];
  }
}

/** Turns a file that this user cannot read into a failed check, so that the other checks still run. */
function reportSystemErrors(name: string, check: () => Check[]): Check[] {
  try {
    return check();
  } catch (error) {
    const known = systemErrorOf(error);
    if (!known) throw error;
    return [fail(name, `${known.path}: ${known.reason}`, known.hint)];
  }
}

/** `disk` has the checks of the disk, which may explain why the database cannot be opened. */
async function checkDatabase(
  invocation: Invocation,
  sinks: readonly Sink[],
  disk: readonly Check[],
): Promise<Check[]> {
  const { config } = invocation;
  const path = sqlitePath(config.databaseUrl);
  const label = databaseLabel(config.databaseUrl);
  try {
    const missing = path === undefined ? undefined : checkPresence(path, config);
    if (missing) return [missing];
    const names = sinks.map(({ name }) => name);
    return await whileWaiting(invocation, (onStep) =>
      diagnose(config, masterKeys(config), Date.now, names, onStep),
    );
  } catch (error) {
    const damage = damageOf(error);
    if (damage && path !== undefined)
      return [fail('database', `${label} is damaged: ${damage.message}`, restoreHint(path))];
    const known = systemErrorOf(error) ?? systemErrorOf((error as Error).cause);
    const message = known?.reason ?? (error as Error).message;
    const hint = disk.some(({ state }) => state === 'fail')
      ? 'correct the problem of the disk first: see above'
      : (known?.hint ?? unavailableHint(config.databaseUrl, message));
    return [fail('database', `${label}: ${message}`, hint)];
  }
}

/** The error of SQLite if the database is damaged. Undefined for other errors. */
function damageOf(error: unknown): SQLiteError | undefined {
  const cause = error instanceof SQLiteError ? error : (error as Error).cause;
  return cause instanceof SQLiteError && /^SQLITE_(CORRUPT|NOTADB)/.test(cause.code ?? '')
    ? cause
    : undefined;
}

/**
 * Must run before SQLite opens the file. When SQLite opens an empty file, it deletes the write-ahead log beside it,
 * which may have the only copy of the data.
 */
function checkPresence(path: string, config: Config): Check | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size !== undefined && size > 0) return undefined;
  const message = `${shortPath(path)} ${size === 0 ? 'is empty' : 'does not exist'}`;
  const trace = tracesOf(path, config, size === 0).find((file) => existsSync(file));
  const hint = `move the file back, or ${restoreHint(path)}`;
  if (trace) return fail('database', `${message}, but ${shortPath(trace)} shows that it was used`, hint);
  if (config.requireExisting)
    return fail('database', `${message}, and SALLYPORT_REQUIRE_EXISTING is true`, missingHint);
  const create = 'run `sallyport serve` to create it';
  const restored = existsSync(config.masterKeyFile) ? '; if it existed before, restore a backup' : '';
  return warn('database', message, create + restored);
}

/**
 * Files that prove that the database was used. The lock file proves nothing beside an empty database, because a failed
 * first start leaves both.
 */
function tracesOf(path: string, { managementKeyFile }: Config, empty: boolean): string[] {
  const files = [managementKeyFile, `${path}-wal`, `${path}-shm`];
  return empty ? files : [...files, lockFile(path)];
}
