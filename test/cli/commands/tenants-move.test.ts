/** `tenants move`: between SQLite and PostgreSQL in both directions, with different master keys. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newMasterKey } from '../../../src/db/keys/cipher.ts';
import { tablesOf } from '../../../src/db/migrate.ts';
import { notCopied } from '../../../src/store/tenant-move.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { failInserts } from '../../support/database.ts';
import { tokenExchange } from '../../support/issuer.ts';
import { readExample } from '../../support/page-examples.ts';
import { freePort } from '../../support/postgres.ts';
import { duringTransaction, untilBlocked } from '../../support/postgres-locks.ts';
import { noNginx } from '../../support/skip.ts';
import {
  type Database,
  databases,
  manyConnections,
  openTestServer,
  postgres,
  sqlite,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';
import { until } from '../../support/until.ts';

const otherMasterKey = Buffer.from(newMasterKey().bytes).toString('base64');

let cli: Cli;
let old: TestServer;
let next: TestServer;
let tenant: { id: string; key: string };

async function start(from: Database, to: Database): Promise<void> {
  old = await openTestServer(from, { SALLYPORT_MASTER_KEY: testMasterKey, ...manyConnections });
  next = await openTestServer(to, { SALLYPORT_MASTER_KEY: otherMasterKey });
  cli = openCli(() => ({ DATABASE_URL: urlOf(old), SALLYPORT_MASTER_KEY: testMasterKey }));
  const settings = `DATABASE_URL=${next.config.databaseUrl}\nSALLYPORT_MASTER_KEY=${otherMasterKey}\n`;
  writeFileSync(cli.path('next.env'), settings);
  tenant = await old.tenant();
}
async function stop(): Promise<void> {
  await old.close();
  await next.close();
}

const move = (...words: string[]) =>
  cli.run('tenants', 'move', tenant.id, '--to', cli.path('next.env'), '--yes', ...words);
/** Runs a command in the new installation. */
function runThere(...words: string[]) {
  const there = openCli(() => ({ DATABASE_URL: urlOf(next), SALLYPORT_MASTER_KEY: otherMasterKey }));
  return there.run(...words);
}
const create = (server: TestServer, body: Record<string, unknown>) =>
  server.call('POST', '/tokens', { key: tenant.key, body: { container: '/a/', data: 'secret', ...body } });
const statusOf = async (server: TestServer, key = tenant.key) =>
  (await server.call('GET', '/tokens', { key })).status;
const urlOf = ({ config }: TestServer) => config.databaseUrl;

/** The value of every column of a type. With equal values, all foreign keys and checks hold. */
const values: Record<string, string | number> = {
  uuid: "'01890a5d-ac96-774b-bcce-b302099a8057'",
  text: "'private'",
  integer: 1,
  smallint: 1,
  bigint: 1_700_000_000_001,
  bytea: '',
};

/** The columns of every table with rows of tenants. */
async function columnsOf(): Promise<Map<string, Map<string, string>>> {
  const reference = await postgres.createMigrated('');
  const rows = await runSql<{ table: string; name: string; type: string }>(
    reference,
    `select table_name as table, column_name as name, data_type as type from information_schema.columns
     where table_schema = 'public'`,
  );
  const tables = Map.groupBy(rows, ({ table }) => table);
  const found = tablesOf('sqlite').map((table) => {
    const columns = (tables.get(table) ?? []).map(({ name, type }) => [name, type] as const);
    return [table, new Map(columns)] as const;
  });
  return new Map(found.filter(([, columns]) => columns.has('tenant_id')));
}

/** Adds a row to each table, so that a table that is not copied is noticed. */
async function fillTables(url: string, tables: Map<string, Map<string, string>>): Promise<void> {
  const bytes = url.startsWith('sqlite:') ? "x'0027'" : "'\\x0027'::bytea";
  for (const [table, columns] of tables) {
    if (notCopied.includes(table)) continue;
    const row = [...columns].map(([name, type]) => {
      if (name === 'tenant_id') return `'${tenant.id}'`;
      if (name.startsWith('container')) return "'/a/'";
      return type === 'bytea' ? bytes : values[type];
    });
    await runSql(url, `insert into ${table} (${[...columns.keys()].join(', ')}) values (${row.join(', ')})`);
  }
}

