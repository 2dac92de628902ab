import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { openCli } from '../../support/cli.ts';
import { unknownKey } from '../../support/keys.ts';
import { freePort } from '../../support/postgres.ts';
import { environment, program, runBannerCommand, type Service, startService } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';
import { noCurl } from '../../support/skip.ts';
import { postgres, testMasterKey } from '../../support/test-server.ts';

describe('the first start', () => {
  let first: Service;
  let again: Service;
  let elsewhere: Service;
  let deleted: string;
  beforeAll(async () => {
    first = await startService();
    const same = { SALLYPORT_DATA_DIR: join(first.folder, 'data') };
    again = await startService(same);
    elsewhere = await startService({ ...same, SALLYPORT_MANAGEMENT_KEY_FILE: 'another.key' });
    deleted = await deletedKey();
  });
  const keyFile = () => join(first.folder, 'data', 'management.key');
  const key = () => readFileSync(keyFile(), 'utf8').trim();

  async function deletedKey(): Promise<string> {
    const call = async (method: string, path: string, body?: object) =>
      fetch(first.url + path, {
        method,
        headers: { 'SVC-API-KEY': key(), 'Content-Type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      });
    const created = await call('POST', '/applications', {
      name: 'gone',
      type: 'management',
      permissions: ['application:read'],
    });
    const { id, key: secret } = (await created.json()) as { id: string; key: string };
    expect((await call('DELETE', `/applications/${id}`)).status).toBe(204);
    return secret;
  }

  test('writes the management key to a file with mode 0600 and does not print it', () => {
    expect(first.banner).toContain('data/management.key, created now');
    expect(first.banner).not.toContain(key());
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
  });

  test('creates the tenant; a second start changes nothing', async () => {
    expect(again.banner).toContain('(existing, schema version ');
    expect(again.banner).not.toContain('created now');
    const answer = await fetch(`${again.url}/applications/key`, { headers: { 'SVC-API-KEY': key() } });
    expect(answer.status).toBe(200);
  });

  test.skipIf(noCurl())('prints a curl command that works', async () => {
    expect(await runBannerCommand(first)).toMatchObject({ type: 'management' });
  });

  test('may have been on another node: a missing key file is not named', () => {
    expect(elsewhere.banner).not.toContain('another.key');
  });

  test.each([
    ['1', 'of another database', () => unknownKey('mgt').secret.reveal()],
    ['2', 'of another database', () => unknownKey('mgt').secret.reveal()],
    ['1', 'that was deleted', () => deleted],
    ['1', 'that is invalid', () => 'nonsense'],
  ])('with %s worker(s), the banner does not name a key file with a key %s', async (workers, _, text) => {
    const folder = temporaryFolder();
    const stale = `${text()}\n`;
    writeFileSync(join(folder, 'stale.key'), stale);
    const node = await startService({
      SALLYPORT_DATA_DIR: join(first.folder, 'data'),
      SALLYPORT_MANAGEMENT_KEY_FILE: join(folder, 'stale.key'),
      SALLYPORT_WORKERS: workers,
    });
    expect(node.banner).not.toContain('stale.key');
    expect(readFileSync(join(folder, 'stale.key'), 'utf8')).toBe(stale);
  });
});

describe('a failed start prints one error and one hint, without the password:', () => {
  let folder: string;
  let taken: Bun.Server<undefined>;
  let fleet: string;
  let closed: number;
  beforeAll(async () => {
    taken = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
    fleet = await postgres.createEmpty('');
    closed = freePort();
  });
  afterAll(() => taken.stop());
  beforeEach(() => {
    folder = temporaryFolder();
  });

  const cases: [title: string, settings: () => Record<string, string>, message: RegExp, code: number][] = [
    ['an invalid port', () => ({ PORT: 'http' }), /PORT must be a whole number .* not "http"$/, 2],
    [
      'a port in use',
      () => ({ PORT: String(taken.port) }),
      /HOST and PORT: cannot listen on 127.0.0.1:\d+/,
      2,
    ],
    [
      'an unsupported database',
      () => ({ DATABASE_URL: 'mysql://me:hunter2@h/d' }),
      /DATABASE_URL must be/,
      2,
    ],
    ['PostgreSQL without a master key', () => ({ DATABASE_URL: fleet }), /SALLYPORT_MASTER_KEY/, 2],
    [
      'an unreachable database',
      () => ({
        DATABASE_URL: `postgres://me:hunter2@127.0.0.1:${closed}/shop`,
        SALLYPORT_MASTER_KEY: testMasterKey,
      }),
      /DATABASE_URL postgres:\/\/127.0.0.1:\d+\/shop: /,
      1,
    ],
    [
      'a data folder that cannot be created',
      () => ({ SALLYPORT_DATA_DIR: '/dev/null/data' }),
      /SALLYPORT_DATA_DIR: /,
      2,
    ],
    [
      'a database file that cannot be opened',
      () => ({ DATABASE_URL: `sqlite:${folder}` }),
      /DATABASE_URL .*: cannot be opened: /,
      1,
    ],
  ];

  test.each(cases)('%s', async (_, settings, message, code) => {
    // Without the warning that a start is slow.
    const env = environment(folder, { SALLYPORT_LOG_LEVEL: 'error', ...settings() });
    const start = Bun.spawn(program, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const [out, err] = await Promise.all([
      new Response(start.stdout).text(),
      new Response(start.stderr).text(),
    ]);
    const [error, hint, ...rest] = err.split('\n');
    expect(error).toStartWith('sallyport: error: ');
    expect(error).toMatch(message);
    expect(hint).toStartWith('sallyport: hint: ');
    expect(rest).toEqual(['']);
    expect(err).not.toContain('hunter2');
    expect(out).toBe('');
    expect(await start.exited).toBe(code);
  });

  test('a port in use, with a hint about PORT', async () => {
    const { err } = await shell(['serve'], { env: environment(folder, { PORT: String(taken.port) }) });
    expect(err).toEndWith(
      'sallyport: hint: set HOST to an address of this machine; if another program uses the port, set PORT to another one, or to 0 for any free port\n',
    );
  });
});

test('of several concurrent migrations in a new folder, one creates the schema and none fails', async () => {
  const cli = openCli();
  const processes = Array.from({ length: 4 }, () => cli.start('migrate', '--json'));
  const errors = await Promise.all(processes.map(({ stderr }) => new Response(stderr).text()));
  expect(errors).toEqual(Array(4).fill(''));
  const results = await Promise.all(processes.map(({ stdout }) => new Response(stdout).json()));
  expect(results.filter(({ from }) => from === 0)).toHaveLength(1);
  expect(await Promise.all(processes.map(({ exited }) => exited))).toEqual(Array(4).fill(0));
});
