/** The program as its user starts it: a process of its own, in a new and empty folder. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingList } from '../../src/config.ts';
import { generousTimeout } from './test-server.ts';

export const root = join(import.meta.dirname, '..', '..');

export interface Service {
  readonly url: string;
  readonly banner: string;
  readonly folder: string;
  readonly env: Record<string, string | undefined>;
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  /** Ends it if it still runs, and removes the folder. */
  close(): Promise<void>;
}

export const program = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'serve'];

/** Settings of whoever runs the tests do not reach it. */
export function environment(folder: string, own: Record<string, string>): Record<string, string | undefined> {
  const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, '']));
  const usual = {
    PORT: '0',
    SALLYPORT_DRAIN: '0',
    SALLYPORT_DATA_DIR: join(folder, 'data'),
    SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout),
  };
  return { ...process.env, ...unset, ...usual, ...own };
}

/** What the line of the banner that is there to be tried prints, as JSON. */
export async function runBannerCommand({ banner, folder }: Service): Promise<unknown> {
  const line = /^ +(curl .*)$/m.exec(banner)?.[1] as string;
  const shell = Bun.spawn(['sh', '-c', line], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  return new Response(shell.stdout).json();
}

/** Resolves when it listens. */
export async function startService(
  settingsOfTest: Record<string, string> = {},
  command: readonly string[] = program,
  folder = mkdtempSync(join(tmpdir(), 'sallyport-service-')),
): Promise<Service> {
  const env = environment(folder, settingsOfTest);
  const running = Bun.spawn([...command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const close = async () => {
    running.kill('SIGKILL');
    await running.exited;
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    return { ...(await announced(running)), folder, env, process: running, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Reads the banner to its last line. */
async function announced({ stdout, stderr }: Service['process']): Promise<{ url: string; banner: string }> {
  const decoder = new TextDecoder();
  let banner = '';
  for await (const chunk of stdout) {
    banner += decoder.decode(chunk, { stream: true });
    const url = /is listening on (\S+).*curl [^\n]*\n/s.exec(banner)?.[1];
    if (url) return { url, banner };
  }
  throw new Error(`the service ended without listening: ${banner}${await new Response(stderr).text()}`);
}
