import { Database } from 'bun:sqlite';
import { beforeEach, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { newMasterKey } from '../../../src/db/keys/cipher.ts';
import { openStore } from '../../../src/store/open.ts';
import { entry, write } from '../../support/audit-export.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { allRows, auditEntries, failInserts } from '../../support/database.ts';
import { when } from '../../support/grants.ts';
import { openTestServer, postgres, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { masterKeys, runSql } from '../../support/test-store.ts';

let cli: Cli;
let target: string;
let server: TestServer;

beforeEach(async () => {
  target = await postgres.createEmpty('');
  cli = openCli(() => ({ DATABASE_URL: target, SALLYPORT_MASTER_KEY: testMasterKey }));
  mkdirSync(cli.path('data'));
  server = await openTestServer(source());
});

const path = () => cli.path('data/sallyport.db');
const source = () => `sqlite:${path()}`;
const copy = (...words: string[]) => cli.run('copy-to-postgres', ...words);

/** Copies the database, and opens the service on the copy. */
async function move(): Promise<void> {
  await server.close();
  expect(await copy()).toMatchObject({ code: 0, err: '' });
  server = await openTestServer(target);
}

const statusOf = async (key: string) => (await server.call('GET', '/tokens', { key })).status;

const large = 'x'.repeat(1_040_000);
const card = {
  id: 'card-1',
  container: '/cards/Visa/',
  data: { number: '4242' },
  metadata: { owner: 'Zoë 😀', 'a.b': '\\u0000' },
};

async function scene() {
  const { id: tenant, key } = await server.tenant();
  const call = async (method: string, url: string, body?: unknown, as = key) =>
    (await server.call(method, url, { key: as, body })).body;
  const writer = await server.application(key, { name: 'writer', permissions: ['token:create'] });
  const rule = { priority: 1, transform: 'reveal', permissions: ['token:read'] };
  const reader = await server.application(key, {
    name: 'reader',
    permissions: ['session:authorize'],
    rules: [{ ...rule, container: '/cards/' }],
  });
  const revoked = await server.application(key, { name: 'revoked' });
  const old = revoked.key;
  const current = (await call('POST', `/applications/${revoked.id}/regenerate`)).key;
  const web = await server.application(key, { name: 'web', type: 'public' });
  const session = await call('POST', '/sessions', undefined, web.key);
  const waiting = await call('POST', '/sessions', undefined, web.key);
  const rules = [{ ...rule, ...when(['container', 'starts_with', '/cards/']) }];
  await call('POST', '/sessions/authorize', { nonce: session.nonce, permissions: [], rules }, reader.key);
  await call('POST', '/tokens', card, writer.key);
  await call('POST', '/tokens', { id: 'large', container: '/cards/', data: large }, writer.key);
  await call('GET', '/tokens/card-1', undefined, reader.key);
  await call('GET', '/tokens/card-1', undefined, session.session_key);
  await server.flush();
  return { tenant, key, writer, reader, rules, old, current, session, waiting };
}

describe('after a copy to PostgreSQL', () => {
  test('lists and token data are the same, keys and sessions are valid, and revoked keys are not', async () => {
    const { key, reader, rules, old, current, session, waiting } = await scene();
    const lists: [string, string][] = [
      ['/applications', key],
      ['/sessions', key],
      ['/tenants/self', key],
      ['/tokens', reader.key],
      ['/tokens?container=/cards/visa/', reader.key],
      [`/tokens?metadata[owner]=${encodeURIComponent(card.metadata.owner)}`, reader.key],
    ];
    const all = () =>
      Promise.all(lists.map(async ([url, as]) => (await server.call('GET', url, { key: as })).body));
    const before = await all();
    expect(before.map(({ data }) => data?.length)).toEqual([5, 2, undefined, 2, 1, 1]);
    await move();
    expect(await all()).toEqual(before);

    const read = async (id: string, as: string) =>
      (await server.call('GET', `/tokens/${id}`, { key: as })).body;
    expect(await read('card-1', reader.key)).toMatchObject(card);
    expect(await read('card-1', session.session_key)).toMatchObject(card);
    expect((await read('large', reader.key)).data === large).toBe(true);

    expect(await statusOf(reader.key)).toBe(200);
    expect(await statusOf(current)).toBe(200);
    expect(await statusOf(old)).toBe(401);
    expect(await statusOf(session.session_key)).toBe(200);
    expect(await statusOf(waiting.session_key)).toBe(403);
    const authorize = (nonce: string) =>
      server.call('POST', '/sessions/authorize', { key: reader.key, body: { nonce, rules } });
    expect((await authorize(waiting.nonce)).status).toBe(204);
    expect(await statusOf(waiting.session_key)).toBe(200);
    expect((await authorize(session.nonce)).body.code).toBe('nonce_used');
  });

  test('the audit log has the same entries and verifies, with an entry about the copy', async () => {
    const { tenant, key } = await scene();
    await write(server.app, 600, tenant);
    const logs = async (query = '') => {
      const { status, body } = await server.call('GET', `/logs${query}`, { key });
      expect([status, body.data.length > 0]).toEqual([200, true]);
      return body;
    };
    const all = async () => [
      await logs(),
      await logs('?token=card-1'),
      await logs('?operation=session.authorize'),
    ];
    const before = await all();
    await server.close();
    const stopped = await openStore(source(), { masters: masterKeys(testMasterKey) });
    // A process that is killed leaves entries that are not chained yet.
    await stopped.store.audit.write([entry(1)]);
    await stopped.close();
    const entries = await auditEntries(source());
    await move();
    expect(await all()).toEqual(before);
    expect(await auditEntries(target)).toEqual([
      ...entries,
      expect.objectContaining({
        actor: { kind: 'operator' },
        operation: 'database.copy',
        difference: { database: { from: 'sqlite', to: 'postgres' } },
      }),
    ]);
    await server.flush();
    expect(await cli.run('audit', 'verify')).toMatchObject({ code: 0 });
    expect(await cli.entries('audit', 'tail', '--operation', 'database.copy')).toHaveLength(1);
  });

  test('changes work, and new tenants get new audit chains', async () => {
    const { key, writer, reader } = await scene();
    await move();
    const body = { id: 'new', container: '/cards/', data: 1 };
    expect((await server.call('POST', '/tokens', { key: writer.key, body })).status).toBe(201);
    expect((await server.call('DELETE', `/applications/${reader.id}`, { key })).status).toBe(204);
    expect(await statusOf(reader.key)).toBe(401);
    const second = await server.tenant();
    await server.application(second.key);
    await server.flush();
    expect(await cli.run('audit', 'verify')).toMatchObject({ code: 0 });
  });
});

test('prints the copied rows and the next steps', async () => {
  await scene();
  await server.close();
  const { out } = await copy();
  expect(out).toMatch(/^copied \d+ rows from \S+sallyport.db to postgres:\/\/127.0.0.1:\d+\/test_\w+\n/);
  expect(out).toContain('\n  tokens 2\n');
  expect(out).toMatch(/Start every node with this DATABASE_URL and the master key \w+\.\n/);
  expect(out).toContain('Do not start a service on it again');
});

test('copies another file, and prints JSON', async () => {
  await scene();
  await server.close();
  const other = cli.path('other.db');
  renameSync(path(), other);
  const { code, body } = await cli.json('copy-to-postgres', other);
  expect(code).toBe(0);
  expect(body).toMatchObject({ from: other, master_key: expect.any(String), tables: { tokens: 2 } });
});

describe('refuses, without changes,', () => {
  const isEmpty = async () =>
    (await runSql(target, "select 1 from information_schema.tables where table_schema = 'public'")).length ===
    0;

  test('a target that has data', async () => {
    await scene();
    await server.close();
    const existing = await openTestServer(target);
    await existing.tenant();
    await existing.close();
    const before = await allRows(target);
    const { code, err } = await copy();
    expect(code).toBe(1);
    expect(err).toMatch(/postgres:\S+ is not empty: the table tenants has rows\n.*create a new database/);
    expect(await allRows(target)).toEqual(before);
  });

  test('a source that a service uses', async () => {
    expect(await copy()).toMatchObject({ code: 1, err: expect.stringContaining(`${path()} is in use`) });
    expect(await isEmpty()).toBe(true);
  });

  test('another master key', async () => {
    await server.close();
    const other = Buffer.from(newMasterKey().bytes).toString('base64');
    const elsewhere = openCli(() => ({ DATABASE_URL: target, SALLYPORT_MASTER_KEY: other }));
    const { code, err } = await elsewhere.run('copy-to-postgres', path());
    expect(code).toBe(1);
    expect(err).toContain('the database needs the master key');
    expect(await isEmpty()).toBe(true);
  });

  test('a DATABASE_URL of SQLite', async () => {
    await server.close();
    const { code, err } = await copy('--database-url', source());
    expect(code).toBe(2);
    expect(err).toContain('set DATABASE_URL to postgres://');
  });

  test('a backup, which has to be restored first', async () => {
    const backup = cli.path('backup.db');
    await cli.run('backup', backup, '--database-url', source());
    const before = readFileSync(backup);
    const { code, err } = await copy(backup);
    expect(code).toBe(2);
    expect(err).toContain('restore it with `sallyport restore`');
    expect(readFileSync(backup).equals(before)).toBe(true);
    expect(await isEmpty()).toBe(true);
  });

  test('a file that is missing or not a Sallyport database', async () => {
    const missing = await copy('--data-dir', cli.folder);
    expect(missing.code).toBe(2);
    expect(missing.err).toContain(`${cli.path('sallyport.db')} does not exist`);
    expect(missing.err).toContain('set SALLYPORT_DATA_DIR');
    writeFileSync(cli.path('notes.txt'), 'not a database');
    const { code, err } = await copy(cli.path('notes.txt'));
    expect(code).toBe(1);
    expect(err).toContain(`${cli.path('notes.txt')}: cannot be opened: file is not a database`);
    new Database(cli.path('foreign.db')).run('create table notes (text)');
    expect(await copy(cli.path('foreign.db'))).toMatchObject({
      code: 1,
      err: expect.stringContaining('foreign.db is not a Sallyport database'),
    });
    expect(await isEmpty()).toBe(true);
  });
});

test('after an error in the middle, the target is empty and a second attempt succeeds', async () => {
  const { reader } = await scene();
  await server.close();
  await cli.run('migrate');
  const before = await allRows(target);
  const repair = await failInserts(target, 'audit_segments');
  expect(await copy()).toMatchObject({ code: 1, err: expect.stringContaining('disk full') });
  expect(await allRows(target)).toEqual(before);
  await repair();
  await move();
  expect(await statusOf(reader.key)).toBe(200);
});

test('a role that may not write gets the hint to use the role that owns the tables', async () => {
  await scene();
  await server.close();
  const role = `copier_${crypto.randomUUID().replaceAll('-', '')}`;
  await cli.run('migrate');
  await runSql(target, `create role ${role} login`);
  await runSql(target, `grant select on all tables in schema public to ${role}`);
  const { code, err } = await copy('--database-url', target.replace('//postgres@', `//${role}@`));
  expect(code).toBe(1);
  expect(err).toContain('set DATABASE_URL to the URL of the role that owns the tables');
  expect(await runSql(target, 'select 1 from tenants')).toHaveLength(0);
});
