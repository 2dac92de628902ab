/** Servers as processes of their own, and what they use of the machine. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingList } from '../src/config.ts';
import type { Answers } from './bare.ts';

const root = join(import.meta.dirname, '..');
export const masterKey = Buffer.alloc(32, 7).toString('base64');

export interface Server {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** What it printed until then. */
  readonly printed: string;
  stop(): Promise<void>;
}

/** Nothing is counted, so that the limits are not what is measured. */
const unlimited = {
  SALLYPORT_RATE_PER_KEY: '0',
  SALLYPORT_RATE_PER_ADDRESS: '0',
  SALLYPORT_SESSIONS_PER_MINUTE: '0',
  SALLYPORT_SESSIONS_WAITING: '0',
  SALLYPORT_TOKENS_PER_MINUTE: '0',
  SALLYPORT_TOKEN_BYTES_PER_MINUTE: '0',
  SALLYPORT_TOKEN_BYTES_PER_APPLICATION: '0',
};

const running = new Map<number, NodeJS.Signals>();

/** Whatever still runs when this process ends, for whatever reason, ends with it. */
export function endWithUs(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  running.set(pid, signal);
}

process.on('exit', () => {
  for (const [pid, signal] of running) {
    try {
      process.kill(pid, signal);
    } catch {}
  }
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

/** Ready when it has printed where it listens. */
export async function start(
  command: string[],
  env: Record<string, string | undefined> = {},
  input = '',
): Promise<Server> {
  const child = Bun.spawn(command, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: [Buffer.from(input), 'pipe', 'pipe'],
  });
  endWithUs(child.pid);
  const complaints = new Response(child.stderr).text();
  let printed = '';
  for await (const chunk of child.stdout) {
    printed += new TextDecoder().decode(chunk);
    const url = /listening on (http:\/\/[\d.]+:\d+)/.exec(printed)?.[1];
    if (!url) continue;
    const stop = async () => {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), 5000);
      await child.exited;
      clearTimeout(late);
      running.delete(child.pid);
    };
    return { url, port: Number(new URL(url).port), pid: child.pid, printed, stop };
  }
  throw new Error(`${command.join(' ')} did not start: ${printed}${await complaints}`);
}

export interface Service extends Server {
  readonly key: string;
  readonly databaseUrl: string;
  readonly keyFile: string;
  call<T = unknown>(method: string, path: string, body?: unknown, key?: string): Promise<T>;
  /** The answer as a bare server can send it. */
  answer(method: string, path: string, body?: unknown, key?: string): Promise<Answers[string]>;
}

const usual = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'serve'];

/** The service, on SQLite in a folder of its own unless a database is named. */
export async function startService(
  env: Record<string, string> = {},
  command: string[] = usual,
): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, '']));
  const keyFile = env.SALLYPORT_MANAGEMENT_KEY_FILE ?? join(folder, 'management.key');
  const databaseUrl = env.DATABASE_URL ?? `sqlite:${join(folder, 'sallyport.db')}`;
  const server = await start(command, {
    ...unset,
    ...unlimited,
    PORT: '0',
    SALLYPORT_DRAIN: '0',
    SALLYPORT_DATA_DIR: folder,
    SALLYPORT_MASTER_KEY: masterKey,
    SALLYPORT_MANAGEMENT_KEY_FILE: keyFile,
    DATABASE_URL: databaseUrl,
    ...env,
  });

  const key = readFileSync(keyFile, 'utf8').trim();
  const send = (method: string, path: string, body: unknown, as: string) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: { 'SVC-API-KEY': as, 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return {
    ...server,
    key,
    databaseUrl,
    keyFile,
    call: async <T>(method: string, path: string, body?: unknown, as = key) => {
      const response = await send(method, path, body, as);
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return (response.status === 204 ? undefined : await response.json()) as T;
    },
    answer: async (method, path, body, as = key) => {
      const response = await send(method, path, body, as);
      const { date: _, 'content-length': __, ...headers } = Object.fromEntries(response.headers);
      return { status: response.status, headers, body: await response.text() };
    },
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Before a command: every sync of the disk takes some milliseconds, as on one that waits until what it was given is
 * safe. Many disks of virtual machines do not, and then commits cost next to nothing.
 */
export const slowDisk = [
  ...['strace', '-f', '--seccomp-bpf', '-qq', '-o', '/dev/null', '-e', 'signal=none'],
  ...['-e', 'trace=fsync,fdatasync', '-e', 'inject=fsync,fdatasync:delay_exit=1000'],
];

/** The one that is slowed down does not end with the one that slows it down. */
export async function startOnSlowDisk(): Promise<Service> {
  const service = await startService({}, [...slowDisk, ...usual]);
  const [slowed] = childrenOf(service.pid) as [number];
  endWithUs(slowed);
  return {
    ...service,
    stop: async () => {
      process.kill(slowed, 'SIGTERM');
      await service.stop();
    },
  };
}

export function startBare(answers: Answers): Promise<Server> {
  return start(
    [process.execPath, '--no-env-file', join(import.meta.dirname, 'bare.ts')],
    {},
    JSON.stringify(answers),
  );
}

/** The bytes of a request. */
export function wire(method: string, path: string, key: string, body?: unknown, more = ''): string {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  const type = typeof body === 'string' ? 'application/x-www-form-urlencoded' : 'application/json';
  const content =
    body === undefined ? '' : `Content-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n`;
  const auth = key === '' ? '' : `SVC-API-KEY: ${key}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${auth}${more}${content}\r\n${text}`;
}

/** Microseconds of processor time so far of a process, its threads and all that it started. */
export function processorTime(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    const own = (Number(fields[11]) + Number(fields[12])) * 10_000;
    return childrenOf(pid).reduce((sum, child) => sum + processorTime(child), own);
  } catch {
    return 0;
  }
}

export function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

/** MiB that a process and all that it started keep in memory. */
export function resident(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const own = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
  return childrenOf(pid).reduce((sum, child) => sum + resident(child), own);
}
