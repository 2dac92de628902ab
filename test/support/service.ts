/** Starts the service as a separate process in a new, empty folder. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingList } from '../../src/config/settings.ts';
import { closeLater } from './cleanup.ts';
import { fewConnections, generousTimeout } from './test-server.ts';

export const root = join(import.meta.dirname, '..', '..');

export interface Service {
  readonly url: string;
  readonly banner: string;
  readonly folder: string;
  readonly env: Record<string, string | undefined>;
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  /** Kills the process and removes the folder. */
  close(): Promise<void>;
}

export const program = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'serve'];

/** The environment without the settings of the shell that runs the tests. */
export function environment(
  folder: string,
  overrides: Record<string, string>,
): Record<string, string | undefined> {
  const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, '']));
  const defaults = {
    PORT: '0',
    SALLYPORT_DRAIN: '0',
    SALLYPORT_DATA_DIR: join(folder, 'data'),
    SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout),
    SALLYPORT_DATABASE_CONNECTIONS: String(fewConnections),
  };
  return { ...process.env, ...unset, ...defaults, ...overrides };
}

/** Runs the banner's `curl` example and parses its output as JSON. */
export async function runBannerCommand({ banner, folder }: Service): Promise<unknown> {
  const line = /^ +(curl .*)$/m.exec(banner)?.[1] as string;
  const shell = Bun.spawn(['sh', '-c', line], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  return new Response(shell.stdout).json();
}

/** Resolves when the service listens. */
export async function startService(
  settings: Record<string, string> = {},
  command: readonly string[] = program,
  folder = mkdtempSync(join(tmpdir(), 'sallyport-service-')),
): Promise<Service> {
  const env = environment(folder, settings);
  const running = Bun.spawn([...command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const close = closeLater(async () => {
    running.kill('SIGKILL');
    await running.exited;
    rmSync(folder, { recursive: true, force: true });
  });
  try {
    return { ...(await readBanner(running)), folder, env, process: running, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function readBanner({ stdout, stderr }: Service['process']): Promise<{ url: string; banner: string }> {
  const decoder = new TextDecoder();
  let banner = '';
  for await (const chunk of stdout) {
    banner += decoder.decode(chunk, { stream: true });
    const url = /is listening on (\S+).*curl [^\n]*\n/s.exec(banner)?.[1];
    if (url) return { url, banner };
  }
  throw new Error(`the service ended without listening: ${banner}${await new Response(stderr).text()}`);
}