async function rowsOf(url: string, table: string): Promise<string[]> {
  const rows = await runSql<Record<string, unknown>>(
    url,
    `select * from ${table} where tenant_id = '${tenant.id}'`,
  );
  const text = (value: unknown) => (value instanceof Uint8Array ? value.toHex() : String(value));
  const fields = (row: object) => Object.entries(row).map(([name, value]) => [name, text(value)]);
  return rows.map((row) => JSON.stringify(fields(row).sort())).sort();
}

type Pair = [name: string, from: Database, to: Database];
const pairs: Pair[] = [
  ['from SQLite to PostgreSQL', sqlite, postgres],
  ['from PostgreSQL to SQLite', postgres, sqlite],
  ...databases.slice(2).map(([name, citus]): Pair => [`from PostgreSQL to ${name}`, postgres, citus]),
];

describe.each(pairs)('a move %s', (_, from, to) => {
  beforeAll(() => start(from, to));
  beforeEach(async () => {
    tenant = await old.tenant();
  });
  afterAll(stop);

  test('copies keys, sessions, searches and token data, but no revoked credentials', async () => {
    const rule = { priority: 1, transform: 'reveal', permissions: ['token:read', 'token:search'] };
    const reader = await old.application(tenant.key, { rules: [{ ...rule, container: '/' }] });
    const revoked = await old.application(tenant.key);
    await old.call('POST', '/keys/revoke', { body: { key: revoked.key } });
    const web = await old.application(tenant.key, { type: 'public' });
    const session = (await old.call('POST', '/sessions', { key: web.key })).body;
    const waiting = (await old.call('POST', '/sessions', { key: web.key })).body;
    const authorize = (server: TestServer, nonce: string) =>
      server.call('POST', '/sessions/authorize', {
        key: tenant.key,
        body: { nonce, permissions: ['token:read'] },
      });
    await authorize(old, session.nonce);
    await create(old, { id: 'one', search: { pan: '{{ data }}' } });
    const idempotent = { 'Idempotency-Key': 'once' };
    const again = (server: TestServer) =>
      server.call('POST', '/tokens', { key: tenant.key, body: { data: 'x' }, headers: idempotent });
    const made = await again(old);
    expect(await move()).toMatchObject({ code: 0, err: '' });
    expect((await next.call('GET', '/tokens/one', { key: reader.key })).body.data).toBe('secret');
    const found = await next.call('POST', '/tokens/search', {
      key: reader.key,
      body: { equals: { pan: 'secret' } },
    });
    expect(found.body.data).toMatchObject([{ id: 'one' }]);
    expect(await statusOf(next, session.session_key)).toBe(200);
    expect((await authorize(next, session.nonce)).body.code).toBe('nonce_used');
    expect((await authorize(next, waiting.nonce)).status).toBe(204);
    expect(await statusOf(next, revoked.key)).toBe(401);
    expect((await again(next)).body.id).toBe(made.body.id);
    expect((await create(next, {})).status).toBe(201);
  });

  test('signs the audit log again: all entries verify in the new installation, and the old log stays', async () => {
    for (let count = 0; count < 3; count++) {
      await create(old, {});
      await old.flush();
    }
    const idsOf = async (server: TestServer) =>
      (await server.call('GET', '/logs?operation=token.create', { key: tenant.key })).body.data.map(
        ({ id }: { id: string }) => id,
      );
    const before = await idsOf(old);
    expect(before).toHaveLength(3);
    expect(await move()).toMatchObject({ code: 0 });
    await create(next, {});
    await next.flush();
    await next.app.maintenance.audit.recordHeads('all');
    await next.flush();
    expect((await idsOf(next)).slice(1)).toEqual(before);
    const operations = (await next.call('GET', '/logs', { key: tenant.key })).body.data;
    expect(operations.map(({ operation }: { operation: string }) => operation)).toEqual(
      expect.arrayContaining(['tenant.move', 'tenant.receive']),
    );
    const verified = await runThere('audit', 'verify');
    expect(verified).toMatchObject({ code: 0, err: '' });
    expect(verified.out).toContain(tenant.id);
    await old.flush();
    expect(await cli.run('audit', 'verify')).toMatchObject({ code: 0, err: '' });
  });

  test('loses no change that was answered: requests get 503 during the copy and 421 afterwards', async () => {
    const answered: string[] = [];
    const statuses = new Set<number>();
    let isMoved = false;
    const write = async (writer: number) => {
      for (let count = 0; !isMoved; count++) {
        const id = `token-${writer}-${count}`;
        const { status } = await create(old, { id });
        statuses.add(status);
        if (status === 201) answered.push(id);
        if (status === 421) isMoved = true;
      }
    };
    const writers = Array.from({ length: 8 }, (_, index) => write(index));
    while (answered.length < 20) await create(old, {});
    expect(await move()).toMatchObject({ code: 0, err: '' });
    await Promise.all(writers);
    expect([...statuses].filter((status) => ![201, 503].includes(status))).toEqual([421]);
    const lost: string[] = [];
    for (const id of answered)
      if ((await next.call('GET', `/tokens/${id}`, { key: tenant.key })).status !== 200) lost.push(id);
    expect(lost).toEqual([]);
  });

  test.if(from === postgres)(
    'a change that was authenticated before the move gets 421 after it',
    async () => {
      let [creating, moving] = [create(old, { id: 'one' }), undefined as ReturnType<typeof move> | undefined];
      expect((await creating).status).toBe(201);
      await duringTransaction(urlOf(old), 'lock table token_contents in share mode', async () => {
        creating = create(old, { id: 'two' });
        await untilBlocked(urlOf(old));
        moving = move();
        const left = `select 1 from tenants where id = '${tenant.id}' and deleted_at is not null`;
        await until('the tenant has left', async () => (await runSql(urlOf(old), left)).length > 0);
      });
      expect((await creating).body.code).toBe('tenant_moved');
      expect(await moving).toMatchObject({ code: 0 });
    },
  );

  test('every well-formed key with the tag gets 421 in the old installation, also to revoke it', async () => {
    const { key } = await old.application(tenant.key);
    const stays = await old.tenant();
    expect(await move()).toMatchObject({ code: 0 });
    const unknown = (await next.application(tenant.key)).key;
    for (const each of [tenant.key, key, unknown]) {
      const { status, body } = await old.call('GET', '/tokens', { key: each });
      expect({ status, code: body.code }).toEqual({ status: 421, code: 'tenant_moved' });
      expect((await old.call('POST', '/keys/revoke', { body: { key: each } })).status).toBe(421);
    }
    expect((await next.call('POST', '/keys/revoke', { body: { key } })).status).toBe(204);
    expect(await statusOf(next, key)).toBe(401);
    const decision = await old.call('POST', '/decisions', {
      key: stays.key,
      body: { credential: tenant.key, permission: 'token:read', resource: { container: '/' } },
    });
    expect(decision.body).toMatchObject({ allowed: false });
  });

  test('after an error in the middle, it can be continued or canceled', async () => {
    await create(old, { id: 'one' });
    await old.flush();
    const repair = await failInserts(urlOf(next), 'audit_segments');
    expect((await move()).code).toBe(1);
    expect(await statusOf(old)).toBe(503);
    expect(await statusOf(next)).toBe(401);
    expect((await old.call('POST', '/keys/revoke', { body: { key: tenant.key } })).status).toBe(503);
    expect((await cli.run('tenants', 'enable', tenant.id)).err).toContain('is being moved');
    expect(await cli.run('tenants', 'move', tenant.id, '--cancel')).toMatchObject({ code: 0 });
    expect(await statusOf(old)).toBe(200);
    expect((await create(old, { id: 'two' })).status).toBe(201);
    await repair();
    expect(await move()).toMatchObject({ code: 0 });
    expect((await next.call('GET', '/tokens', { key: tenant.key })).body.data).toHaveLength(2);
  });

  test('continues after an interruption at each step, and serves the tenant in one installation only', async () => {
    await create(old, { id: 'one' });
    const { moves: source } = old.app.maintenance;
    const { moves: target } = next.app.maintenance;
    await source.freeze(tenant.id);
    const frozen = await source.read(tenant.id);
    await target.receive(frozen);
    expect([await statusOf(old), await statusOf(next)]).toEqual([503, 503]);
    expect(await target.cancel(tenant.id)).toBe(false);
    // The copy is out of date after this.
    expect(await source.cancel(tenant.id)).toBe(true);
    expect((await create(old, { id: 'two' })).status).toBe(201);
    await expect(source.leave(tenant.id, frozen.movingAt)).rejects.toThrow('canceled');
    old.clock.advance(1000);
    await source.freeze(tenant.id);
    await target.receive(await source.read(tenant.id));
    await source.leave(tenant.id, (await source.read(tenant.id)).movingAt);
    expect([await statusOf(old), await statusOf(next)]).toEqual([421, 503]);
    expect(await source.cancel(tenant.id)).toBe(false);
    expect(await move()).toMatchObject({ code: 0 });
    expect([await statusOf(old), await statusOf(next)]).toEqual([421, 200]);
    expect((await next.call('GET', '/tokens', { key: tenant.key })).body.data).toHaveLength(2);
  });

  test('--cancel --to deletes a copy that was never opened, and only while the old installation has the tenant', async () => {
    await create(old, { id: 'one' });
    await old.flush();
    const { moves: source } = old.app.maintenance;
    const { moves: target, audit } = next.app.maintenance;
    const copy = async () => {
      await source.freeze(tenant.id);
      await target.receive(await source.read(tenant.id));
    };
    const cancel = () => move('--cancel');
    await copy();
    await next.flush();
    await audit.recordHeads('all');
    await next.flush();
    expect(await cancel()).toMatchObject({ code: 0, out: expect.stringContaining('and deleted its copy') });
    expect([await statusOf(old), await statusOf(next)]).toEqual([200, 401]);
    for (const table of (await columnsOf()).keys())
      expect([table, await rowsOf(urlOf(next), table)]).toEqual([table, []]);
    expect((await cancel()).err).toContain('no move of this tenant can be canceled');
    expect(await runThere('audit', 'verify')).toMatchObject({ code: 0, err: '' });
    // A copy that remained after an earlier cancellation.
    await copy();
    expect(await source.cancel(tenant.id)).toBe(true);
    expect(await cancel()).toMatchObject({ code: 0, out: expect.stringContaining('and deleted its copy') });
    old.clock.advance(1000);
    await copy();
    await source.leave(tenant.id, (await source.read(tenant.id)).movingAt);
    expect((await cancel()).code).toBe(1);
    expect(await move()).toMatchObject({ code: 0 });
    expect((await cancel()).code).toBe(1);
    expect((await next.call('GET', '/tokens', { key: tenant.key })).body.data).toHaveLength(1);
  });

  test('refuses a taken tag, a return, a changed audit log, and a missing file', async () => {
    await create(old, {});
    await old.flush();
    const [tag] = await runSql<{ tag: string }>(
      urlOf(old),
      `select tag from tenant_tags where id = '${tenant.id}'`,
    );
    const other = '01890a5d-ac96-774b-bcce-b302099a8057';
    await runSql(urlOf(next), `insert into tenant_tags (tag, id) values ('${tag?.tag}', '${other}')`);
    expect((await move()).err).toContain('another tenant has the tag');
    expect(await statusOf(old)).toBe(200);
    await runSql(urlOf(next), `delete from tenant_tags where id = '${other}'`);
    await runSql(urlOf(old), `update audit_segments set denials = 7 where tenant_id = '${tenant.id}'`);
    expect((await move()).err).toContain('does not verify');
    await cli.run('tenants', 'move', tenant.id, '--cancel');
    await runSql(urlOf(old), `update audit_segments set denials = 0 where tenant_id = '${tenant.id}'`);
    expect((await cli.run('tenants', 'move', tenant.id, '--to', cli.path('no.env'))).err).toContain(
      'does not exist',
    );
    expect(await move()).toMatchObject({ code: 0 });
    const settings = `DATABASE_URL=${urlOf(old)}\nSALLYPORT_MASTER_KEY=${testMasterKey}\n`;
    writeFileSync(cli.path('old.env'), settings);
    const back = await runThere('tenants', 'move', tenant.id, '--to', cli.path('old.env'), '--yes');
    expect(back.err).toContain('it has this tenant');
    expect(await statusOf(next)).toBe(200);
  });

  test('a tenant that was disabled stays disabled', async () => {
    await cli.run('tenants', 'disable', tenant.id);
    expect(await move()).toMatchObject({ code: 0 });
    expect([await statusOf(old), await statusOf(next)]).toEqual([421, 401]);
  });
});

