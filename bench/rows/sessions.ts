/** Open a Session and let it in: two durable writes, each with its audit entry, beside what the databases can commit. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import {
  type Contestant,
  connections,
  contest,
  type Effort,
  named,
  type Sample,
  underLoad,
} from '../contest.ts';
import { commitFor } from '../raw.ts';
import { type Row, rowOf } from '../report.ts';
import { slowDisk, startOnSlowDisk, wire } from '../servers.ts';
import { type Furnished, furnish, type Stage, sessionRules } from '../stage.ts';

function pairs(name: string, service: Furnished): Contestant {
  const nonce = 'NONCE'.padEnd(57, ' ');
  const grant = wire('POST', '/sessions/authorize', service.backend.key, { nonce, rules: sessionRules });
  const plan = {
    port: service.port,
    requests: [wire('POST', '/sessions', service.page.key)],
    status: 201,
    second: { request: grant.replace(nonce, 'NONCE'), status: 204 },
  };
  return underLoad(name, service.pid, plan, service.database);
}

/** On the disk as it is. */
function rawCommits(name: string, folder: string): Contestant {
  return { name, measure: async (seconds) => commitFor(seconds, folder) };
}

/** The same under `slowDisk`. */
function rawCommitsOnSlowDisk(name: string): Contestant {
  const command = [...slowDisk, process.execPath, '--no-env-file', join(import.meta.dirname, '../raw.ts')];
  return {
    name,
    measure: async (seconds) => {
      const child = Bun.spawn([...command, String(seconds)], { stdio: ['ignore', 'pipe', 'inherit'] });
      return (await new Response(child.stdout).json()) as Sample;
    },
  };
}

const tables = `
  create table one (id bigserial primary key, body bytea not null);
  create table two (id bigserial primary key, body bytea not null);`;

/** A Session and an audit entry are about this long. */
const script = `
begin;
insert into one (body) values (decode(repeat('ab', 200), 'hex'));
insert into two (body) values (decode(repeat('ab', 400), 'hex'));
commit;`;

async function pgbench(name: string, url: string, folder: string): Promise<Contestant> {
  const sql = new SQL(url, { max: 1 });
  await sql.unsafe(tables);
  await sql.close();
  const file = join(folder, 'two-inserts.sql');
  writeFileSync(file, script);
  const { hostname, port, username, pathname } = new URL(url);
  const where = ['-h', hostname, '-p', port, '-U', username, pathname.slice(1)];
  const clients = ['-c', String(connections), '-j', '1'];
  return {
    name,
    measure: async (seconds) => {
      const time = ['-T', String(Math.max(1, Math.round(seconds)))];
      const command = ['pgbench', '-n', '-M', 'prepared', '-f', file, ...clients, ...time, ...where];
      const child = Bun.spawnSync(command, { stdio: ['ignore', 'pipe', 'pipe'] });
      const rate = /tps = ([\d.]+)/.exec(child.stdout.toString())?.[1];
      if (rate === undefined) throw new Error(`pgbench: ${child.stderr}`);
      return { rate: Number(rate) };
    },
  };
}

export async function sessionRows(stage: Stage, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-raw-'));
  const series = await contest(
    [
      pairs('SQLite', stage.onSqlite),
      rawCommits('raw', folder),
      pairs('PostgreSQL', stage.onPostgres),
      await pgbench('pgbench', await stage.database(), folder),
    ],
    effort,
  );
  rmSync(folder, { recursive: true });
  const onSlowDisk = await furnish(await startOnSlowDisk());
  const slow = await contest([pairs('SQLite', onSlowDisk), rawCommitsOnSlowDisk('raw')], effort);
  await onSlowDisk.stop();
  const shared = { group: 'writes', unit: 'pairs/s' };
  return [
    rowOf(
      {
        ...shared,
        work: 'create and authorize a Session, SQLite',
        beside: 'raw durable commits of SQLite',
        least: 1,
      },
      named(series, 'SQLite'),
      named(series, 'raw'),
    ),
    rowOf(
      {
        ...shared,
        work: 'create and authorize a Session, SQLite, where a sync takes milliseconds',
        beside: 'raw durable commits of SQLite on the same',
        least: 1,
      },
      named(slow, 'SQLite'),
      named(slow, 'raw'),
    ),
    rowOf(
      {
        ...shared,
        work: 'create and authorize a Session, PostgreSQL',
        beside: 'pgbench, two inserts in a transaction',
        least: 0.6,
      },
      named(series, 'PostgreSQL'),
      named(series, 'pgbench'),
    ),
  ];
}
