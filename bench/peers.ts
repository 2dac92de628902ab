/** Comparable products, installed into bench/peers at the first run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Server, startServer } from './servers.ts';

const folder = join(import.meta.dirname, 'peers');

export function installPeers(): void {
  if (existsSync(join(folder, 'node_modules'))) return;
  console.log('installing the peers into bench/peers …');
  const done = Bun.spawnSync(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (done.exitCode !== 0) throw new Error('installing the peers failed');
}

/** Node 24 from npm if it exists for this platform, otherwise the installed Node. */
export function node(): string {
  const own = join(folder, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  return existsSync(own) ? own : 'node';
}

export function peer(name: string): string {
  return join(folder, `${name}.mjs`);
}

export interface Peer extends Server {
  /** The credential that the peer created. */
  readonly key: string;
}

export async function startPeer(name: string, env: Record<string, string> = {}): Promise<Peer> {
  const server = await startServer([node(), peer(name)], { NODE_ENV: 'production', ...env });
  return { ...server, key: /^key (\S+)$/m.exec(server.printed)?.[1] ?? '' };
}
