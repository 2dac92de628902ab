/** The program as its user starts it: a process of its own, in a new and empty folder. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settings } from '../../src/config.ts';

export const root = join(import.meta.dirname, '..', '..');

export interface Service {
  readonly url: string;
  readonly folder: string;
  readonly env: Record<string, string | undefined>;
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  /** Ends it if it still runs, and removes the folder. */
  close(): Promise<void>;
}

const program = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'serve'];

/** Resolves when it listens. Settings of whoever runs the tests do not reach it. */
export async function startService(
  settingsOfTest: Record<string, string> = {},
  command: readonly string[] = program,
): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-service-'));
  const unset = Object.fromEntries(Object.values(settings).map(({ variable }) => [variable, '']));
  const own = { PORT: '0', SALLYPORT_DRAIN: '0', SALLYPORT_DATA_DIR: join(folder, 'data') };
  const env = { ...process.env, ...unset, ...own, ...settingsOfTest };
  const running = Bun.spawn([...command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  return {
    url: await announced(running),
    folder,
    env,
    process: running,
    close: async () => {
      running.kill('SIGKILL');
      await running.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The address in the banner. */
async function announced({ stdout, stderr }: Service['process']): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of stdout) {
    text += decoder.decode(chunk, { stream: true });
    const address = /is listening on (\S+)/.exec(text)?.[1];
    if (address) return address;
  }
  throw new Error(`the service ended without listening: ${text}${await new Response(stderr).text()}`);
}
