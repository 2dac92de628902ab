import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import type { LogEntry } from '../../../src/domain/audit.ts';
import type { Revived } from '../../../src/operations/recovery.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
import { environment } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';
import {
  databases,
  openTestServer,
  postgres,
  sqlite,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** How an earlier state is kept, and put back while nobody is there. */
interface Past {
  keep(): Promise<void>;
  bringBack(...options: string[]): Promise<{ code: number; body: Report }>;
}

interface Report {
  readonly sessions: number;
  readonly revoked: boolean;
  readonly told_until?: string;
  readonly revived: Revived;
}

describe.each(databases)('access that was taken away after the backup, on %s', (_, kind) => {
  let desk: Desk;
  let world: TestServer;
  let url: string;
  let past: Past;
  let key: string;
  const exported = () => desk.path('audit.jsonl');

  beforeEach(async () => {
    let folder = '';
    desk = openDesk((made) => {
      folder = made;
      return { SALLYPORT_MASTER_KEY: testMasterKey };
    });
    url = await kind.createEmpty(join(folder));
    past = kind === sqlite ? onSqlite() : await onPostgres();
    world = await openTestServer(url, { SALLYPORT_MASTER_KEY: testMasterKey });
    key = (await world.tenant()).key;
  });
  afterEach(async () => {
    await world.close();
    desk.clear();
  });

  const at = () => ['--database-url', url];

  function onSqlite(): Past {
    const file = desk.path('backup.db');
    return {
      keep: async () => {
        expect((await desk.run('backup', file, ...at())).code).toBe(0);
      },
      bringBack: (...options) => desk.json('restore', file, '--force', ...at(), ...options),
    };
  }

  /** A copy of the whole database stands in for a dump. */
  async function onPostgres(): Promise<Past> {
    const name = new URL(url).pathname.slice(1);
    const admin = async (statement: string) => {
      const sql = new SQL(process.env.SALLYPORT_TEST_POSTGRES as string, { max: 1 });
      await sql.unsafe(statement);
      await sql.close();
    };
    return {
      keep: async () => {
        await world.close();
        await admin(`create database ${name}_copy template ${name}`);
        await reopen();
      },
      bringBack: async (...options) => {
        await admin(`drop database ${name}`);
        await admin(`alter database ${name}_copy rename to ${name}`);
        return desk.json('recover', '--yes', ...at(), ...options);
      },
    };
  }

  async function reopen(): Promise<void> {
    world = await openTestServer(url, { SALLYPORT_MASTER_KEY: testMasterKey });
  }

  async function bringBack(...options: string[]): Promise<Report> {
    await desk.run('audit', 'export', exported(), ...at());
    await world.close();
    const { code, body } = await past.bringBack(...options);
    expect(code).toBe(0);
    await reopen();
    return body;
  }

  /** While nobody is there. */
  async function revokeLater(): Promise<{ body: Report }> {
    await world.close();
    const done = await desk.json('recover', '--yes', ...at(), '--audit', exported(), '--revoke');
    await reopen();
    return done;
  }

  const statusOf = async (credential: string) =>
    (await world.call('GET', '/applications/key', { key: credential })).status;
  const make = (fields: object = {}) =>
    world.application(key, { permissions: ['application:read'], ...fields });

  /** To each of them something happens after the backup that its name tells. */
  async function story() {
    const untouched = await make({ name: 'untouched' });
    const regenerated = await make({ name: 'regenerated' });
    const deleted = await make({ name: 'deleted' });
    const rotated = await make({ name: 'rotated' });
    const narrowed = await make({ name: 'narrowed', permissions: ['application:read', 'log:read'] });
    const widened = await make({ name: 'widened' });
    const fenced = await make({ name: 'fenced', type: 'public' });
    const second = (await world.call('POST', `/applications/${rotated.id}/keys`, { key })).body;
    const gone = await make({ name: 'gone before' });
    await world.call('DELETE', `/applications/${gone.id}`, { key });
    const { id } = await make({ name: 'regenerated before' });
    const settled = (await world.call('POST', `/applications/${id}/regenerate`, { key })).body;
    await past.keep();
    await world.call('POST', `/applications/${regenerated.id}/regenerate`, { key });
    await world.call('DELETE', `/applications/${deleted.id}`, { key });
    await world.call('DELETE', `/applications/${rotated.id}/keys/${second.id}`, { key });
    const update = (id: string, permissions: string[], more: object = {}) =>
      world.call('PUT', `/applications/${id}`, { key, body: { name: 'renamed', permissions, ...more } });
    await update(narrowed.id, ['application:read']);
    await update(widened.id, ['application:read', 'log:read']);
    await update(fenced.id, ['application:read'], { allowed_origins: ['https://shop.example'] });
    const young = await make({ name: 'made later' });
    await world.call('DELETE', `/applications/${young.id}`, { key });
    return { untouched, settled, regenerated, deleted, rotated, narrowed, second, widened, fenced };
  }

  test('is named when the audit log is at hand', async () => {
    const { regenerated, deleted, rotated, narrowed, second, untouched, fenced } = await story();
    const report = await bringBack('--audit', exported());
    const found = report.revived.applications.map((one) => [one.application_id, one]);
    expect(Object.fromEntries(found)).toEqual({
      [regenerated.id]: expect.objectContaining({
        name: 'regenerated',
        deleted: false,
        keys: [expect.anything()],
      }),
      [deleted.id]: expect.objectContaining({ name: 'deleted', deleted: true }),
      [rotated.id]: expect.objectContaining({
        keys: [{ id: second.id, ending: second.key.slice(-4) }],
        deleted: false,
      }),
      [narrowed.id]: expect.objectContaining({
        keys: [],
        access: { permissions: ['application:read'], rules: [] },
      }),
      [fenced.id]: expect.objectContaining({
        keys: [],
        access: { permissions: ['application:read'], rules: [], allowed_origins: ['https://shop.example'] },
      }),
    });
    expect(report.revived.tenants).toEqual([]);
    expect(report.revoked).toBe(false);
    for (const one of [regenerated, deleted, second, untouched]) expect(await statusOf(one.key)).toBe(200);
  });

  test('is taken out again with --revoke, now or later, and that is on record', async () => {
    const { regenerated, deleted, rotated, narrowed, second, untouched, settled, widened, fenced } =
      await story();
    await bringBack();
    expect(await statusOf(deleted.key)).toBe(200);
    const { body } = await revokeLater();
    expect(body.revived.applications).toHaveLength(5);
    for (const one of [regenerated, deleted, second]) expect(await statusOf(one.key)).toBe(401);
    for (const one of [rotated, narrowed, untouched, settled, widened])
      expect(await statusOf(one.key)).toBe(200);
    expect((await world.call('GET', '/logs', { key: narrowed.key })).status).toBe(403);
    const now = (await world.call('GET', `/applications/${fenced.id}`, { key })).body;
    expect(now.allowed_origins).toEqual(['https://shop.example']);
    const { data } = (await world.call('GET', '/logs?size=100', { key })).body;
    const byOperator = (data as LogEntry[]).filter(({ actor }) => actor.kind === 'operator');
    expect(byOperator.map(({ operation, entity }) => `${operation} ${entity?.id}`).sort()).toEqual(
      [
        `application.delete ${deleted.id}`,
        `application.key.delete ${regenerated.id}`,
        `application.key.delete ${rotated.id}`,
        `application.update ${fenced.id}`,
        `application.update ${narrowed.id}`,
      ].sort(),
    );
    const again = await revokeLater();
    expect(again.body.revived).toEqual({ tenants: [], applications: [] });
  });

  test('is closed again with its whole tenant', async () => {
    const [disabled, deleted, paused] = [await world.tenant(), await world.tenant(), await world.tenant()];
    const app = await world.application(deleted.key);
    await past.keep();
    await world.call('DELETE', `/applications/${app.id}`, { key: deleted.key });
    await desk.run('tenants', 'disable', disabled.id, ...at());
    await desk.run('tenants', 'delete', deleted.id, '--yes', ...at());
    await desk.run('tenants', 'disable', paused.id, ...at());
    await desk.run('tenants', 'enable', paused.id, ...at());
    const { revived } = await bringBack('--audit', exported());
    const closed = [
      { tenant_id: disabled.id, name: 'test', closed: 'disabled' as const },
      { tenant_id: deleted.id, name: 'test', closed: 'deleted' as const },
    ];
    expect(revived).toEqual({ tenants: closed, applications: [] });
    for (const tenant of [disabled, deleted, paused]) expect(await statusOf(tenant.key)).toBe(200);
    const { body } = await revokeLater();
    expect(body.revived.tenants).toContainEqual({ tenant_id: deleted.id, name: 'test', closed: 'deleted' });
    for (const tenant of [disabled, deleted]) expect(await statusOf(tenant.key)).toBe(401);
    expect(await statusOf(paused.key)).toBe(200);
    const left = (await desk.json('tenants', 'list', ...at())).body.map(({ id }: { id: string }) => id);
    expect(left).toContain(disabled.id);
    expect(left).not.toContain(deleted.id);
  });

  test('is not read out of a log that was changed, nor out of another', async () => {
    await story();
    await desk.run('audit', 'export', exported(), ...at());
    const changed = desk.path('changed.jsonl');
    writeFileSync(
      changed,
      readFileSync(exported(), 'utf8').replace('application.delete', 'application.update'),
    );
    await world.close();
    expect(await desk.run('recover', '--yes', ...at(), '--audit', changed)).toMatchObject({
      code: 1,
      error: expect.stringMatching(/not to be relied on: line \d+: row \d+ is not what was written/),
    });
    const other = await openTestServer(kind, { SALLYPORT_MASTER_KEY: testMasterKey });
    const foreign = desk.path('foreign.jsonl');
    await desk.run('audit', 'export', foreign, '--database-url', other.config.databaseUrl);
    await other.close();
    expect(await desk.run('recover', '--yes', ...at(), '--audit', foreign)).toMatchObject({
      code: 1,
      error: expect.stringContaining('it is the log of another database'),
    });
    await reopen();
    const { data } = (await world.call('GET', '/logs?operation=database.restore', { key })).body;
    expect(data).toEqual([]);
  });

  test('Sessions and nonces of the past are dead', async () => {
    const web = await make({ type: 'public' });
    const open = async () => (await world.call('POST', '/sessions', { key: web.key })).body;
    const [one, other] = [await open(), await open()];
    const authorize = (nonce: string) =>
      world.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['application:read'] } });
    await authorize(one.nonce);
    await past.keep();
    expect(await statusOf(one.session_key)).toBe(200);
    await bringBack();
    expect(await statusOf(one.session_key)).toBe(401);
    expect((await authorize(other.nonce)).status).toBe(404);
  });

  test('is not looked for until somebody has agreed that every Session ends', async () => {
    const web = await make({ type: 'public' });
    const { session_key } = (await world.call('POST', '/sessions', { key: web.key })).body;
    const alive = { status: 200, sessions: 1 };
    const seen = async () => ({
      status: await statusOf(web.key),
      sessions: (await runSql(url, 'select 1 from sessions')).length,
    });
    expect(await desk.run('recover', ...at())).toMatchObject({
      code: 2,
      error: expect.stringContaining('--yes does it'),
    });
    const env = environment(desk.folder, { SALLYPORT_MASTER_KEY: testMasterKey });
    const left = await shell(['recover', ...at()], { env, person: ['n'] });
    expect(left).toMatchObject({
      code: 1,
      err: expect.stringContaining('ends every Session of every tenant'),
    });
    expect(await seen()).toEqual(alive);
    await world.close();
    expect((await shell(['recover', ...at()], { env, person: ['y'] })).code).toBe(0);
    await reopen();
    expect(await seen()).toEqual({ ...alive, sessions: 0 });
    expect(await statusOf(session_key)).toBe(401);
  });

  test('--revoke without an export is refused', async () => {
    expect(await desk.run('recover', ...at(), '--revoke')).toMatchObject({
      code: 2,
      error: expect.stringContaining('--revoke goes with --audit EXPORT'),
    });
  });
});

test('beside a service that runs on SQLite, recover is refused', async () => {
  const world = await openTestServer(sqlite);
  const desk = openDesk(() => ({
    DATABASE_URL: world.config.databaseUrl,
    SALLYPORT_DATA_DIR: world.config.dataDir,
  }));
  expect(await desk.run('recover', '--yes')).toEqual({
    code: 1,
    out: '',
    error: expect.stringMatching(
      /^sallyport: error: \S+test.db is in use\nsallyport: hint: stop the service first\n$/,
    ),
  });
  await world.close();
  desk.clear();
});

test('for PostgreSQL, backup and restore say what to run instead', async () => {
  const desk = openDesk();
  const url = ['--database-url', await postgres.createEmpty('')];
  expect(await desk.run('backup', desk.path('x'), ...url)).toMatchObject({
    code: 2,
    error: expect.stringContaining('hint: pg_dump '),
  });
  expect(await desk.run('restore', desk.path('x'), ...url)).toMatchObject({
    code: 2,
    error: expect.stringContaining('hint: pg_restore, then sallyport recover'),
  });
  desk.clear();
});