describe('a move with its own installations', () => {
  afterEach(stop);

  test.each(pairs)('%s: copies all rows of the tenant, of every table', async (_, from, to) => {
    await start(from, to);
    await create(old, { mask: '{{ data }}', metadata: { a: 'b' } });
    const tables = await columnsOf();
    await fillTables(urlOf(old), tables);
    const other = await next.tenant();
    const before = new Map<string, string[]>();
    for (const table of tables.keys()) before.set(table, await rowsOf(urlOf(old), table));
    expect(await move()).toMatchObject({ code: 0, err: '' });
    for (const table of tables.keys()) {
      const isCopied = !notCopied.includes(table);
      if (isCopied) {
        expect([table, await rowsOf(urlOf(next), table)]).toEqual([table, before.get(table) as string[]]);
        expect(before.get(table)?.length).toBeGreaterThan(0);
      }
      const isAudit = table.startsWith('audit_');
      if (!isAudit) expect([table, await rowsOf(urlOf(old), table)]).toEqual([table, []]);
    }
    expect(await statusOf(next, other.key)).toBe(200);
  });

  test('a change that was authenticated before the freeze and commits after it fails', async () => {
    await start(postgres, postgres);
    await create(old, {});
    const { store, maintenance } = old.app;
    const started = Promise.withResolvers<void>();
    const frozen = Promise.withResolvers<void>();
    const change = store.change(tenant.id, async (tx) => {
      started.resolve();
      await frozen.promise;
      const at = old.clock.now();
      tx.record({
        tenantId: tenant.id,
        at,
        actor: { kind: 'operator' },
        operation: 'x',
        result: 'success',
        from: {},
      });
    });
    await started.promise;
    await maintenance.moves.freeze(tenant.id);
    frozen.resolve();
    await expect(change).rejects.toMatchObject({ code: 'unavailable' });
  });

  test.each(['the same database', 'an old copy of the database'])(
    'a tenant is not moved to %s, which has it already',
    async (target) => {
      await start(sqlite, sqlite);
      const copy = cli.path('copy.db');
      await runSql(urlOf(old), `vacuum into '${copy}'`);
      expect((await create(old, {})).status).toBe(201);
      const url = target.startsWith('the same') ? urlOf(old) : `sqlite:${copy}`;
      writeFileSync(cli.path('next.env'), `DATABASE_URL=${url}\nSALLYPORT_MASTER_KEY=${testMasterKey}\n`);
      const { code, err } = await move();
      expect([code, err]).toEqual([1, expect.stringContaining('it has this tenant')]);
      const { body } = await old.call('GET', '/tokens', { key: tenant.key });
      expect(body.data).toHaveLength(1);
    },
  );
});

