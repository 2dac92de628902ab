/** Durable SQLite commits of one writer, each with one row of a session's size. */
import { Database } from 'bun:sqlite';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sample } from './compare.ts';

export function measureCommits(seconds: number, folder: string): Sample {
  const db = new Database(join(folder, 'raw.db'));
  db.run('pragma journal_mode = wal');
  db.run('pragma synchronous = full');
  db.run('create table if not exists rows (id integer primary key, body blob not null)');
  const insert = db.prepare('insert into rows (body) values (randomblob(400))');
  const [began, used] = [performance.now(), process.cpuUsage()];
  let done = 0;
  for (; performance.now() - began < seconds * 1000; done++) insert.run();
  const { user, system } = process.cpuUsage(used);
  const took = performance.now() - began;
  db.close();
  return { rate: done / (took / 1000), processor: (user + system) / done };
}

if (import.meta.main) {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-raw-'));
  console.log(JSON.stringify(measureCommits(Number(process.argv[2]), folder)));
  rmSync(folder, { recursive: true });
}
