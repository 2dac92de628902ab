/** Master keys from a program, such as the client of a key management service. */
import { ConfigError } from '../config.ts';
import { type MasterKey, parseMasterKeys } from '../store/crypto/cipher.ts';
import type { MasterKeys } from '../store/crypto/keyring.ts';

const variable = 'SALLYPORT_MASTER_KEY_COMMAND';

/** Milliseconds until the command is killed. */
export const commandTimeout = 30_000;
const maxOutput = 65_536;
/** Milliseconds between two runs in the background. */
const minInterval = 10_000;

/** How the command runs: without a shell, without input, and with nothing of what it prints in the log. */
const options = {
  stdin: 'ignore',
  stdout: 'pipe',
  stderr: 'ignore',
  killSignal: 'SIGKILL',
  maxBuffer: maxOutput,
} as const;

const hint = 'run the command by hand to see what it prints: the service does not show it';

/** Runs the command and waits for it. Throws `ConfigError` without its output. */
export function keysFromCommand(argv: readonly string[], timeout = commandTimeout): MasterKey[] {
  const [program = ''] = argv;
  let result: Bun.SyncSubprocess<'pipe', 'ignore'>;
  try {
    result = Bun.spawnSync([...argv], { ...options, timeout });
  } catch {
    throw cannotRun(program);
  }
  if (result.exitedDueToTimeout) throw tookTooLong(program, timeout);
  if (result.exitedDueToMaxBuffer) throw printedTooMuch(program);
  return parseOutput(program, result.exitCode, result.signalCode, result.stdout);
}

/**
 * Runs the command without blocking this process. Rejects with `ConfigError` without its output. With `unref`, the
 * process may exit before the command has ended.
 */
export async function keysInBackground(
  argv: readonly string[],
  { timeout = commandTimeout, unref = false } = {},
): Promise<MasterKey[]> {
  const [program = ''] = argv;
  const child = spawn(argv);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    // The whole process group: programs that the command started may have its output open.
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

function spawn(argv: readonly string[]): Bun.Subprocess<'ignore', 'pipe', 'ignore'> {
  try {
    return Bun.spawn([...argv], { ...options, detached: true });
  } catch {
    throw cannotRun(argv[0]);
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

/** Runs the command at the start of the service, which waits for it without blocking. */
export async function startCommandKeys(
  argv: readonly string[],
  onStep: (waitingFor: string) => void,
): Promise<MasterKeys> {
  onStep(`the output of ${argv[0]}, the command in ${variable}`);
  return commandKeys(argv, { keys: await keysInBackground(argv) });
}

/**
 * Runs the command when a key is first needed, unless `keys` contains its output. If a key is missing later, because another node has
 * rotated, runs it again in the background: `find` returns the key after that.
 */
export function commandKeys(
  argv: readonly string[],
  options: { readonly now?: () => number; readonly keys?: MasterKey[] } = {},
): MasterKeys {
  const { now = () => performance.now() } = options;
  let { keys } = options;
  let lastRun = keys ? now() : 0;
  let isRunning = false;
  let lastError: string | undefined;

  function read(): MasterKey[] {
    if (!keys) {
      keys = keysFromCommand(argv);
      lastRun = now();
    }
    return keys;
  }

  async function refresh(): Promise<void> {
    if (isRunning || now() - lastRun < minInterval) return;
    isRunning = true;
    try {
      keys = await keysInBackground(argv, { unref: true });
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
