/** Runs the service in this process, or in several worker processes on one port. Workers share only the database. */
import { type App, cannotListen, openApp, openDataPatiently } from '../../app.ts';
import type { Config } from '../../config/settings.ts';
import { build } from '../../config/version.ts';
import { newestSchema } from '../../db/migrate.ts';
import type { Secret } from '../../domain/key.ts';
import type { Bootstrapped } from '../../operations/bootstrap.ts';
import { makeLog } from '../../telemetry/log.ts';
import type { Invocation, LocalCommand } from '../command.ts';
import { databaseLabel, shortPath } from '../terminal/database.ts';
import { untilSignal } from '../terminal/signals.ts';
import { checkSettings } from './doctor-host.ts';

export const commands: LocalCommand = {
  usage: 'serve',
  summary: 'Run the service.',
  details: 'On an empty database, the first start creates a tenant and writes its management key to a file.',
  examples: ['sallyport serve', 'sallyport serve --port 8081 --data-dir /var/lib/sallyport'],
  run: serve,
};

const workerVariable = 'SALLYPORT_IS_WORKER';
const restartDelay = 1000;

function isWorker(): boolean {
  return process.env[workerVariable] === '1';
}

async function serve({ config, print, terminal }: Invocation): Promise<number> {
  if (!isWorker()) {
    const log = makeLog({ level: config.logLevel });
    for (const { state, message } of checkSettings(config, terminal.env))
      if (state === 'warn') log.warn(message);
  }
  if (config.workers > 1 && !isWorker()) return superviseWorkers(config, print);
  const stop = untilSignal();
  try {
    const app = await unlessStopped(openApp(config, { shared: isWorker() }), stop);
    const { url, metricsUrl } = app;
    if (isWorker()) {
      process.send?.({ url, metricsUrl } satisfies Listening);
      whileAlive(() => process.send?.(alive));
    } else {
      print(banner(config, app, metricsUrl === undefined ? [] : [metricsUrl]));
      notifySystemd(process.env);
    }
    await app.close(isCtrlC(await stop) ? { drain: 0 } : {});
    return 0;
  } finally {
    // An open IPC channel prevents the worker from exiting.
    if (process.connected) process.disconnect?.();
  }
}

/**
 * Returns the opened service. If a stop signal arrives first, exits, because opening can wait long for a migration.
 * The database then rolls back the transaction of this process.
 */
async function unlessStopped<T>(opening: Promise<T>, stop: Promise<unknown>): Promise<T> {
  const opened = await Promise.race([opening.then((value) => ({ value })), stop.then(() => undefined)]);
  if (opened) return opened.value;
  return process.exit(0);
}

/** Milliseconds after which a process whose event loop does not run is replaced. systemd sets the variable. */
const watchdog = Number(process.env.WATCHDOG_USEC || 60_000_000) / 1000;

/** Calls `tell` three times within the time of the watchdog while the event loop runs. */
function whileAlive(tell: () => void): void {
  setInterval(tell, watchdog / 3).unref();
}

/**
 * Tells systemd that the service has started, and regularly that the event loop runs: otherwise its watchdog restarts
 * the service. Does nothing without systemd.
 */
function notifySystemd({ NOTIFY_SOCKET, WATCHDOG_USEC }: Readonly<Record<string, string | undefined>>): void {
  if (!NOTIFY_SOCKET) return;
  const notify = (state: string) =>
    Bun.spawn(['systemd-notify', state], { stdio: ['ignore', 'ignore', 'inherit'] });
  notify('READY=1');
  if (WATCHDOG_USEC) whileAlive(() => notify('WATCHDOG=1'));
}

/** Whether a user pressed Ctrl+C. No load balancer sends requests to a service in a terminal, so it need not drain. */
function isCtrlC(signal: NodeJS.Signals | undefined): boolean {
  return signal === 'SIGINT' && process.stderr.isTTY;
}

type Listening = Pick<App, 'url' | 'metricsUrl'>;
/** Sent by a worker while its event loop runs. */
const alive = 'alive';
/** `code` is the exit code of a worker that could not start. */
type Started = Listening | { code: number };

