import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { newestSchema } from '../../../src/db/migrate.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { formatProblems, problemsIn, runDoctor } from '../../support/doctor.ts';
import { noPgbouncer, pgbouncers, startPgbouncer } from '../../support/pgbouncer.ts';
import { freePort, type Postgres, startPostgres } from '../../support/postgres.ts';
import { openTcpProxy } from '../../support/tcp-proxy.ts';
import { testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** The expected timeouts with SALLYPORT_DATABASE_TIMEOUT=16000. */
const timeouts = 'statement_timeout 15900ms, lock_timeout 5s, idle_in_transaction_session_timeout 100s';
const quiet = { SALLYPORT_TEST_POSTGRES: '' };

describe('doctor on PostgreSQL', () => {
  let server: Postgres;
  let cli: Cli;
  const at = (database: string) => ['--database-url', server.url.replace(/postgres$/, database)];
  beforeAll(async () => {
    server = await startPostgres({ fsync: 'on' });
    cli = openCli(() => ({ ...quiet, SALLYPORT_MASTER_KEY: testMasterKey }));
    await cli.run('migrate', ...at('postgres'));
    expect((await cli.run('tenants', 'create', 'x', ...at('postgres'))).code).toBe(0);
    expect((await cli.run('audit', 'head', ...at('postgres'))).code).toBe(0);
  });
  afterAll(async () => {
    await server.stop();
  });

  test('reports no problems on a healthy database', async () => {
    const { code, checks } = await runDoctor(cli, ...at('postgres'), '--database-timeout', '16000');
    expect({ code, found: problemsIn(checks) }).toEqual({ code: 0, found: [] });
    expect(checks.find(({ name }) => name === 'database')?.message).toMatch(
      /^PostgreSQL 18\.\d+, \d+ connections free$/,
    );
    expect(checks.find(({ name }) => name === 'timeouts')?.message).toBe(
      `${timeouts}; set for each connection`,
    );
    expect(checks.find(({ name }) => name === 'clock')?.message).toContain('(the database)');
    expect(checks.at(-1)?.message).toStartWith('signed: ');
  });

  test.skipIf(noPgbouncer).each(pgbouncers)(
    'reports the timeouts that apply through PgBouncer %s',
    async (_, path) => {
      const pooler = await startPgbouncer(path, server.port);
      const url = server.url.replace(String(server.port), String(pooler.port));
      const { code, checks } = await runDoctor(cli, '--database-url', url, '--database-timeout', '16000');
      await pooler.stop();
      expect({ code, found: problemsIn(checks) }).toEqual({ code: 0, found: [] });
      expect(checks.find(({ name }) => name === 'timeouts')?.message).toBe(
        `${timeouts}; set for each transaction, because a connection pooler does not pass them on`,
      );
    },
  );

  test('reports a server to which a connection takes longer than the timeout of a request', async () => {
    const proxy = await openTcpProxy(server.port);
    proxy.setDelay(120);
    await runSql(server.url, 'create database slow');
    const url = server.url.replace(String(server.port), String(proxy.port)).replace(/postgres$/, 'slow');
    const { code, checks } = await runDoctor(cli, '--database-url', url, '--database-timeout', '200');
    await proxy.close();
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [
        'fail timeouts: a new connection took longer than SALLYPORT_DATABASE_TIMEOUT, 200 ms: the service would respond with 503',
        expect.stringMatching(/^warn schema: version 0/),
      ],
    });
  });

  test('reports settings that lose acknowledged writes in a crash', async () => {
    await runSql(server.url, 'alter database postgres set synchronous_commit = off');
    const { code, checks } = await runDoctor(cli, ...at('postgres'));
    await runSql(server.url, 'alter database postgres reset synchronous_commit');
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [expect.stringContaining('synchronous_commit is off')],
    });
    const unsafe = await runDoctor(cli, '--database-url', process.env.SALLYPORT_TEST_POSTGRES as string);
    expect(formatProblems(unsafe.checks).join('\n')).toContain('fsync is off');
  });

  test('reports a read-only database', async () => {
    await runSql(server.url, 'alter database postgres set default_transaction_read_only = on');
    const { code, checks } = await runDoctor(cli, ...at('postgres'));
    await runSql(
      server.url,
      'begin read write; alter database postgres reset default_transaction_read_only; commit',
    );
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: ['fail database: default_transaction_read_only is on: every write fails with 503'],
    });
  });

  test('reports a server that is behind what a node has seen', async () => {
    const [row] = await runSql<{ installation: string }>(server.url, 'select installation from heartbeat');
    const seen = { ...row, era: 0, timeline: 1, beat: 1_000_000 };
    const file = cli.path('data/database-position.json');
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, JSON.stringify({ positions: [seen], nodes: [] }));
    const { code, checks } = await runDoctor(cli, ...at('postgres'));
    rmSync(dirname(file), { recursive: true });
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [
        expect.stringMatching(/^fail database: .*is behind: .*but beat 1000000 of timeline 1 was seen/),
      ],
    });
  });

  test('reports nodes without a witness, and nodes that cannot be reached at their address', async () => {
    const [seen] = await runSql<object>(server.url, 'select * from heartbeat');
    const livez = { database: { ...seen, era: 0, timeline: 1, beat: 0 } };
    const answering = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => Response.json(livez) });
    const here = `http://127.0.0.1:${answering.port}`;
    const addNode = (id: string, host: string, url: string) =>
      runSql(
        server.url,
        `insert into nodes (id, name, version, url, master_keys, clock, seen_at)
         select '${id}', '${host} (process 1)', '', '${url}', json_build_array(key.id)::text, at, at
         from (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as at) as now, (select id from master_key) as key`,
      );
    await addNode(crypto.randomUUID(), hostname(), here);
    const without = await runDoctor(cli, ...at('postgres'));
    expect({ code: without.code, problems: formatProblems(without.checks) }).toEqual({
      code: 0,
      problems: [expect.stringMatching(/^warn witness: no witness is set/)],
    });
    writeFileSync(cli.path('witness'), '');
    const all = [...at('postgres'), '--witness', cli.path('witness')];
    expect(formatProblems((await runDoctor(cli, ...all)).checks)).toEqual([]);
    await addNode(crypto.randomUUID(), 'elsewhere', here);
    await addNode(crypto.randomUUID(), hostname(), `http://127.0.0.1:${freePort()}`);
    const { checks } = await runDoctor(cli, ...all);
    await Promise.all([answering.stop(), runSql(server.url, 'delete from nodes')]);
    expect(formatProblems(checks).toSorted()).toEqual(
      [
        expect.stringMatching(/^warn address: elsewhere .* has the address .* where only it reaches it/),
        expect.stringMatching(/^warn address: .* does not answer at http/),
      ].toSorted(),
    );
  });

  test('reports a schema that does not exist, and a role that may not create the tables', async () => {
    const missing = await runDoctor(cli, '--database-url', `${server.url}?schema=nope`);
    expect({ code: missing.code, problems: problemsIn(missing.checks) }).toMatchObject({
      code: 1,
      problems: [
        {
          name: 'schema',
          state: 'fail',
          message: 'the schema "nope" does not exist, or the role of DATABASE_URL may not use it',
          hint: expect.stringContaining('create the schema'),
        },
      ],
    });
    await runSql(server.url, 'create role reader login');
    await runSql(server.url, 'create database empty');
    const hintFor = async (role: string) => {
      const url = server.url.replace(/\/\/[^@]*@/, `//${role}@`).replace(/postgres$/, 'empty');
      const { checks } = await runDoctor(cli, '--database-url', url);
      return problemsIn(checks).find(({ name }) => name === 'schema')?.hint;
    };
    expect(await hintFor('postgres')).toBe('run `sallyport migrate`, or start the service');
    expect(await hintFor('reader')).toStartWith('run `sallyport migrate` with the URL of the role');
  });

  test('reports a missing password file and a client key that others can read', async () => {
    const [certificate, key] = [cli.path('client.crt'), cli.path('client.key')];
    for (const file of [certificate, key]) writeFileSync(file, '', { mode: 0o644 });
    const query = `sslmode=require&passfile=${cli.path('none')}&sslcert=${certificate}&sslkey=${key}`;
    const { checks } = await runDoctor(cli, '--database-url', `${server.url}?${query}`);
    expect(formatProblems(checks).filter((line) => line.includes('files'))).toEqual([
      expect.stringMatching(/^warn files: the password file .*none does not exist$/),
      expect.stringMatching(/^warn files: .*client.key is readable by other users$/),
    ]);
  });

  test('reports an empty database, a wrong encoding and an unreachable server', async () => {
    await runSql(server.url, "create database latin template template0 encoding 'LATIN1'");
    const { checks } = await runDoctor(cli, ...at('latin'));
    expect(formatProblems(checks)).toEqual([
      'fail database: the encoding of the database is LATIN1',
      `warn schema: version 0; this program needs version ${newestSchema}`,
    ]);
    const nowhere = `postgres://postgres@127.0.0.1:${freePort()}/postgres`;
    const { code, checks: none } = await runDoctor(cli, '--database-url', nowhere);
    expect({ code, problems: formatProblems(none) }).toEqual({
      code: 1,
      problems: [expect.stringMatching(/^fail database: postgres:/)],
    });
  });
});
