/** Several processes that share one port. Each is a whole server; nothing is shared but the database. */
import { openData } from '../app.ts';
import type { Config } from '../config.ts';
import { makeLog } from '../log.ts';
import { banner, untilTold } from './serve.ts';

const mark = 'SALLYPORT_IS_WORKER';
const pauseBeforeRestart = 1000;

export function isWorker(): boolean {
  return process.env[mark] === '1';
}

export function tellSupervisor(url: string): void {
  process.send?.({ url });
}

/** Without this, the open line to the supervisor would keep the worker running. */
export function leaveSupervisor(): void {
  if (process.connected) process.disconnect?.();
}

export async function superviseWorkers(config: Config, print: (line: string) => void): Promise<number> {
  const log = makeLog({ level: config.logLevel });
  const stop = untilTold();
  const { store, migrated, bootstrapped } = await openData(config);
  await store.close();
  let stopping = false;
  const running = new Set<Bun.Subprocess>();

  /** Resolves with the URL when the worker listens; a worker that ends by itself is replaced. */
  function start(port: number, number: number): Promise<string> {
    const listening = Promise.withResolvers<string>();
    const worker = Bun.spawn(
      [process.execPath, ...entry(), ...process.argv.slice(2), ...portsOf(config, port, number)],
      {
        env: { ...process.env, [mark]: '1' },
        stdio: ['ignore', 'inherit', 'inherit'],
        ipc: (message: { url: string }) => listening.resolve(message.url),
        onExit: (self, code) => {
          running.delete(self);
          listening.reject(new Error(`a worker ended with ${code} before it listened`));
          if (stopping) return;
          log.error('a worker ended, another takes its place', { code });
          setTimeout(() => stopping || start(port, number).catch(() => {}), pauseBeforeRestart);
        },
      },
    );
    running.add(worker);
    return listening.promise;
  }

  const url = await start(config.port, 0);
  const port = Number(new URL(url).port);
  await Promise.all(Array.from({ length: config.workers - 1 }, (_, index) => start(port, index + 1)));
  print(banner(config, { url, migrated, bootstrapped }));
  await stop;
  stopping = true;
  for (const worker of running) worker.kill('SIGTERM');
  await Promise.all([...running].map((worker) => worker.exited));
  return 0;
}

/** The same port to serve on, and one of its own for its figures. */
function portsOf({ metricsPort }: Config, port: number, number: number): string[] {
  const metrics = metricsPort ? ['--metrics-port', String(metricsPort + number)] : [];
  return ['--port', String(port), ...metrics];
}

/** The script to run, unless the program is one executable that needs none. */
function entry(): string[] {
  const script = process.argv[1];
  return script === undefined || script.startsWith('/$bunfs/') ? [] : [script];
}
