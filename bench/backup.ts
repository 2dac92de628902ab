/**
 * Takes backups while the service runs, with the documented command for its database, in CPU time that no other process
 * needs.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import type { Service } from './servers.ts';

const main = join(import.meta.dirname, '../src/main.ts');
/** Tables whose rows the documented command leaves out. */
const excluded = ['sessions', 'idempotency'];

/** Backs up again and again until `running.on` is false. Returns the number of complete backups. */
export async function backUpRepeatedly(service: Service, running: { on: boolean }): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-backup-'));
  let backups = 0;
  for (; running.on; backups++) {
    const file = join(folder, 'backup');
    const { command, input } = await backupCommand(service, file);
    const child = Bun.spawn(['chrt', '--idle', '0', ...command], {
      env: { ...process.env, ...service.settings },
      stdio: [Buffer.from(input), 'ignore', 'pipe'],
    });
    const errors = await new Response(child.stderr).text();
    if ((await child.exited) !== 0) throw new Error(`the backup failed: ${errors}`);
    rmSync(file);
  }
  rmSync(folder, { recursive: true });
  return backups;
}

async function backupCommand(
  { databaseUrl }: Service,
  file: string,
): Promise<{ command: string[]; input: string }> {
  if (databaseUrl.startsWith('sqlite:'))
    return { command: [process.execPath, '--no-env-file', main, 'backup', file], input: '' };
  const without = excluded.map((table) => `--exclude-table-data=${table}`);
  if (await dumpMatches(databaseUrl))
    return { command: ['pg_dump', '--format=custom', ...without, `--file=${file}`, databaseUrl], input: '' };
  const command = [
    'psql',
    '--no-psqlrc',
    '--quiet',
    '--set=ON_ERROR_STOP=1',
    `--output=${file}`,
    databaseUrl,
  ];
  return { command, input: await copyScript(databaseUrl) };
}

/** `pg_dump` rejects servers of a later major version. */
async function dumpMatches(databaseUrl: string): Promise<boolean> {
  if (!Bun.which('pg_dump')) return false;
  const version = Bun.spawnSync(['pg_dump', '--version']).stdout.toString();
  const own = Number(/(\d+)[.\d]*/.exec(version)?.[1] ?? 0);
  const sql = new SQL(databaseUrl, { max: 1 });
  const [row] = await sql`select current_setting('server_version_num')::integer / 10000 as major`;
  await sql.close();
  return own >= row.major;
}

/** A script that reads what `pg_dump` would read: all tables in one snapshot. */
async function copyScript(databaseUrl: string): Promise<string> {
  const sql = new SQL(databaseUrl, { max: 1 });
  const tables = await sql`select tablename from pg_tables where schemaname = current_schema()`;
  await sql.close();
  const copies = tables
    .map(({ tablename }: { tablename: string }) => tablename)
    .filter((table: string) => !excluded.includes(table))
    .map((table: string) => `copy "${table}" to stdout;`);
  return ['begin isolation level repeatable read read only;', ...copies, 'commit;'].join('\n');
}
