/** Sessions for the sweep to remove. */
import { Database } from 'bun:sqlite';
import { SQL } from 'bun';
import { newId } from '../src/domain/key.ts';
import type { Owner } from './environment.ts';

export async function insertExpiredSessions(
  databaseUrl: string,
  { tenant, page }: Owner,
  count: number,
): Promise<void> {
  const columns = `tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at`;
  if (databaseUrl.startsWith('sqlite:')) {
    const db = new Database(databaseUrl.slice('sqlite:'.length));
    db.run('pragma busy_timeout = 5000');
    const insert = db.prepare(
      `insert into sessions (${columns}) values (?1, ?2, ?3, randomblob(32), randomblob(32), '[]', '[]', 1, ?4)`,
    );
    db.transaction(() => {
      for (let row = 0; row < count; row++) insert.run(tenant, page, newId(Date.now()), row);
    })();
    db.close();
    return;
  }
  const sql = new SQL(databaseUrl, { max: 1 });
  const digest = "decode(md5(random()::text) || md5(random()::text), 'hex')";
  await sql.unsafe(
    `insert into sessions (${columns}) select '${tenant}', '${page}', gen_random_uuid(), ${digest}, ${digest}, '[]', '[]', 1, expiry
     from generate_series(1, ${count}) as expiry`,
  );
  // The service may have analyzed the table before the rows were committed.
  await sql.unsafe('analyze sessions');
  await sql.close();
}
