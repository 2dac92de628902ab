/** Adds audit entries that no search finds to a tenant with SQL, and their rows of the index. */
import { Database } from 'bun:sqlite';
import { SQL } from 'bun';

/** Terms per block of 1024 entries in the index. */
const termsPerBlock = 250;

export async function fillAudit(databaseUrl: string, tenant: string, count: number): Promise<void> {
  const postgres = !databaseUrl.startsWith('sqlite:');
  const chain = `(select number from audit_chains where tenant_id = '${tenant}')`;
  const last = `(select seq from audit_chains where tenant_id = '${tenant}')`;
  const bytes = (hex: string) => (postgres ? `'\\x${hex}'::bytea` : `x'${hex}'`);
  const numbers = (count: number) =>
    `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})`;
  const rows = Math.ceil(count / 1024) * termsPerBlock;
  const statements = [
    `${numbers(count)} insert into audit (seq, at, chain, format, entry)
     select ${last} + n, ${Date.now()}, ${chain}, 1, ${bytes('7b7d'.repeat(60))} from numbers`,
    `${numbers(rows)} insert into audit_index (chain, term, block, offsets)
     select ${chain}, n % ${termsPerBlock}, (select ${last} / 1024) + 1 + n / ${termsPerBlock}, ${bytes('0001'.repeat(8))} from numbers
     where true on conflict do nothing`,
    `update audit_chains set seq = seq + ${count} where tenant_id = '${tenant}'`,
  ];
  if (!postgres) {
    const db = new Database(databaseUrl.slice('sqlite:'.length));
    db.run('pragma busy_timeout = 5000');
    db.transaction(() => {
      for (const statement of statements) db.run(statement);
    })();
    db.close();
    return;
  }
  const sql = new SQL(databaseUrl, { max: 1 });
  for (const statement of statements) await sql.unsafe(statement);
  await sql.unsafe('vacuum analyze audit');
  await sql.unsafe('vacuum analyze audit_index');
  await sql.close();
}
