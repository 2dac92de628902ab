import { ConfigError } from '../../config.ts';
import type { Invocation, LocalCommand } from '../command.ts';
import { systemErrorOf } from '../errors.ts';
import type { Color } from '../terminal/terminal.ts';
import { type Check, fail } from './doctor-check.ts';
import { checkDatabase } from './doctor-database.ts';
import { checkDisk, checkFiles, checkSettings } from './doctor-host.ts';

export const doctorCommand: LocalCommand = {
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

async function runChecks(invocation: Invocation): Promise<Check[]> {
  try {
    const { config, terminal } = invocation;
    return [
      ...checkSettings(config, terminal.env),
      ...reportSystemErrors('files', () => checkFiles(config)),
      ...reportSystemErrors('disk', () => checkDisk(config)),
      ...(await checkDatabase(config)),
    ];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [fail('settings', error.message, 'run `sallyport serve --help` for the settings')];
  }
}

/** A file that this user cannot read is a failed check, and the other checks still run. */
function reportSystemErrors(name: string, check: () => Check[]): Check[] {
  try {
    return check();
  } catch (error) {
    const known = systemErrorOf(error);
    if (!known) throw error;
    return [fail(name, `${known.path}: ${known.reason}`, known.hint)];
  }
}
