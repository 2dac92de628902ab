/** Rotates the master key while a real service runs. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { allCommands } from '../../../src/cli/commands.ts';
import { parseMasterKeys } from '../../../src/db/keys/cipher.ts';
import { newTenant } from '../../../src/operations/bootstrap.ts';
import { type OpenedStore, openStore } from '../../../src/store/open.ts';
import { ProgramFolder, type RunningProgram } from '../../support/program.ts';
import { databases, generousTimeout, postgres } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const commands = await allCommands();

interface StoredToken {
  readonly key: string;
  readonly path: string;
}

const body = JSON.stringify({ data: 'a secret', mask: '{{ data | last: 3 }}' });
const idOf = (key: string) => parseMasterKeys(key)[0]!.id;
const command = ['master-key', 'rotate', '--yes'];

async function store(url: string, key: string): Promise<StoredToken> {
  const headers = { 'SVC-API-KEY': key, 'Content-Type': 'application/json' };
  const response = await fetch(`${url}/tokens`, { method: 'POST', headers, body });
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  return { key, path: `/tokens/${((await response.json()) as { id: string }).id}` };
}

async function read(url: string, { key, path }: StoredToken): Promise<void> {
  const response = await fetch(url + path, { headers: { 'SVC-API-KEY': key } });
  const { data } = (await response.json()) as { data?: string };
  if (data !== 'ret') throw new Error(`${response.status}: ${data}`);
}

/** Creates a tenant directly in the store, without a data key. Returns its management key. */
async function newTenantIn({ maintenance }: OpenedStore): Promise<string> {
  const tenant = newTenant('test', Date.now());
  await maintenance.tenants.create(tenant);
  return tenant.secret.reveal();
}

async function end(service: RunningProgram): Promise<void> {
  service.kill('SIGTERM');
  expect(await service.ended).toBe(0);
}

