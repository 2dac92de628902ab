import { ConfigError } from '../../config.ts';
import type { Invocation, LocalCommand } from '../command.ts';
import type { Color } from '../terminal/colors.ts';
import { systemErrorOf } from '../terminal/system-error.ts';
import { type Check, fail } from './check.ts';
import { checkDatabase } from './doctor-database.ts';
import { checkDisk, checkFiles, checkSettings } from './doctor-place.ts';

export const doctorCommand: LocalCommand = {
  words: ['doctor'],
  takes: [],
  summary: 'Check settings, files, clock, database and audit log.',
  details: 'Changes nothing and can run beside the service. Exits with 1 if a check fails.',
  examples: ['sallyport doctor'],
  run: doctor,
};

const inks: Record<Check['state'], Color> = { ok: 'green', warn: 'yellow', fail: 'red' };

async function doctor(invocation: Invocation): Promise<number> {
  const { json, print, paint } = invocation;
  const checks = await examineAll(invocation);
  const well = checks.every(({ state }) => state !== 'fail');
  if (json) print(JSON.stringify({ ok: well, checks }));
  else {
    for (const { name, state, says, todo } of checks) {
      print(`${paint(inks[state], state.padEnd(4))}  ${name.padEnd(13)}  ${says}`);
      if (todo) print(`      ${''.padEnd(13)}  → ${todo}`);
    }
  }
  return well ? 0 : 1;
}

async function examineAll(invocation: Invocation): Promise<Check[]> {
  try {
    const { config, terminal } = invocation;
    return [
      ...checkSettings(config, terminal.env),
      ...asFarAsItGoes('files', () => checkFiles(config)),
      ...asFarAsItGoes('disk', () => checkDisk(config)),
      ...(await checkDatabase(config)),
    ];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [fail('settings', error.message, 'sallyport serve --help lists the settings')];
  }
}

/** What this user may not look at is something to tell, not a reason to stop. */
function asFarAsItGoes(name: string, check: () => Check[]): Check[] {
  try {
    return check();
  } catch (error) {
    const trouble = systemErrorOf(error);
    if (!trouble) throw error;
    return [fail(name, `${trouble.path}: ${trouble.says}`, trouble.todo)];
  }
}
