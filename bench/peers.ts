/** Others that do the same work, in a folder of their own: installed when they are missing. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Server, start } from './servers.ts';

const folder = join(import.meta.dirname, 'peers');

export function installPeers(): void {
  if (existsSync(join(folder, 'node_modules'))) return;
  console.log('installing the peers into bench/peers …');
  const done = Bun.spawnSync(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (done.exitCode !== 0) throw new Error('the peers could not be installed');
}

/** Node 24 from npm where there is one for this machine, else the one that is installed. */
export function node(): string {
  const own = join(folder, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  return existsSync(own) ? own : 'node';
}

export function peer(name: string): string {
  return join(folder, `${name}.mjs`);
}

export interface Peer extends Server {
  /** The credential that it made. */
  readonly key: string;
}

export async function startPeer(name: string, env: Record<string, string> = {}): Promise<Peer> {
  const server = await start([node(), peer(name)], { NODE_ENV: 'production', ...env });
  return { ...server, key: /^key (\S+)$/m.exec(server.printed)?.[1] ?? '' };
}
