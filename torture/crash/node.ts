/** A node as a separate process that can be killed. */
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { environment } from '../../test/support/service.ts';
import { testMasterKey } from '../../test/support/test-server.ts';
import { unlimited } from '../fleet.ts';
import { NotFinished } from '../not-finished.ts';
import type { Context } from '../row.ts';

export interface KillableNode {
  readonly url: string;
  readonly pid: number;
  /** Resolves with the exit code. */
  readonly exited: Promise<number>;
  /** Sends SIGKILL. */
  kill(): Promise<void>;
  /** Stops the node gracefully and returns its exit code. */
  stop(): Promise<number>;
}

export interface NodeOptions {
  readonly databaseUrl: string;
  /** The command that runs `serve`. */
  readonly command: readonly string[];
  readonly env?: Record<string, string>;
}

/** The environment of a node or command, without the settings of the caller's shell. */
export function environmentOf(
  folder: string,
  databaseUrl: string,
  env: Record<string, string> = {},
): Record<string, string | undefined> {
  const own = {
    ...unlimited,
    // Nothing expires before it is checked.
    SALLYPORT_SESSION_TTL: '36000',
    SALLYPORT_DATABASE_TIMEOUT: '',
    DATABASE_URL: databaseUrl,
    SALLYPORT_MASTER_KEY: testMasterKey,
    ...env,
  };
  return environment(folder, own);
}

const maxStarts = 5;

/**
 * Starts a node, and resolves when it listens. Its log goes to the row's folder. It is stopped at the end of the row.
 * Tries again if the database does not answer in time, because the machine may be busy.
 */
export async function startNode(
  context: Context,
  { databaseUrl, command, env }: NodeOptions,
  attempt = 1,
): Promise<KillableNode> {
  mkdirSync(context.folder, { recursive: true });
  const said = join(context.folder, 'said.log');
  const log = openSync(said, 'a', 0o600);
  const child = Bun.spawn([...command, 'serve'], {
    cwd: context.folder,
    env: environmentOf(context.folder, databaseUrl, env),
    stdio: ['ignore', 'pipe', log],
  });
  closeSync(log);
  const kill = async () => {
    child.kill('SIGKILL');
    await child.exited;
  };
  context.defer(kill);
  const stop = () => {
    child.kill('SIGTERM');
    return child.exited;
  };
  const decoder = new TextDecoder();
  let printed = '';
  for await (const chunk of child.stdout) {
    printed += decoder.decode(chunk, { stream: true });
    const url = /listening on (http:\S+)\n/.exec(printed)?.[1];
    if (url) return { url, pid: child.pid, exited: child.exited, kill, stop };
  }
  const errors = readFileSync(said, 'utf8').split('\n').slice(-5).join('\n');
  const isSlow = errors.includes('the database does not answer');
  if (attempt < maxStarts && isSlow)
    return startNode(context, { databaseUrl, command, ...(env && { env }) }, attempt + 1);
  const Reason = isSlow ? NotFinished : Error;
  throw new Reason(`the node exited with ${await child.exited} before listening: ${printed}${errors}`);
}

/** The first tenant's management key. */
export function firstKey(context: Context): string {
  const file = join(context.folder, 'data', 'management.key');
  return context.secrets.add(readFileSync(file, 'utf8').trim());
}
