/** Several processes that share one port. Each is a whole server; nothing is shared but the database. */
import { type App, cannotListen, openData } from '../../app.ts';
import type { Config } from '../../config.ts';
import { makeLog } from '../../log.ts';
import { banner } from '../terminal/banner.ts';
import { untilSignal } from '../terminal/signals.ts';

const mark = 'SALLYPORT_IS_WORKER';
const pauseBeforeRestart = 1000;

export function isWorker(): boolean {
  return process.env[mark] === '1';
}

export function tellSupervisor({ url, metricsUrl }: Listening): void {
  process.send?.({ url, metricsUrl } satisfies Listening);
}

/** Without this, the open line to the supervisor would keep the worker running. */
export function leaveSupervisor(): void {
  if (process.connected) process.disconnect?.();
}

/** Where a worker listens, or the exit code of one that could not. */
type Listening = Pick<App, 'url' | 'metricsUrl'>;
type Started = Listening | { code: number };

export async function superviseWorkers(config: Config, print: (line: string) => void): Promise<number> {
  const log = makeLog({ level: config.logLevel });
  const told = untilSignal();
  refuseTakenPort(config);
  const { migrated, bootstrapped, close } = await openData(config);
  await close();
  const running = new Set<Bun.Subprocess>();
  /** The port for the figures of each, which one that takes its place gets, too. */
  const scraped = Array.from({ length: config.workers }, (_, number) => nextPort(config, number));
  let { port } = config;
  let stopping = false;
  process.on('exit', () => {
    for (const worker of running) worker.kill('SIGKILL');
  });

  function start(number: number): Promise<Started> {
    const started = Promise.withResolvers<Started>();
    let listens = false;
    const worker = Bun.spawn([...program(), ...portsOf(port, scraped[number])], {
      env: { ...process.env, [mark]: '1' },
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc: (listening: Listening) => {
        listens = true;
        log.debug('a worker listens', { pid: worker.pid });
        scraped[number] = portOf(listening.metricsUrl);
        started.resolve(listening);
      },
      onExit: (self, code, signal) => {
        running.delete(self);
        started.resolve({ code: code ?? 1 });
        if (listens && !stopping) replace(number, { code, signal });
      },
    });
    running.add(worker);
    return started.promise;
  }

  /** After a pause, so that a lasting fault does not become a storm. */
  function replace(number: number, ended: Record<string, unknown>): void {
    log.error('a worker ended, another takes its place', ended);
    setTimeout(async () => {
      if (stopping) return;
      const started = await start(number);
      if ('code' in started && !stopping) replace(number, started);
    }, pauseBeforeRestart);
  }

  async function stop(): Promise<number> {
    stopping = true;
    for (const worker of running) worker.kill('SIGTERM');
    const codes = await Promise.all([...running].map((worker) => worker.exited));
    return codes.every((code) => code === 0) ? 0 : 1;
  }

  const first = await start(0);
  if ('code' in first) return first.code;
  port = Number(new URL(first.url).port);
  const others = await Promise.all(
    Array.from({ length: config.workers - 1 }, (_, index) => start(index + 1)),
  );
  const failed = others.find((other) => 'code' in other);
  if (failed) {
    await stop();
    return failed.code;
  }
  const figures = [first, ...others].flatMap((one) => ('metricsUrl' in one && one.metricsUrl) || []);
  print(banner(config, { url: first.url, migrated, bootstrapped }, figures));
  await told;
  return stop();
}

/** Workers share the port with one another, not with whatever else listens there. */
function refuseTakenPort({ host, port }: Config): void {
  try {
    Bun.listen({ hostname: host, port, socket: { data: () => {} } }).stop(true);
  } catch (error) {
    throw cannotListen('PORT', host, port, error);
  }
}

/** The same port to serve on, and one of its own for its figures; it has no workers below it. */
function portsOf(port: number, scraped: number | undefined): string[] {
  const metrics = scraped === undefined ? [] : ['--metrics-port', String(scraped)];
  return ['--port', String(port), ...metrics, '--workers', '1'];
}

/** 0 is a free one for each. */
function nextPort({ metricsPort }: Config, number: number): number | undefined {
  return metricsPort ? metricsPort + number : metricsPort;
}

function portOf(url: string | undefined): number | undefined {
  return url === undefined ? undefined : Number(new URL(url).port);
}

/** How this process was started; one executable file needs no script. */
function program(): string[] {
  const [, script, ...args] = process.argv;
  const scripts = script === undefined || script.startsWith('/$bunfs/') ? [] : [script];
  return [process.execPath, ...process.execArgv, ...scripts, ...args];
}
