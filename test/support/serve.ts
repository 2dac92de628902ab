/** The program as a process of its own, as an operator starts it. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { program } from './service.ts';
import { generousTimeout, testMasterKey } from './test-server.ts';

export interface Served {
  readonly url: string;
  /** What it wrote to its management key file, if it was the one to make the first tenant. */
  managementKey(): string | undefined;
  stop(): Promise<void>;
}

export async function serve(databaseUrl: string, env: Record<string, string> = {}): Promise<Served> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-serve-'));
  const child = Bun.spawn(program, {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      PORT: '0',
      DATABASE_URL: databaseUrl,
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_MASTER_KEY: testMasterKey,
      SALLYPORT_DRAIN: '0',
      SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await child.exited;
    rmSync(folder, { recursive: true, force: true });
  };
  const managementKey = () => {
    const file = join(folder, 'management.key');
    return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
  };
  let printed = '';
  for await (const chunk of child.stdout) {
    printed += new TextDecoder().decode(chunk);
    const url = /listening on (http:\S+)/.exec(printed)?.[1];
    if (url) return { url, managementKey, stop };
  }
  const complaint = await new Response(child.stderr).text();
  await stop();
  throw new Error(`it did not start: ${complaint}`);
}
