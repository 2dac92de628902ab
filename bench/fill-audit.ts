/** Adds audit entries that no search finds to a tenant: copies of its last segment, and rows of the index. */
import { Database } from 'bun:sqlite';
import { SQL } from 'bun';
import { openFilledStore } from './fill.ts';

/** Terms per segment in the index, and entries per segment. */
const termsPerSegment = 250;
const entriesPerSegment = 1024;

const columns = `format, first_seq, last_seq, earliest_at, latest_at, sealed_at, max_delay, successes, denials, failures,
  previous, system_number, system_hash, key_id, content_hash, index_hash, signature, entries`;

/** The tenant must have an entry. */
export async function fillAudit(databaseUrl: string, tenant: string, count: number): Promise<void> {
  const { maintenance, close } = await openFilledStore(databaseUrl);
  await maintenance.audit.seal();
  await close();
  const postgres = !databaseUrl.startsWith('sqlite:');
  const last = `(select number from audit_chains where tenant_id = '${tenant}')`;
  const bytes = (hex: string) => (postgres ? `'\\x${hex}'::bytea` : `x'${hex}'`);
  const numbers = (count: number) =>
    `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})`;
  const segments = Math.ceil(count / entriesPerSegment);
  const statements = [
    `${numbers(segments)} insert into audit_segments (tenant_id, number, ${columns})
     select tenant_id, number + n, ${columns} from audit_segments, numbers
     where tenant_id = '${tenant}' and number = ${last}`,
    `${numbers(segments * termsPerSegment)} insert into audit_index (tenant_id, term, number, offsets)
     select '${tenant}', n % ${termsPerSegment}, ${last} + 1 + n / ${termsPerSegment}, ${bytes('0001'.repeat(8))}
     from numbers where true on conflict do nothing`,
    `update audit_chains set number = number + ${segments}, seq = seq + ${count} where tenant_id = '${tenant}'`,
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
  await sql.unsafe('vacuum analyze audit_segments');
  await sql.unsafe('vacuum analyze audit_index');
  await sql.close();
}