describe.each(databases)('the master key on %s', (_, database) => {
  let program: ProgramFolder;
  let env: Record<string, string>;
  let databaseUrl: string;
  let tenants: OpenedStore;

  beforeEach(async () => {
    program = new ProgramFolder();
    databaseUrl =
      database.name === 'SQLite' ? `sqlite:${program.path('test.db')}` : await database.createEmpty('');
    env = { DATABASE_URL: databaseUrl, SALLYPORT_MASTER_KEY_FILE: program.path('master.key') };
    if (database.name !== 'SQLite')
      writeFileSync(keyFile(), Buffer.alloc(32, 1).toString('base64'), { mode: 0o600 });
    tenants = await openStore(databaseUrl, { timeout: generousTimeout });
  });
  afterEach(async () => {
    await tenants.close();
  });

  const keyFile = () => program.path('master.key');
  const keys = () => readFileSync(keyFile(), 'utf8').trimEnd().split('\n');
  const masters = async () => {
    const rows = await runSql<{ id: string }>(
      databaseUrl,
      'select id from master_key union select master_id from data_keys union select master_id from audit_key',
    );
    return rows.map(({ id }) => id);
  };

  const newTenantKey = () => newTenantIn(tenants);

  async function refused(settings: Record<string, string>, message: string): Promise<void> {
    // Without the warning that a start is slow.
    const quiet = { PORT: '0', SALLYPORT_LOG_LEVEL: 'error' };
    const { code, out, err } = await program.run(['serve'], { ...env, ...quiet, ...settings });
    expect([code, out]).toEqual([1, '']);
    expect(err.split('\n')).toEqual([
      expect.stringContaining(`sallyport: error: ${message}`),
      expect.stringContaining('sallyport: hint: put that key into SALLYPORT_MASTER_KEY_FILE'),
      '',
    ]);
  }

  test('is rotated while the service reads and writes, without a failed request', async () => {
    const service = await program.serve(env);
    const [old] = keys() as [string];
    const known = await Promise.all(Array.from({ length: 8 }, newTenantKey));
    const stored: StoredToken[] = [];
    let [rotating, failed] = [true, false];
    const lane = async (number: number) => {
      for (let count = 0; (rotating || stored.length < 300) && !failed; count++) {
        if (count % 20 === 0) known.push(await newTenantKey());
        const token = await store(service.url, known[(number + count * 7) % known.length] as string);
        await read(service.url, token);
        stored.push(token);
      }
    };
    const lanes = Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(lane)).catch((error: unknown) => {
      failed = true;
      return error;
    });
    while (stored.length < 20 && !failed) await Bun.sleep(1);
    const first = await program.run([...command, '--json'], env);
    const second = await program.run(command, env);
    rotating = false;
    expect(await lanes).toBeArray();

    const between = JSON.parse(first.out);
    expect(between).toEqual({ from: idOf(old), to: expect.any(String), rewrapped: expect.any(Number) });
    expect(between.rewrapped).toBeGreaterThan(8);
    const [current] = keys() as [string];
    expect(second).toEqual({
      code: 0,
      out: expect.stringMatching(
        new RegExp(`^rotated master key ${between.to} to ${idOf(current)}; .*\nthe old key stays in `),
      ),
      // The service may take a moment to read the key file.
      err: expect.stringMatching(/^(waiting for .* to read the new key; .*\n)?$/),
    });
    expect(stored.length).toBeGreaterThanOrEqual(300);
    expect(await masters()).toEqual([idOf(current)]);
    expect(keys().map(idOf)).toEqual([idOf(current), between.to, idOf(old)]);
    expect(existsSync(`${keyFile()}.new`)).toBe(false);
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    await read(service.url, await store(service.url, await newTenantKey()));
    await end(service);

    await refused(
      { SALLYPORT_MASTER_KEY: old },
      `the database needs the master key ${idOf(current)}, which SALLYPORT_MASTER_KEY`,
    );
    const restarted = await program.serve(env);
    for (const token of stored.slice(0, 50)) await read(restarted.url, token);
    await Promise.all(known.map(async (key) => read(restarted.url, await store(restarted.url, key))));
    expect(await masters()).toEqual([idOf(current)]);
  });

  test('survives a killed rotation: the service runs and restarts, and the next rotation finishes it', async () => {
    const service = await program.serve(env);
    const stored = await Promise.all(
      Array.from({ length: 150 }, async () => store(service.url, await newTenantKey())),
    );
    const readAll = ({ url }: RunningProgram) => Promise.all(stored.map((each) => read(url, each)));
    const before = keys()[0] as string;
    const killed = Bun.spawn(program.command(command), {
      cwd: program.folder,
      env: program.environment(env),
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    while (keys()[0] === before && killed.exitCode === null) await Bun.sleep(0);
    killed.kill('SIGKILL');
    await killed.exited;

    await readAll(service);
    await read(service.url, await store(service.url, await newTenantKey()));
    await end(service);
    const restarted = await program.serve(env);
    await readAll(restarted);
    expect((await program.run([...command, '--drop-old', '--yes'], env)).code).toBe(0);
    expect(await masters()).toEqual([idOf(keys()[0] as string)]);
    expect(keys()).toHaveLength(1);
    expect(keys()).not.toContain(before);
    await readAll(restarted);
  });
});

test('the master key of several nodes is rotated as the help describes', async () => {
  const help = commands.find(({ usage }) => usage === 'master-key rotate')?.details;
  expect(help).toContain(
    'restart the nodes one by one with NEW,OLD, run this command with the same value, then restart the nodes with NEW',
  );
  const program = new ProgramFolder();
  const shared = { DATABASE_URL: await postgres.createEmpty('') };
  const tenants = await openStore(shared.DATABASE_URL, { timeout: generousTimeout });
  const [old, fresh] = [2, 3].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];
  const withKey = (key: string) => program.serve({ ...shared, SALLYPORT_MASTER_KEY: key });
  const rotate = (key: string) => program.run(command, { ...shared, SALLYPORT_MASTER_KEY: key });
  const stored: StoredToken[] = [];
  let nodes: RunningProgram[] = await Promise.all([withKey(old), withKey(old)]);
  /** Reads all tokens on every node, and stores a new one for the tenant. */
  const check = async (tenant = stored[0]?.key as string) => {
    for (const { url } of nodes) {
      for (const token of stored) await read(url, token);
      stored.push(await store(url, tenant));
    }
  };
  const restart = async (key: string) => {
    for (const at of [0, 1]) {
      await end(nodes[at] as RunningProgram);
      nodes = nodes.with(at, await withKey(key));
      await check();
    }
  };
  await check(await newTenantIn(tenants));
  await restart(`${fresh},${old}`);
  await check(await newTenantIn(tenants));
  const { code, out } = await rotate(`${fresh},${old}`);
  expect([code, out]).toEqual([
    0,
    `rotated master key ${idOf(old)} to ${idOf(fresh)}; rewrapped 3 data keys\n`,
  ]);
  await check(await newTenantIn(tenants));
  await restart(fresh);
  await tenants.close();
});
