/** Reads master keys from the output of a program, such as the client of a key management service. */
import { type Config, ConfigError } from '../config/settings.ts';
import { type MasterKey, parseMasterKeys } from '../db/keys/cipher.ts';
import type { MasterKeys } from '../db/keys/keyring.ts';

const variable = 'SALLYPORT_MASTER_KEY_COMMAND';

/** Milliseconds until the command is killed. */
const commandTimeout = 30_000;
const maxOutput = 65_536;
/** Minimum milliseconds between two runs in the background. */
const minInterval = 10_000;

/** The command runs without a shell and without input. Its output is never logged. */
const options = {
  stdin: 'ignore',
  stdout: 'pipe',
  stderr: 'ignore',
  killSignal: 'SIGKILL',
  maxBuffer: maxOutput,
} as const;

/** The variables of the environment that every command gets. */
const commonVariables = ['PATH', 'HOME', 'LANG', 'TZ'];

/** A program with its arguments, and names of variables that it gets besides `commonVariables`. */
export interface KeyCommand {
  readonly argv: readonly string[];
  readonly variables?: readonly string[];
}

/** Undefined if no command is set. */
export function keyCommand(config: Config): KeyCommand | undefined {
  const { masterKeyCommand: argv, masterKeyCommandEnv: variables } = config;
  return argv && { argv, variables };
}

/** The environment of the service contains secrets, such as the password of the database. */
function environment({ variables = [] }: KeyCommand): Record<string, string | undefined> {
  return Object.fromEntries([...commonVariables, ...variables].map((name) => [name, process.env[name]]));
}

const hint = `run the command yourself to see what it prints: the service does not show it; if it needs variables of the environment, name them in ${variable}_ENV`;

/** Runs the command and blocks until it ends. Throws `ConfigError`, whose message does not contain the output. */
export function keysFromCommand(command: KeyCommand, timeout = commandTimeout): MasterKey[] {
  const { argv } = command;
  const [program = ''] = argv;
  let result: Bun.SyncSubprocess<'pipe', 'ignore'>;
  try {
    result = Bun.spawnSync([...argv], { ...options, env: environment(command), timeout });
  } catch {
    throw cannotRun(program);
  }
  if (result.exitedDueToTimeout) throw tookTooLong(program, timeout);
  if (result.exitedDueToMaxBuffer) throw printedTooMuch(program);
  return parseOutput(program, result.exitCode, result.signalCode, result.stdout);
}

/**
 * Runs the command without blocking this process. Rejects with `ConfigError`, whose message does not contain the
 * output. With `unref`, this process may exit before the command ends.
 */
export async function keysInBackground(
  command: KeyCommand,
  { timeout = commandTimeout, unref = false } = {},
): Promise<MasterKey[]> {
  const [program = ''] = command.argv;
  const child = spawn(command);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    // Kills the whole process group, because programs that the command started may hold its output open.
    process.kill(-child.pid, 'SIGKILL');
    late.reject(tookTooLong(program, timeout));
  }, timeout);
  if (unref) {
    child.unref();
    timer.unref();
  }
  try {
    const output = await Promise.race([new Response(child.stdout).bytes(), late.promise]);
    if (output.length >= maxOutput) throw printedTooMuch(program);
    return parseOutput(program, await child.exited, child.signalCode, output);
  } finally {
    clearTimeout(timer);
  }
}

function spawn(command: KeyCommand): Bun.Subprocess<'ignore', 'pipe', 'ignore'> {
  try {
    return Bun.spawn([...command.argv], { ...options, env: environment(command), detached: true });
  } catch {
    throw cannotRun(command.argv[0]);
  }
}

function parseOutput(
  program: string,
  exitCode: number | null,
  signal: string | number | null | undefined,
  output: Uint8Array,
): MasterKey[] {
  if (signal) throw new ConfigError(`${variable} failed: ${program} was ended by ${signal}`, hint);
  if (exitCode !== 0) throw new ConfigError(`${variable} failed: ${program} exited with ${exitCode}`, hint);
  try {
    return parseMasterKeys(Buffer.from(output).toString());
  } catch (error) {
    throw new ConfigError(`the output of ${variable} ${(error as Error).message}`, hint);
  }
}

function cannotRun(program = ''): ConfigError {
  return new ConfigError(`${variable} failed: ${program} cannot be run`, hint);
}

function printedTooMuch(program: string): ConfigError {
  return new ConfigError(`${variable} failed: ${program} printed too much`, hint);
}

function tookTooLong(program: string, timeout: number): ConfigError {
  return new ConfigError(`${variable} failed: ${program} did not end within ${timeout / 1000} seconds`, hint);
}

/** Runs the command at the start of the service and waits for its output, without blocking the process. */
export async function startCommandKeys(
  command: KeyCommand,
  onStep: (waitingFor: string) => void,
): Promise<MasterKeys> {
  onStep(`the output of ${command.argv[0]}, the command in ${variable}`);
  return commandKeys(command, { keys: await keysInBackground(command) });
}

/**
 * Runs the command when a key is first needed, or uses `keys`, the output of an earlier run. A key can be missing
 * later, because another node has rotated the master key. `find` then returns undefined and runs the command again in
 * the background, so that a later call finds the key.
 */
export function commandKeys(
  command: KeyCommand,
  options: { readonly now?: () => number; readonly keys?: MasterKey[] } = {},
): MasterKeys {
  const { now = () => performance.now() } = options;
  let { keys } = options;
  let lastRun = keys ? now() : 0;
  let isRunning = false;
  let lastError: string | undefined;

  function read(): MasterKey[] {
    if (!keys) {
      keys = keysFromCommand(command);
      lastRun = now();
    }
    return keys;
  }

  async function refresh(): Promise<void> {
    if (isRunning || now() - lastRun < minInterval) return;
    isRunning = true;
    try {
      keys = await keysInBackground(command, { unref: true });
      lastError = undefined;
    } catch (error) {
      lastError = (error as ConfigError).message;
    } finally {
      lastRun = now();
      isRunning = false;
    }
  }

  return {
    current: () => read()[0] as MasterKey,
    find: (id) => {
      const found = read().find((key) => key.id === id);
      if (!found) void refresh();
      return found;
    },
    ids: () => read().map(({ id }) => id),
    missingReason: () => (lastError ? `and ${lastError}` : `which ${variable} does not print`),
  };
}
