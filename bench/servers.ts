/** Starts servers as separate processes and reads their CPU time and memory. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingList } from '../src/config/settings.ts';
import type { Responses } from './bare-server.ts';

export const root = join(import.meta.dirname, '..');
export const masterKey = Buffer.alloc(32, 7).toString('base64');

export interface Server {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Everything printed to stdout before the server listened. */
  readonly printed: string;
  stop(): Promise<void>;
}

/** Limits per minute and quotas are on, but reject nothing. Those of requests have their defaults. Waits long for a database on a busy machine. */
const settingsOfBench = {
  SALLYPORT_DATABASE_TIMEOUT: '60000',
  SALLYPORT_SESSIONS_PER_MINUTE: '1000000',
  SALLYPORT_SESSIONS_BURST: '100000000',
  SALLYPORT_PENDING_SESSIONS_PER_APPLICATION: '10000000',
  SALLYPORT_TOKENS_PER_MINUTE: '100000000',
  SALLYPORT_SEARCHES_PER_MINUTE: '100000000',
  SALLYPORT_SEARCH_MISSES_PER_MINUTE: '100000000',
  SALLYPORT_TOKEN_BYTES_PER_MINUTE: '1000000000000',
  SALLYPORT_TOKEN_BYTES_PER_APPLICATION: '999999999999999',
};

const running = new Map<number, NodeJS.Signals>();
const shared = new Set<number>();

/** Kills the process when this one exits. */
export function killOnExit(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  running.set(pid, signal);
}

/** Marks the processes that run now as shared by all measurements. `stopStarted` does not kill them. */
export function keepRunning(): void {
  for (const pid of running.keys()) shared.add(pid);
}

/** Kills the processes that a measurement left behind. */
export function stopStarted(): void {
  for (const [pid, signal] of running) if (!shared.has(pid)) kill(pid, signal);
}

function kill(pid: number, signal: NodeJS.Signals): void {
  running.delete(pid);
  try {
    process.kill(pid, signal);
  } catch {}
}

process.on('exit', () => {
  for (const [pid, signal] of running) kill(pid, signal);
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

/** Resolves when the server has printed its URL. */
export async function startServer(
  command: string[],
  env: Record<string, string | undefined> = {},
  input = '',
): Promise<Server> {
  const child = Bun.spawn(command, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: [Buffer.from(input), 'pipe', 'pipe'],
  });
  killOnExit(child.pid);
  const errors = new Response(child.stderr).text();
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
  throw new Error(`${command.join(' ')} did not start: ${printed}${await errors}`);
}

export interface Service extends Server {
  readonly key: string;
  readonly databaseUrl: string;
  readonly keyFile: string;
  /** The environment of the service, for commands on the same database. */
  readonly settings: Record<string, string>;
  call<T = unknown>(method: string, path: string, body?: unknown, key?: string): Promise<T>;
  /** The response in the form that the bare server replays. */
  response(method: string, path: string, body?: unknown, key?: string): Promise<Responses[string]>;
}

const serveCommand = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'serve'];

/** Starts the service, by default on SQLite in a temporary folder. */
export async function startService(
  env: Record<string, string> = {},
  command: string[] = serveCommand,
): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, '']));
  const keyFile = env.SALLYPORT_MANAGEMENT_KEY_FILE ?? join(folder, 'management.key');
  const databaseUrl = env.DATABASE_URL ?? `sqlite:${join(folder, 'sallyport.db')}`;
  const settings = {
    ...unset,
    ...settingsOfBench,
    PORT: '0',
    SALLYPORT_DRAIN: '0',
    SALLYPORT_DATA_DIR: folder,
    SALLYPORT_MASTER_KEY: masterKey,
    SALLYPORT_MANAGEMENT_KEY_FILE: keyFile,
    DATABASE_URL: databaseUrl,
    ...env,
  };
  const server = await startServer(command, settings);

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
    settings,
    call: async <T>(method: string, path: string, body?: unknown, as = key) => {
      const response = await send(method, path, body, as);
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return (response.status === 204 ? undefined : await response.json()) as T;
    },
    response: async (method, path, body, as = key) => {
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
 * Command prefix that delays every fsync by two milliseconds, like a disk that waits for durable storage. Disks of
 * many virtual machines do not wait, which makes commits nearly free.
 */
export const slowDisk = [
  ...['strace', '-f', '--seccomp-bpf', '-qq', '-o', '/dev/null', '-e', 'signal=none'],
  ...['-e', 'trace=fsync,fdatasync', '-e', 'inject=fsync,fdatasync:delay_exit=2000'],
];

/** The traced process outlives strace, so it is stopped separately. */
export async function startOnSlowDisk(): Promise<Service> {
  const service = await startService({}, [...slowDisk, ...serveCommand]);
  const [traced] = childrenOf(service.pid) as [number];
  killOnExit(traced);
  return {
    ...service,
    stop: async () => {
      kill(traced, 'SIGTERM');
      await service.stop();
    },
  };
}

export function startBareServer(answers: Responses): Promise<Server> {
  return startServer(
    [process.execPath, '--no-env-file', join(import.meta.dirname, 'bare-server.ts')],
    {},
    JSON.stringify(answers),
  );
}

/** The bytes of an HTTP request. */
export function requestBytes(method: string, path: string, key: string, body?: unknown, more = ''): string {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  const type = typeof body === 'string' ? 'application/x-www-form-urlencoded' : 'application/json';
  const content =
    body === undefined ? '' : `Content-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n`;
  const auth = key === '' ? '' : `SVC-API-KEY: ${key}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${auth}${more}${content}\r\n${text}`;
}

/** Microseconds of CPU time used by a process, its threads and its children, including ended ones. */
export function processorTime(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * 10_000;
    return childrenOf(pid).reduce((sum, child) => sum + processorTime(child), own);
  } catch {
    return 0;
  }
}

export function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

/** Resident memory in MiB of a process and its children. */
export function resident(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const own = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
  return childrenOf(pid).reduce((sum, child) => sum + resident(child), own);
}
