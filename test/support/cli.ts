/** A command as an operator gives it, within this process and in a folder of its own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { environment, root } from './service.ts';
import { shell } from './shell.ts';

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

export interface Desk {
  readonly folder: string;
  /** Of a file in the folder. */
  path(name: string): string;
  run(...words: string[]): Promise<Said>;
  /** With `--json`, and what it printed. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came back
  json(...words: string[]): Promise<{ code: number; body: any }>;
  /** As a process of its own, which goes on until it is told to stop. */
  start(...words: string[]): Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  clear(): void;
}

/** Where an operator sits, with these settings. */
export function openDesk(settings: (folder: string) => Record<string, string> = () => ({})): Desk {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-desk-'));
  const env = environment(folder, settings(folder));
  async function run(...words: string[]): Promise<Said> {
    const { code, out, err } = await shell(words, { env });
    return { code, out, error: err };
  }
  return {
    folder,
    path: (name) => join(folder, name),
    run,
    json: async (...words) => {
      const { code, out, error } = await run(...words, '--json');
      if (out === '') throw new Error(`it printed nothing, and exited with ${code}: ${error}`);
      return { code, body: JSON.parse(out) };
    },
    start: (...words) => {
      const command = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), ...words];
      return Bun.spawn(command, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    },
    clear: () => rmSync(folder, { recursive: true, force: true }),
  };
}
