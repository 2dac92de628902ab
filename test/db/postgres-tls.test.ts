import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DbUnavailable } from '../../src/db/db.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { type Certificates, createCertificates, noOpenssl } from '../support/certificates.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { fewConnections, generousTimeout, openTestServer } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';
import { until } from '../support/until.ts';

interface Connection {
  readonly ssl: boolean;
  readonly client: string | null;
}

async function connectionOf(url: string): Promise<Connection | undefined> {
  const db = openPostgres(url, undefined, generousTimeout, fewConnections);
  try {
    return await db.get<Connection>(
      'select ssl, client_dn as client from pg_stat_ssl where pid = pg_backend_pid()',
    );
  } finally {
    await db.close();
  }
}

describe.skipIf(noOpenssl)('TLS to PostgreSQL', () => {
  let folder: string;
  let files: Certificates;
  let server: Postgres;
  const plain = () => process.env.SALLYPORT_TEST_POSTGRES as string;
  const at = (host: string, query: string, user = 'postgres') =>
    `postgres://${user}@${host}:${server.port}/postgres?${query}`;
  beforeAll(async () => {
    folder = temporaryFolder();
    chmodSync(folder, 0o755);
    files = createCertificates(folder, 'with_certificate');
    const access = join(folder, 'pg_hba.conf');
    writeFileSync(access, 'hostssl all with_certificate all cert\nhost all all all trust\n');
    server = await startPostgres({
      listen_addresses: 'localhost',
      ssl: 'on',
      ssl_cert_file: files.server.certificate,
      ssl_key_file: files.server.key,
      ssl_ca_file: files.authority,
      hba_file: access,
    });
    await runSql(server.url, 'create role with_certificate login');
  });
  afterAll(async () => {
    await server.stop();
  });

  test('is used if the server offers it, unless sslmode=disable', async () => {
    expect(await connectionOf(at('localhost', ''))).toMatchObject({ ssl: true });
    expect(await connectionOf(at('localhost', 'sslmode=disable'))).toMatchObject({ ssl: false });
    expect(await connectionOf(plain())).toMatchObject({ ssl: false });
    await expect(connectionOf(`${plain()}?sslmode=require`)).rejects.toThrow(DbUnavailable);
  });

  test('with verify-full, the certificate must be valid for the host', async () => {
    const trusted = `sslrootcert=${files.authority}`;
    expect(await connectionOf(at('localhost', `sslmode=verify-full&${trusted}`))).toMatchObject({
      ssl: true,
    });
    const wrongName = connectionOf(at('127.0.0.1', `sslmode=verify-full&${trusted}`));
    await expect(wrongName).rejects.toThrow(DbUnavailable);
    await expect(wrongName).rejects.toThrow('does not match');
    expect(await connectionOf(at('127.0.0.1', `sslmode=verify-ca&${trusted}`))).toMatchObject({ ssl: true });
    await expect(connectionOf(at('localhost', 'sslmode=verify-full'))).rejects.toThrow(DbUnavailable);
  });

  test('a client certificate identifies the role', async () => {
    const { certificate, key } = files.client;
    const url = at('localhost', `sslmode=require&sslcert=${certificate}&sslkey=${key}`, 'with_certificate');
    expect(await connectionOf(url)).toEqual({ ssl: true, client: '/CN=with_certificate' });
    await expect(connectionOf(at('localhost', '', 'with_certificate'))).rejects.toThrow(DbUnavailable);
  });

  test('certificate files that are missing or invalid make the database unavailable', async () => {
    for (const file of [join(folder, 'missing'), files.client.key]) {
      const failing = connectionOf(at('localhost', `sslmode=verify-full&sslrootcert=${file}`));
      await expect(failing).rejects.toThrow(DbUnavailable);
    }
  });

  test('responses are 503 while the certificate of the server is not trusted', async () => {
    const url = at('localhost', `sslmode=verify-full&sslrootcert=${files.authority}`);
    const node = await openTestServer(url);
    const { key } = await node.tenant();
    const create = () =>
      node.call('POST', '/applications', { key, body: { name: 'x', type: 'private', permissions: ['a:b'] } });
    const calls = [
      () => node.call('GET', '/readyz'),
      () => node.call('GET', '/applications/key', { key }),
      create,
    ];
    const other = mkdtempSync(join(folder, 'other-'));
    const restore = replace(files, createCertificates(other, 'x'));
    await reload();
    await until('not ready', async () => {
      await disconnect();
      return (await node.call('GET', '/readyz')).status !== 200;
    });
    for (const call of calls) expect(await call()).toMatchObject({ status: 503 });
    restore();
    await reload();
    await until('ready', async () => (await node.call('GET', '/readyz')).status !== 503);
    expect((await create()).status).toBe(201);
  });

  const reload = () => runSql(server.url, 'select pg_reload_conf()');
  const disconnect = () =>
    runSql(
      server.url,
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sallyport'",
    );
});

/** Gives the server another certificate. Returns a function that undoes it. */
function replace({ server }: Certificates, other: Certificates): () => void {
  const paths = [server.certificate, server.key];
  const before = paths.map((path) => readFileSync(path));
  for (const [at, path] of [other.server.certificate, other.server.key].entries())
    writeFileSync(paths[at] as string, readFileSync(path));
  return () => {
    for (const [at, path] of paths.entries()) writeFileSync(path, before[at] as Buffer);
  };
}
