/** A PostgreSQL server that can be killed, restarted, replicated to a standby and promoted. */
import { spawn, spawnSync } from 'node:child_process';
import { chownSync, cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { freePort, postgresBinaries, serverUser } from '../../test/support/postgres.ts';

/** Durable as in production, but with little memory. A lost standby is noticed after 2 seconds. */
const settings: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '16MB',
  fsync: 'on',
  wal_level: 'replica',
  wal_sender_timeout: '2s',
  hot_standby: 'on',
};

export class Cluster {
  readonly port: number;
  readonly #folder: string;
  readonly #bin: string;
  readonly #settings: Readonly<Record<string, string>>;
  #server: ReturnType<typeof spawn> | undefined;
  #ended: Promise<unknown> = Promise.resolve();
  #said = '';

  private constructor(folder: string, bin: string, more: Readonly<Record<string, string>>, port: number) {
    this.#folder = folder;
    this.#bin = bin;
    this.#settings = { ...settings, ...more, port: String(port) };
    this.port = port;
  }

  /** Initializes a cluster without starting it, with the programs in `bin`. `folder` must not exist. */
  static async make(folder: string, bin?: string, more: Record<string, string> = {}): Promise<Cluster> {
    createFolder(folder);
    const programs = bin ?? (await postgresBinaries(folder));
    const cluster = new Cluster(folder, programs, more, freePort());
    const flags = [
      '-U',
      'postgres',
      '--auth=trust',
      '--no-sync',
      '--encoding=UTF8',
      '--locale=C',
      '--wal-segsize=1',
    ];
    const made = spawnSync(join(cluster.#bin, 'initdb'), ['-D', cluster.data, ...flags], {
      ...serverUser,
      cwd: folder,
      encoding: 'utf8',
    });
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr ?? made.error}`);
    return cluster;
  }

  /** The process id of the running server. */
  get pid(): number {
    return this.#server?.pid as number;
  }

  get data(): string {
    return join(this.#folder, 'data');
  }

  url(name = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${name}`;
  }

  /** Resolves when the server accepts connections. `before` is a command prefix. */
  async start(more: Readonly<Record<string, string>> = {}, before: readonly string[] = []): Promise<void> {
    const flags = Object.entries({ ...this.#settings, ...more }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ]);
    const [command, ...args] = [...before, join(this.#bin, 'postgres'), '-D', this.data, ...flags];
    const server = spawn(command as string, args, {
      ...serverUser,
      cwd: this.#folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#server = server;
    this.#said = '';
    const ended = Promise.withResolvers<void>();
    this.#ended = ended.promise;
    const ready = Promise.withResolvers<void>();
    server.stderr?.on('data', (chunk) => {
      this.#said += chunk;
      if (/ready to accept (read-only )?connections/.test(this.#said)) ready.resolve();
    });
    server.once('exit', () => {
      ended.resolve();
      ready.reject(new Error(`PostgreSQL did not start: ${this.#said}`));
    });
    await ready.promise;
  }

  /** Log output since the start. */
  get said(): string {
    return this.#said;
  }

  /** Kills all processes of the server, like a power failure. */
  async kill(): Promise<void> {
    const { pid, exitCode, signalCode } = this.#server ?? {};
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    // A server that recovers from a crash starts processes, which would survive.
    process.kill(pid, 'SIGSTOP');
    const children = childrenOf(pid);
    for (const each of [pid, ...children]) end(each);
    await this.#ended;
    while (children.some(isRunning)) await Bun.sleep(1);
  }

  /** Stops all processes of the server for a while, like a machine that hangs. */
  freeze(): void {
    this.#signal('SIGSTOP');
  }

  unfreeze(): void {
    this.#signal('SIGCONT');
  }

  #signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    for (const each of [this.pid, ...childrenOf(this.pid)]) process.kill(each, signal);
  }

  async sql<R>(text: string, name?: string): Promise<R[]> {
    const sql = new SQL(this.url(name), { max: 1 });
    try {
      return (await sql.unsafe(text)) as R[];
    } finally {
      await sql.close();
    }
  }

  /** Creates a standby without starting it. `folder` must not exist. */
  async copy(folder: string): Promise<Cluster> {
    createFolder(folder);
    const copy = new Cluster(folder, this.#bin, this.#settings, freePort());
    await this.backUp(copy.data);
    writeFileSync(join(copy.data, 'standby.signal'), '');
    const source = `host=127.0.0.1 port=${this.port} user=postgres`;
    writeFileSync(join(copy.data, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    changeOwner(copy.data);
    return copy;
  }

  /** Takes a base backup. `folder` must not exist. */
  async backUp(folder: string): Promise<void> {
    const session = new SQL(this.url(), { max: 1 });
    try {
      await session.unsafe("select pg_backup_start('standby', true)");
      const inMemory = (path: string) =>
        !/\/(postmaster\.(pid|opts)|pg_stat_tmp\/.+|pg_replslot\/.+)$/.test(path);
      cpSync(this.data, folder, { recursive: true, filter: inMemory });
      const [row] = await session.unsafe('select labelfile from pg_backup_stop(false)');
      writeFileSync(join(folder, 'backup_label'), row.labelfile);
    } finally {
      await session.close();
    }
  }

  /**
   * Replaces the data of the stopped server with a base backup, and starts it with the archived WAL up to a restore
   * point. Resolves when the server accepts writes.
   */
  async restore(backup: string, archive: string, point: string): Promise<void> {
    rmSync(this.data, { recursive: true });
    cpSync(backup, this.data, { recursive: true });
    writeFileSync(join(this.data, 'recovery.signal'), '');
    changeOwner(this.data);
    await this.start({
      restore_command: `cp ${archive}/%f %p`,
      recovery_target_name: point,
      recovery_target_action: 'promote',
    });
    while ((await this.sql('select 1 where pg_is_in_recovery()')).length > 0) await Bun.sleep(20);
  }

  /** Turns on synchronous replication. Resolves when a standby follows. */
  async waitForStandby(): Promise<void> {
    const following = "select 1 from pg_stat_replication where sync_state = 'sync' and state = 'streaming'";
    await this.sql("alter system set synchronous_standby_names = '*'");
    await this.sql('select pg_reload_conf()');
    while ((await this.sql(following)).length === 0) await Bun.sleep(5);
  }

  /** Promotes a standby. */
  async promote(): Promise<void> {
    await this.sql('select pg_promote(true, 10)');
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export function createFolder(folder: string): void {
  mkdirSync(folder);
  if (serverUser.uid !== undefined) chownSync(folder, serverUser.uid, serverUser.gid);
}

export function changeOwner(folder: string): void {
  spawnSync('chmod', ['0700', folder]);
  if (serverUser.uid !== undefined) spawnSync('chown', ['-R', `${serverUser.uid}:${serverUser.gid}`, folder]);
}

export function childrenOf(pid: number): number[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const lines = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
  return lines.filter(([, parent]) => parent === pid).map(([child]) => child as number);
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {}
}

/** A zombie process does not count as running. */
function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return /^[^Z]/.test(stdout.trim());
}
