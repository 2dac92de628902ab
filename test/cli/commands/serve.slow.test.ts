import { beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { keyPattern, ProgramFolder } from '../../support/program.ts';
import { isMissing } from '../../support/skip.ts';
import { runSql } from '../../support/test-store.ts';

let program: ProgramFolder;
beforeEach(() => {
  program = new ProgramFolder();
});

const keyIn = (file: string) => readFileSync(program.path(file), 'utf8').trim();
const holder = (url: string, key: string) =>
  fetch(`${url}/applications/key`, { headers: { 'SVC-API-KEY': key } });

const noNotify = isMissing(
  Bun.which('systemd-notify') !== null && Bun.which('python3') !== null,
  'test of the watchdog of systemd: no systemd-notify or python3 found',
);

const watchdogSeconds = 0.9;

describe('serve', () => {
  test.skipIf(noNotify)('tells systemd that it has started, and that it runs, until it hangs', async () => {
    const socket = program.path('notify');
    // Prints what it receives, and SILENT when the time of the watchdog has passed without a notification.
    const receive = `import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(${JSON.stringify(socket)})
s.settimeout(${watchdogSeconds})
print('bound', flush=True)
while True:
  try: print(s.recv(4096).decode().replace('\\n', ' '), flush=True)
  except TimeoutError: print('SILENT', flush=True)`;
    const receiver = Bun.spawn(['python3', '-c', receive], { stdio: ['ignore', 'pipe', 'inherit'] });
    let received = '';
    const until = async (pattern: RegExp) => {
      for await (const chunk of receiver.stdout.values({ preventCancel: true })) {
        received += new TextDecoder().decode(chunk);
        if (pattern.test(received)) return;
      }
      throw new Error(`the receiver ended: ${received}`);
    };
    await until(/bound/);
    const watchdog = { NOTIFY_SOCKET: socket, WATCHDOG_USEC: String(watchdogSeconds * 1e6) };
    const service = await program.serve(watchdog);
    await until(/READY=1(?:.|\n)*WATCHDOG=1(?:.|\n)*WATCHDOG=1/);
    service.kill('SIGSTOP');
    received = '';
    await until(/SILENT/);
    service.kill('SIGCONT');
    received = '';
    await until(/WATCHDOG=1/);
    receiver.kill();
    await receiver.exited;
  });

  test('prints no key to a pipe, and warns of unknown settings', async () => {
    const typo = { SALLYPORT_SESION_TTL: '3' };
    const { url, out, err } = await program.serve({ SALLYPORT_LOG_LEVEL: 'debug', ...typo });
    await holder(url, keyIn('data/management.key'));
    expect(out() + err()).not.toMatch(keyPattern);
    expect(err()).toContain('SALLYPORT_SESION_TTL is not a setting');
  });

  test('prints the key on a terminal', async () => {
    let seen = '';
    const complete = Promise.withResolvers<void>();
    const decoder = new TextDecoder();
    const child = Bun.spawn(program.command(['serve']), {
      cwd: program.folder,
      env: program.environment({ PORT: '0', SALLYPORT_DRAIN: '0' }),
      terminal: {
        cols: 200,
        data: (_, bytes) => {
          seen += decoder.decode(bytes, { stream: true });
          if (seen.includes('curl')) complete.resolve();
        },
      },
    });
    await complete.promise;
    child.kill('SIGTERM');
    expect(await child.exited).toBe(0);
    child.terminal?.close();
    expect(seen).toContain(keyIn('data/management.key'));
  });

  test.each(['1', '2'])('prints the metrics URL of each of %s workers', async (workers) => {
    const { out } = await program.serve({ SALLYPORT_METRICS_PORT: '0', SALLYPORT_WORKERS: workers });
    const urls = Array.from(out().matchAll(/^ {2}metrics +(http:\S+)$/gm), ([, url]) => url as string);
    expect(new Set(urls).size).toBe(Number(workers));
    for (const url of urls) expect(await (await fetch(url)).text()).toContain('sallyport_build_info');
  });

  test('continues to serve, and exits with 0, if its log is closed', async () => {
    const child = Bun.spawn(program.command(['serve']), {
      cwd: program.folder,
      env: program.environment({ PORT: '0', SALLYPORT_DRAIN: '0', SALLYPORT_LOG_LEVEL: 'debug' }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    await child.stderr.cancel();
    let banner = '';
    for await (const bytes of child.stdout) {
      banner += new TextDecoder().decode(bytes);
      if (banner.includes('curl')) break;
    }
    const url = /listening on (\S+)/.exec(banner)?.[1] as string;
    for (let count = 0; count < 3; count++) expect((await fetch(`${url}/livez`)).status).toBe(200);
    child.kill('SIGTERM');
    expect(await child.exited).toBe(0);
  });

  test('a flag overrides the environment, which overrides .env', async () => {
    writeFileSync(program.path('.env'), 'SALLYPORT_DATA_DIR=from-file\nSALLYPORT_LOG_LEVEL=nonsense\n');
    await program.serve({ SALLYPORT_LOG_LEVEL: 'info' });
    expect(existsSync(program.path('from-file/sallyport.db'))).toBe(true);
    await program.serve({ SALLYPORT_LOG_LEVEL: 'info', SALLYPORT_DATA_DIR: 'from-environment' });
    expect(existsSync(program.path('from-environment/sallyport.db'))).toBe(true);
    await program.serve({ SALLYPORT_LOG_LEVEL: 'info', SALLYPORT_DATA_DIR: 'unused' }, [
      '--data-dir',
      'from-flag',
    ]);
    expect(existsSync(program.path('from-flag/sallyport.db'))).toBe(true);
    expect(existsSync(program.path('unused'))).toBe(false);
  });
});

describe('serve fails with one error that names the setting:', () => {
  async function expectError(env: Record<string, string>, code: number, ...words: string[]) {
    const {
      code: ended,
      out,
      err,
    } = await program.run(['serve'], {
      PORT: '0',
      // Without the warning that a start is slow.
      SALLYPORT_LOG_LEVEL: 'error',
      ...env,
    });
    const [first, ...rest] = err.trimEnd().split('\n');
    expect(first).toStartWith('sallyport: error: ');
    for (const word of words) expect(first).toContain(word);
    for (const line of rest) expect(line).toStartWith('sallyport: hint: ');
    expect(rest.length).toBeLessThan(2);
    expect([ended, out]).toEqual([code, '']);
    return err;
  }

  test('a port in use, also with workers', async () => {
    const { url } = await program.serve({ SALLYPORT_WORKERS: '2' });
    const PORT = new URL(url).port;
    await expectError({ PORT }, 2, 'HOST and PORT', PORT);
    await expectError({ PORT, SALLYPORT_WORKERS: '2' }, 2, 'HOST and PORT', PORT);
    const metrics = { SALLYPORT_METRICS_PORT: PORT };
    await expectError(metrics, 2, 'SALLYPORT_METRICS_PORT', PORT);
    await expectError({ ...metrics, SALLYPORT_WORKERS: '2' }, 2, 'SALLYPORT_METRICS_PORT', PORT);
  });

  test('a metrics port without a next port for the second worker', async () => {
    const metrics = { SALLYPORT_METRICS_PORT: '65535', SALLYPORT_WORKERS: '2' };
    await expectError(
      metrics,
      2,
      'SALLYPORT_METRICS_PORT must be at most 65534, not "65535"',
      'uses the next port',
    );
  });

  test('an address of another machine', async () => {
    await expectError({ HOST: '192.0.2.1' }, 2, 'HOST', '192.0.2.1');
  });

  test('a database of a newer version', async () => {
    await program.run(['migrate']);
    const url = `sqlite:${program.path('data/sallyport.db')}`;
    await runSql(url, "insert into schema_versions (version, name, hash) values (999, 'later', 'x')");
    await expectError({}, 1, 'schema 999');
  });

  test('a file that is not a database', async () => {
    mkdirSync(program.path('data'));
    writeFileSync(program.path('data/sallyport.db'), 'not a database, but a letter\n'.repeat(100));
    await expectError({}, 1, 'DATABASE_URL', 'data/sallyport.db');
  });

  test('a key file of another database', async () => {
    const { kill, ended } = await program.serve();
    kill('SIGTERM');
    await ended;
    const key = keyIn('data/management.key');
    await expectError({ DATABASE_URL: 'sqlite:other.db' }, 2, 'SALLYPORT_MANAGEMENT_KEY_FILE');
    expect(keyIn('data/management.key')).toBe(key);
    const moved = await program.serve({
      DATABASE_URL: 'sqlite:other.db',
      SALLYPORT_MANAGEMENT_KEY_FILE: 'keys/other.key',
    });
    expect((await holder(moved.url, keyIn('keys/other.key'))).status).toBe(200);
  });

  test('a key file that cannot be written; no tenant is created', async () => {
    writeFileSync(program.path('keys'), 'a file is in the way');
    const SALLYPORT_MANAGEMENT_KEY_FILE = 'keys/management.key';
    await expectError({ SALLYPORT_MANAGEMENT_KEY_FILE }, 2, 'SALLYPORT_MANAGEMENT_KEY_FILE');
    const { out } = await program.run(['tenants', 'list', '--json']);
    expect(JSON.parse(out)).toEqual([]);
  });
});

const noPrlimit = isMissing(Bun.which('prlimit') !== null, 'test of file descriptors: no prlimit found');
test.skipIf(noPrlimit)(
  'the log says that no file descriptors are left, and the service recovers',
  async () => {
    const service = await program.serve();
    const open = readdirSync(`/proc/${service.pid}/fd`).length;
    const limit = open + 20;
    Bun.spawnSync(['prlimit', '--pid', String(service.pid), `--nofile=${limit}:${limit}`]);
    const { hostname, port } = new URL(service.url);
    const clients = Array.from({ length: 40 }, () => connect(Number(port), hostname).on('error', () => {}));
    await service.until(/"level":"error","message":"(no file descriptors are left)/);
    for (const client of clients) client.destroy();
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
  },
);
