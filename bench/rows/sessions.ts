/** Open a Session and let it in: two durable writes, each with its audit entry, beside what the databases can commit. */
import { Database } from 'bun:sqlite';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import { type Contestant, connections, contest, type Effort, named, underLoad } from '../contest.ts';
import { type Row, rowOf } from '../report.ts';
import { wire } from '../servers.ts';
import { type Furnished, type Stage, sessionRules } from '../stage.ts';

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

/** One row of the size of a Session in each commit, one commit after the other: what the disk gives to one writer. */
function rawCommits(name: string, folder: string): Contestant {
  const db = new Database(join(folder, 'raw.db'));
  db.run('pragma journal_mode = wal');
  db.run('pragma synchronous = full');
  db.run('create table if not exists rows (id integer primary key, body blob not null)');
  const insert = db.prepare('insert into rows (body) values (randomblob(400))');
  return {
    name,
    measure: async (seconds) => {
      const [began, used] = [performance.now(), process.cpuUsage()];
      let done = 0;
      for (; performance.now() - began < seconds * 1000; done++) insert.run();
      const { user, system } = process.cpuUsage(used);
      return { rate: done / ((performance.now() - began) / 1000), processor: (user + system) / done };
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
        work: 'create and authorize a Session, PostgreSQL',
        beside: 'pgbench, two inserts in a transaction',
        least: 0.6,
      },
      named(series, 'PostgreSQL'),
      named(series, 'pgbench'),
    ),
  ];
}
