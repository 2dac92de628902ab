import { beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import type { LogEntry } from '../../../src/domain/audit.ts';
import type { Revived } from '../../../src/store/maintenance.ts';
import { type Backup, postgresBackup, sqliteBackup } from '../../support/backups.ts';
import { citusServers } from '../../support/citus.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { environment } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';
import {
  citus,
  databases,
  openTestServer,
  sqlite,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

interface Report {
  readonly sessions: number;
  readonly revoked: boolean;
  readonly exported_at?: string;
  readonly revived: Revived;
}

describe.each(databases)('a restore on %s: access that was revoked after the backup', (_, kind) => {
  let cli: Cli;
  let server: TestServer;
  let url: string;
  let backup: Backup<Report>;
  let key: string;
  const exported = () => cli.path('audit.jsonl');

  beforeEach(async () => {
    let folder = '';
    cli = openCli((made) => {
      folder = made;
      return { SALLYPORT_MASTER_KEY: testMasterKey };
    });
    url = await kind.createMigrated(folder);
    const servers = kind === citus ? await citusServers() : [process.env.SALLYPORT_TEST_POSTGRES as string];
    backup = kind === sqlite ? sqliteBackup(cli, url) : postgresBackup(cli, url, servers, whileStopped);
    server = await openTestServer(url, { SALLYPORT_MASTER_KEY: testMasterKey });
    key = (await server.tenant()).key;
  });

  const at = () => ['--database-url', url];

  async function whileStopped(copy: () => Promise<void>): Promise<void> {
    await server.close();
    await copy();
    await reopen();
  }

  async function reopen(): Promise<void> {
    server = await openTestServer(url, { SALLYPORT_MASTER_KEY: testMasterKey });
  }

  async function restore(...options: string[]): Promise<Report> {
    await cli.run('audit', 'export', exported(), ...at());
    await server.close();
    const { code, body } = await backup.restore(...options);
    expect(code).toBe(0);
    await reopen();
    return body;
  }

  async function revokeLater(): Promise<{ body: Report }> {
    await server.close();
    const done = await cli.json('recover', '--yes', ...at(), '--audit', exported(), '--revoke');
    await reopen();
    return done;
  }

  const statusOf = async (credential: string) =>
    (await server.call('GET', '/applications/key', { key: credential })).status;
  const make = (fields: object = {}) =>
    server.application(key, { permissions: ['application:read'], ...fields });

  /** Creates applications, takes a backup, then changes each as its name says. */
  async function changeAfterBackup() {
    const untouched = await make({ name: 'untouched' });
    const regenerated = await make({ name: 'regenerated' });
    const deleted = await make({ name: 'deleted' });
    const rotated = await make({ name: 'rotated' });
    const narrowed = await make({ name: 'narrowed', permissions: ['application:read', 'log:read'] });
    const widened = await make({ name: 'widened' });
    const fenced = await make({ name: 'fenced', type: 'public' });
    const suspected = await make({ name: 'suspected' });
    const second = (await server.call('POST', `/applications/${rotated.id}/keys`, { key })).body;
    const gone = await make({ name: 'gone before' });
    await server.call('DELETE', `/applications/${gone.id}`, { key });
    const { id } = await make({ name: 'regenerated before' });
    const settled = (await server.call('POST', `/applications/${id}/regenerate`, { key })).body;
    await backup.take();
    await server.call('POST', `/applications/${regenerated.id}/regenerate`, { key });
    await server.call('DELETE', `/applications/${deleted.id}`, { key });
    await server.call('DELETE', `/applications/${rotated.id}/keys/${second.id}`, { key });
    const update = (id: string, permissions: string[], more: object = {}) =>
      server.call('PUT', `/applications/${id}`, { key, body: { name: 'renamed', permissions, ...more } });
    await update(narrowed.id, ['application:read'], { allowed_networks: ['127.0.0.1'] });
    await update(widened.id, ['application:read', 'log:read']);
    await update(fenced.id, ['application:read'], fence);
    for (const { id } of [suspected, untouched])
      await server.call('POST', `/applications/${id}/quarantine`, { key });
    await server.call('DELETE', `/applications/${untouched.id}/quarantine`, { key });
    const young = await make({ name: 'made later' });
    await server.call('DELETE', `/applications/${young.id}`, { key });
    return {
      untouched,
      settled,
      regenerated,
      deleted,
      rotated,
      narrowed,
      second,
      widened,
      fenced,
      suspected,
    };
  }

  const fence = { allowed_origins: ['https://shop.example'], require_bound_sessions: true };

  test('is listed with --audit, and revoked again with --revoke, with audit entries; a second run finds none', async () => {
    const changed = await changeAfterBackup();
    const {
      regenerated,
      deleted,
      rotated,
      narrowed,
      second,
      untouched,
      settled,
      widened,
      fenced,
      suspected,
    } = changed;
    const report = await restore('--audit', exported());
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
        access: { permissions: ['application:read'], rules: [], allowed_networks: ['127.0.0.1/32'] },
      }),
      [fenced.id]: expect.objectContaining({
        keys: [],
        access: { permissions: ['application:read'], rules: [], ...fence },
      }),
      [suspected.id]: expect.objectContaining({ keys: [], quarantined: true }),
    });
    expect(report.revived.tenants).toEqual([]);
    expect(report.revoked).toBe(false);
    for (const one of [regenerated, deleted, second, untouched]) expect(await statusOf(one.key)).toBe(200);
    const etags = () =>
      Promise.all(
        [fenced, suspected, widened].map(async ({ id }) =>
          (await server.call('GET', `/applications/${id}`, { key })).headers.get('etag'),
        ),
      );
    const [fencedBefore, suspectedBefore, widenedBefore] = await etags();
    const { body } = await revokeLater();
    const [fencedAfter, suspectedAfter, widenedAfter] = await etags();
    expect([fencedAfter === fencedBefore, suspectedAfter === suspectedBefore]).toEqual([false, false]);
    expect(widenedAfter).toBe(widenedBefore as string);
    expect(body.revived.applications).toHaveLength(6);
    for (const one of [regenerated, deleted, second]) expect(await statusOf(one.key)).toBe(401);
    for (const one of [rotated, narrowed, untouched, settled, widened])
      expect(await statusOf(one.key)).toBe(200);
    expect((await server.call('GET', '/logs', { key: narrowed.key })).status).toBe(403);
    const now = (await server.call('GET', `/applications/${fenced.id}`, { key })).body;
    expect(now).toMatchObject(fence);
    const held = (await server.call('GET', `/applications/${suspected.id}`, { key })).body;
    expect(held.quarantined_at).toBeString();
    const { data } = (await server.call('GET', '/logs?size=100', { key })).body;
    const byOperator = (data as LogEntry[]).filter(({ actor }) => actor.kind === 'operator');
    expect(byOperator.map(({ operation, entity }) => `${operation} ${entity?.id}`).sort()).toEqual(
      [
        `application.delete ${deleted.id}`,
        `application.key.delete ${regenerated.id}`,
        `application.key.delete ${rotated.id}`,
        `application.quarantine ${suspected.id}`,
        `application.update ${fenced.id}`,
        `application.update ${narrowed.id}`,
        // The restore and the later `recover` wrote one entry each.
        'database.restore undefined',
        'database.restore undefined',
      ].sort(),
    );
    const again = await revokeLater();
    expect(again.body.revived).toEqual({ tenants: [], applications: [] });
  });

  test('includes disabled and deleted tenants', async () => {
    const [disabled, deleted, paused] = [await server.tenant(), await server.tenant(), await server.tenant()];
    const app = await server.application(deleted.key);
    await backup.take();
    await server.call('DELETE', `/applications/${app.id}`, { key: deleted.key });
    await cli.run('tenants', 'disable', disabled.id, ...at());
    await cli.run('tenants', 'delete', deleted.id, '--yes', ...at());
    await cli.run('tenants', 'disable', paused.id, ...at());
    await cli.run('tenants', 'enable', paused.id, ...at());
    const { revived } = await restore('--audit', exported());
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
    const remaining = (await cli.json('tenants', 'list', ...at())).body.map(({ id }: { id: string }) => id);
    expect(remaining).toContain(disabled.id);
    expect(remaining).not.toContain(deleted.id);
  });

  test('includes keys of tenants that were also disabled, earlier expiries, and tenants that have moved', async () => {
    const [disabled, moved] = [await server.tenant(), await server.tenant()];
    const [leaked, ended] = [await server.application(disabled.key), await make({ name: 'ended' })];
    await backup.take();
    await server.call('DELETE', `/applications/${leaked.id}`, { key: disabled.key });
    await cli.run('tenants', 'disable', disabled.id, ...at());
    const body = { name: 'ended', permissions: ['application:read'], expires_at: '2030-01-01T00:00:00.000Z' };
    await server.call('PUT', `/applications/${ended.id}`, { key, body });
    const other = mkdtempSync(cli.path('other-'));
    writeFileSync(cli.path('next.env'), `DATABASE_URL=${await sqlite.createMigrated(other)}\n`);
    await cli.run('tenants', 'move', moved.id, '--to', cli.path('next.env'), '--yes', ...at());
    const { revived } = await restore('--audit', exported(), '--revoke');
    expect(revived.tenants).toEqual([
      { tenant_id: disabled.id, name: 'test', closed: 'disabled' },
      { tenant_id: moved.id, name: 'test', closed: 'moved' },
    ]);
    const changes = revived.applications.map((one) => [one.name, one.deleted, one.access?.expires_at]);
    expect(changes.toSorted()).toEqual([
      ['an application', true, undefined],
      ['ended', false, '2030-01-01T00:00:00.000Z'],
    ]);
    expect(await statusOf(moved.key)).toBe(401);
    await cli.run('tenants', 'enable', disabled.id, ...at());
    expect([await statusOf(disabled.key), await statusOf(leaked.key)]).toEqual([200, 401]);
    expect((await server.call('GET', `/applications/${ended.id}`, { key })).body.expires_at).toBe(
      body.expires_at,
    );
  });

  test('is not read from a changed export or that of another database', async () => {
    await server.call('DELETE', `/applications/${(await make()).id}`, { key });
    await cli.run('audit', 'export', exported(), ...at());
    const changed = cli.path('changed.jsonl');
    writeFileSync(
      changed,
      readFileSync(exported(), 'utf8').replace('application.delete', 'application.update'),
    );
    await server.close();
    expect(await cli.run('recover', '--yes', ...at(), '--audit', changed)).toMatchObject({
      code: 1,
      err: expect.stringMatching(
        /not a valid audit export of this database: changed.jsonl line \d+: .* entry \d+ was changed/,
      ),
    });
    const other = await openTestServer(kind, { SALLYPORT_MASTER_KEY: testMasterKey });
    const foreign = cli.path('foreign.jsonl');
    await cli.run('audit', 'export', foreign, '--database-url', other.config.databaseUrl);
    await other.close();
    expect(await cli.run('recover', '--yes', ...at(), '--audit', foreign)).toMatchObject({
      code: 1,
      err: expect.stringContaining('the export is of another database'),
    });
    await reopen();
    const { data } = (await server.call('GET', '/logs?operation=database.restore', { key })).body;
    expect(data).toEqual([]);
  });

  test('includes all sessions and nonces of the backup', async () => {
    const web = await make({ type: 'public' });
    const open = async () => (await server.call('POST', '/sessions', { key: web.key })).body;
    const [one, other] = [await open(), await open()];
    const authorize = (nonce: string) =>
      server.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['application:read'] } });
    await authorize(one.nonce);
    await backup.take();
    expect(await statusOf(one.session_key)).toBe(200);
    await restore();
    expect(await statusOf(one.session_key)).toBe(401);
    expect((await authorize(other.nonce)).status).toBe(404);
  });

  test('is handled only after a confirmation, because all sessions end', async () => {
    const web = await make({ type: 'public' });
    const { session_key } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const unchanged = { status: 200, sessions: 1 };
    const currentState = async () => ({
      status: await statusOf(web.key),
      sessions: (await runSql(url, 'select 1 from sessions')).length,
    });
    expect(await cli.run('recover', ...at())).toMatchObject({
      code: 2,
      err: expect.stringContaining('pass --yes'),
    });
    const env = environment(cli.folder, { SALLYPORT_MASTER_KEY: testMasterKey });
    const declined = await shell(['recover', ...at()], { env, answers: ['n'] });
    expect(declined).toMatchObject({
      code: 1,
      err: expect.stringContaining('ends all sessions of all tenants'),
    });
    expect(await currentState()).toEqual(unchanged);
    await server.close();
    expect((await shell(['recover', ...at()], { env, answers: ['y'] })).code).toBe(0);
    await reopen();
    expect(await currentState()).toEqual({ ...unchanged, sessions: 0 });
    expect(await statusOf(session_key)).toBe(401);
  });
});
