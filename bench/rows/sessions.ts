/** Creating and authorizing a session: two durable writes with audit entries, compared with raw database commits. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import {
  type Candidate,
  compare,
  connections,
  type Effort,
  NothingAnswered,
  type Sample,
  seriesOf,
  underLoad,
} from '../compare.ts';
import { type Environment, type PreparedService, prepareService } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { slowDisk, startOnSlowDisk } from '../servers.ts';
import { pairRequests } from './latency.ts';

function pairs(name: string, service: PreparedService): Candidate {
  return underLoad(name, service.pid, pairRequests(service), service.database);
}

/** Raw commits of another process. Pass `slowDisk` as `prefix` to simulate a slow disk. */
function rawCommits(name: string, prefix: readonly string[] = []): Candidate {
  const command = [
    ...prefix,
    process.execPath,
    '--no-env-file',
    join(import.meta.dirname, '../raw-commits.ts'),
  ];
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

/** Rows about as long as a session and an audit entry. */
const script = `
begin;
insert into one (body) values (decode(repeat('ab', 200), 'hex'));
insert into two (body) values (decode(repeat('ab', 400), 'hex'));
commit;`;

async function pgbench(name: string, url: string, folder: string): Promise<Candidate> {
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
      if (child.exitCode !== 0) throw new Error(`pgbench: ${child.stderr}`);
      // Missing if no transaction ended in time.
      const rate = /tps = ([\d.]+)/.exec(child.stdout.toString())?.[1];
      if (rate === undefined) throw new NothingAnswered(name);
      return { rate: Number(rate) };
    },
  };
}

export async function sessionRows(stage: Environment, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-raw-'));
  const series = await compare(
    [pairs('PostgreSQL', stage.onPostgres), await pgbench('pgbench', await stage.database(), folder)],
    effort,
  );
  rmSync(folder, { recursive: true });
  const onSlowDisk = await prepareService(await startOnSlowDisk());
  const slow = await compare([pairs('SQLite', onSlowDisk), rawCommits('raw', slowDisk)], effort);
  await onSlowDisk.stop();
  const fast = await compare([pairs('SQLite', stage.onSqlite), rawCommits('raw')], effort);
  const shared = { group: 'writes', unit: 'pairs/s' };
  return [
    rowOf(
      { ...shared, work: 'create and authorize a session, SQLite', baseline: 'raw durable commits, SQLite' },
      seriesOf(fast, 'SQLite'),
      seriesOf(fast, 'raw'),
    ),
    rowOf(
      {
        ...shared,
        work: 'create and authorize a session, SQLite, slow fsync',
        baseline: 'raw durable commits, SQLite, slow fsync',
        min: 4,
      },
      seriesOf(slow, 'SQLite'),
      seriesOf(slow, 'raw'),
    ),
    rowOf(
      {
        ...shared,
        work: 'create and authorize a session, PostgreSQL',
        baseline: 'pgbench, two inserts in a transaction',
        min: 0.4,
      },
      seriesOf(series, 'PostgreSQL'),
      seriesOf(series, 'pgbench'),
    ),
  ];
}
