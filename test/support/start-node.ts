/** Starts a node as a separate process on a given database. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { program } from './service.ts';
import { generousTimeout, testMasterKey } from './test-server.ts';

export interface NodeProcess {
  readonly url: string;
  /** The contents of its management key file. Undefined unless this node created the first tenant. */
  managementKey(): string | undefined;
  stop(): Promise<void>;
}

export async function startNode(databaseUrl: string, env: Record<string, string> = {}): Promise<NodeProcess> {
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
  const errors = await new Response(child.stderr).text();
  await stop();
  throw new Error(`the node did not start: ${errors}`);
}