async function superviseWorkers(config: Config, print: (line: string) => void): Promise<number> {
  const log = makeLog({ level: config.logLevel });
  const stopped = untilSignal();
  requireFreePort(config);
  const opening = openDataPatiently(config, log, false);
  const { migrated, bootstrapped, close } = await unlessStopped(opening, stopped);
  await close();
  const running = new Set<Bun.Subprocess>();
  /** The metrics port of each worker. A replacement of the worker uses the same port. */
  const metricsPorts = Array.from({ length: config.workers }, (_, number) => metricsPortOf(config, number));
  let { port } = config;
  let isStopping = false;
  process.on('exit', () => {
    for (const worker of running) worker.kill('SIGKILL');
  });

  function start(number: number): Promise<Started> {
    const started = Promise.withResolvers<Started>();
    let watching: Timer | undefined;
    const worker = Bun.spawn([...program(), ...workerFlags(config, port, metricsPorts[number])], {
      env: { ...process.env, [workerVariable]: '1' },
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc: (listening: Listening | typeof alive) => {
        if (listening === alive) return void watching?.refresh();
        watching = setTimeout(() => {
          log.error('worker hangs; killing it', { pid: worker.pid });
          worker.kill('SIGKILL');
        }, watchdog);
        log.debug('worker listening', { pid: worker.pid });
        metricsPorts[number] = portOf(listening.metricsUrl);
        started.resolve(listening);
      },
      onExit: (self, code, signal) => {
        running.delete(self);
        clearTimeout(watching);
        started.resolve({ code: code ?? 1 });
        if (watching && !isStopping) replace(number, { code, signal });
      },
    });
    running.add(worker);
    return started.promise;
  }

  /** Waits before the restart, so that a permanent failure does not cause a tight loop. */
  function replace(number: number, ended: Record<string, unknown>): void {
    log.error('worker exited; starting a replacement', ended);
    setTimeout(async () => {
      if (isStopping) return;
      const started = await start(number);
      if ('code' in started && !isStopping) replace(number, started);
    }, restartDelay);
  }

  async function stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number> {
    isStopping = true;
    for (const worker of running) worker.kill(signal);
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
  const metricsUrls = [first, ...others].flatMap((one) => ('metricsUrl' in one && one.metricsUrl) || []);
  print(banner(config, { url: first.url, migrated, bootstrapped }, metricsUrls));
  notifySystemd(process.env);
  return stop(await stopped);
}

/** Throws if the port is in use. With SO_REUSEPORT, workers could share it with another program of the same user. */
function requireFreePort({ host, port }: Config): void {
  try {
    Bun.listen({ hostname: host, port, socket: { data: () => {} } }).stop(true);
  } catch (error) {
    throw cannotListen('PORT', host, port, error);
  }
}

/** The settings of one worker. They replace those of the supervisor. */
function workerFlags({ memory, workers }: Config, port: number, metricsPort: number | undefined): string[] {
  const metrics = metricsPort === undefined ? [] : ['--metrics-port', String(metricsPort)];
  const share = ['--memory', String(Math.floor(memory / workers))];
  return ['--port', String(port), ...metrics, ...share, '--workers', '1'];
}

/** With 0, each worker picks a free port. */
function metricsPortOf({ metricsPort }: Config, number: number): number | undefined {
  return metricsPort ? metricsPort + number : metricsPort;
}

function portOf(url: string | undefined): number | undefined {
  return url === undefined ? undefined : Number(new URL(url).port);
}

/** The command line of this process. The compiled executable has no script. */
function program(): string[] {
  const [, script, ...args] = process.argv;
  const scripts = script === undefined || script.startsWith('/$bunfs/') ? [] : [script];
  const isReplaced = (arg = '') => /^--(port|metrics-port|memory|workers)(=|$)/.test(arg);
  const isValue = (at: number) => isReplaced(args[at - 1]) && !args[at - 1]?.includes('=');
  const others = args.filter((arg, at) => !isReplaced(arg) && !isValue(at));
  return [process.execPath, ...process.execArgv, ...scripts, ...others];
}

type Opened = Pick<App, 'url' | 'migrated' | 'bootstrapped' | 'link'>;

/** The startup message. `metricsUrls` has one entry per process. */
function banner(config: Config, opened: Opened, metricsUrls: readonly string[]): string {
  const { url, migrated, bootstrapped, link } = opened;
  const state = migrated.from === 0 ? 'new' : bootstrapped.secret ? 'was empty' : 'existing';
  const upgrade =
    migrated.from > 0 && migrated.from < newestSchema ? `, migrated from version ${migrated.from}` : '';
  const { description, shellExpression } = managementKey(config.managementKeyFile, bootstrapped);
  return [
    `Sallyport ${build()} is listening on ${url}`,
    '',
    `  console         ${url}/console${signInLink(link)}`,
    `  documentation   ${url}/docs`,
    ...metricsUrls.map((at) => `  metrics         ${at}`),
    `  database        ${databaseLabel(config.databaseUrl)} (${state}, schema version ${newestSchema}${upgrade})`,
    `  management key  ${description}`,
    '',
    '  Try it:',
    `    curl -H "SVC-API-KEY: ${shellExpression}" ${url}/applications/key`,
    '',
  ].join('\n');
}

/** Shown on a terminal only, because anyone with the link can sign in. */
function signInLink(link: Secret | undefined): string {
  return link && process.stdout.isTTY ? `#${link.reveal()} (link works once, for ten minutes)` : '';
}

/**
 * Describes where the management key is, and the shell expression that reads it. Prints the key itself on a terminal
 * only, never to a pipe or a log. Does not name a key file that is missing or is not valid for this database.
 */
function managementKey(
  path: string,
  { secret, keyFileValid }: Bootstrapped,
): { description: string; shellExpression: string } {
  if (!keyFileValid)
    return {
      description:
        'in the key file of the node that created this database; if it is lost, run `sallyport tenants key TENANT`',
      shellExpression: '$KEY',
    };
  const file = shortPath(path);
  const location = secret && process.stdout.isTTY ? `${file} (${secret.reveal()})` : file;
  return {
    description: secret ? `${location}, created now` : location,
    shellExpression: `$(cat ${shellQuote(file)})`,
  };
}

function shellQuote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