describe.skipIf(noNginx())('a key that is revoked through the proxy of the guide', () => {
  let stopProxy: () => Promise<void>;
  let proxy: string;

  /** The installation `us` is the default of the proxy. */
  async function startProxy(us: TestServer, eu: TestServer, ...tagsOfEu: string[]): Promise<void> {
    const folder = cli.path('proxy');
    mkdirSync(folder);
    proxy = `http://127.0.0.1:${freePort()}`;
    const { files } = readExample('docs/guides/several-installations.md');
    const addresses = { '127.0.0.1:8081': us.url, '127.0.0.1:8082': eu.url, '127.0.0.1:3000': proxy };
    const text = Object.entries(addresses).reduce(
      (changed, [from, to]) => changed.replace(from, new URL(to).host),
      files['nginx.conf'] as string,
    );
    writeFileSync(join(folder, 'nginx.conf'), text);
    writeFileSync(join(folder, 'tags.conf'), tagsOfEu.map((tag) => `${tag} eu;\n`).join(''));
    const process = Bun.spawn(['nginx', '-p', folder, '-c', 'nginx.conf', '-e', 'error.log']);
    stopProxy = async () => {
      process.kill();
      await process.exited;
    };
    const isUp = async () => (await fetch(`${proxy}/livez`).catch(() => undefined))?.ok ?? false;
    await until('the proxy answers', isUp);
  }
  afterEach(async () => {
    await stopProxy();
    await stop();
  });

  const revoke = async (
    key: string,
    headers: Record<string, string> = {},
    body = JSON.stringify({ key }),
  ) => {
    const json = { 'Content-Type': 'application/json', ...headers };
    return (await fetch(`${proxy}/keys/revoke`, { method: 'POST', headers: json, body })).status;
  };
  const statusThroughProxy = async (key: string) =>
    (await fetch(`${proxy}/tokens`, { headers: { 'SVC-API-KEY': key } })).status;
  const tagOf = (key: string) => key.slice('slp_mgt_'.length, 'slp_mgt_'.length + 6);

  test('before, during and after a move is refused by both installations from the 204 on', async () => {
    await start(sqlite, sqlite);
    await startProxy(old, next);
    const { moves: source } = old.app.maintenance;
    const { moves: target } = next.app.maintenance;
    const [before, during, after] = await Promise.all([1, 2, 3].map(() => old.application(tenant.key)));
    expect(await revoke(before.key)).toBe(204);
    expect(await statusOf(old, before.key)).toBe(401);
    await source.freeze(tenant.id);
    expect(await revoke(during.key)).toBe(503);
    const frozen = await source.read(tenant.id);
    await target.receive(frozen);
    expect(await revoke(during.key)).toBe(503);
    await source.leave(tenant.id, frozen.movingAt);
    expect(await revoke(during.key)).toBe(503);
    await target.open(tenant.id);
    expect(await statusThroughProxy(during.key)).toBe(200);
    expect(await revoke(during.key)).toBe(204);
    expect(await move()).toMatchObject({ code: 0 });
    expect(await revoke(after.key, { 'SVC-API-KEY': tenant.key })).toBe(204);
    for (const { key } of [before, during, after])
      expect([await statusOf(old, key), await statusOf(next, key), await statusThroughProxy(key)]).toEqual([
        421, 401, 401,
      ]);
    expect(await statusThroughProxy(tenant.key)).toBe(200);
  });

  test('gets the answer of the installation with its tenant, also without a header', async () => {
    await start(sqlite, sqlite);
    await startProxy(next, old, tagOf(tenant.key));
    const [leaked, other] = await Promise.all([1, 2].map(() => old.application(tenant.key)));
    const elsewhere = (await next.tenant()).key;
    expect(await revoke(leaked.key)).toBe(204);
    expect(await statusOf(old, leaked.key)).toBe(401);
    await old.app.maintenance.moves.freeze(tenant.id);
    expect(await revoke(other.key)).toBe(503);
    expect(await revoke(other.key, { 'SVC-API-KEY': elsewhere })).toBe(503);
    expect(await revoke(elsewhere)).toBe(204);
    expect(await statusOf(next, elsewhere)).toBe(401);
  });

  test('is revoked by a copy if it has JSON escapes; a JWT goes to the tenant of its client id', async () => {
    await start(sqlite, sqlite);
    await startProxy(next, old, tagOf(tenant.key));
    const { id, key } = await old.application(tenant.key);
    expect(await revoke(key, {}, `{"key": "\\u0073${key.slice(1)}"}`)).toBe(204);
    await until('the copy is answered', async () => (await statusOf(old, key)) === 401);
    const client_id = `${tagOf(tenant.key)}.${id}`;
    const body = new URLSearchParams({ ...tokenExchange, client_id, subject_token: 'x' });
    expect((await fetch(`${proxy}/oauth/token`, { method: 'POST', body })).status).toBe(400);
    await old.flush();
    const logs = await old.call('GET', '/logs?operation=key.exchange', { key: tenant.key });
    expect(logs.body.data).toHaveLength(1);
  });
});
