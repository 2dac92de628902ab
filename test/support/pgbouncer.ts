/** Starts an installed PgBouncer on a free port, in transaction mode and otherwise with its default settings. */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, serverUser } from './postgres.ts';
import { isMissing } from './skip.ts';

export interface Pgbouncer {
  readonly port: number;
  /** Points PgBouncer to another server. */
  setServer(port: number): void;
  stop(): Promise<void>;
}

/** Debian installs PgBouncer in /usr/sbin, which may not be in the PATH. `PGBOUNCER_PATH` adds another version. */
const installed = [
  Bun.which('pgbouncer', { PATH: `${process.env.PATH}:/usr/sbin` }),
  process.env.PGBOUNCER_PATH,
];

/** For `describe.each`: the version and path of every PgBouncer found. */
export const pgbouncers = installed.flatMap((path): [version: string, path: string][] => {
  if (!path) return [];
  const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
  return [[/PgBouncer ([\d.]+)/.exec(stdout)?.[1] ?? 'of unknown version', path]];
});

export const noPgbouncer = isMissing(pgbouncers.length > 0, 'connection pooler tests: no pgbouncer found');

/** `settings` are added to the section `[pgbouncer]`. */
export async function startPgbouncer(
  program: string,
  serverPort: number,
  settings: Record<string, string> = {},
): Promise<Pgbouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-pgbouncer-'));
  chmodSync(folder, 0o755);
  const port = freePort();
  const users = join(folder, 'users.txt');
  writeFileSync(users, '"postgres" ""\n');
  const options = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: users,
    pool_mode: 'transaction',
    ...settings,
  };
  const lines = Object.entries(options).map(([name, value]) => `${name} = ${value}`);
  const file = join(folder, 'pgbouncer.ini');
  const configure = (to: number) =>
    writeFileSync(
      file,
      ['[databases]', `* = host=127.0.0.1 port=${to}`, '[pgbouncer]', ...lines, ''].join('\n'),
    );
  configure(serverPort);
  const server = spawn(program, [file], { ...serverUser, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    let output = '';
    server.stderr.on('data', (chunk) => {
      output += chunk;
      if (output.includes('process up')) resolve();
    });
    server.once('exit', () => reject(new Error(`PgBouncer did not start: ${output}`)));
  });
  return {
    port,
    setServer: (to) => {
      configure(to);
      server.kill('SIGHUP');
    },
    stop: async () => {
      server.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
