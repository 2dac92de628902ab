/** The gauges of the metrics read a bounded number of rows. */
import { describe, expect, test } from 'bun:test';
import { readGauges } from '../../src/store/gauges.ts';
import { plansOf, recorder, rowsVisited } from '../support/statement-recorder.ts';
import { databases } from '../support/test-server.ts';
import { newSession, openTestStore } from '../support/test-store.ts';

describe.each(databases)('the gauges on %s', async (name, database) => {
  const on = await openTestStore(database);
  const tenant = await on.tenant();
  const uuid = "'01900001-0000-7000-8000-' || substr(cast(1000000000000 + n as text), 2)";
  await on.runSql(
    `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 5000)
       insert into tokens (tenant_id, seq, id, type, container, container_folded, content_version, data_bytes,
         masked_bytes, created_at)
       select '${tenant}', ${name === 'SQLite' ? uuid : `cast(${uuid} as uuid)`}, 'filled-' || n, 'token', '/', '/', 1, 1,
         0, 1 from numbers`,
  );
  if (name !== 'SQLite') await on.runSql('analyze');

  test('do not read tokens that never expire', async () => {
    const asked = recorder();
    await readGauges(asked.through(on.db));
    const statements = asked.take().filter(({ sql }) => !/pragma_|pg_/.test(sql));
    expect(statements.length).toBeGreaterThan(3);
    if (name === 'SQLite') {
      const steps = plansOf(on.url, statements, on.clock.now());
      expect(steps.filter((step) => /^SCAN (tokens|sessions|application)/.test(step))).toEqual([]);
    } else expect(await rowsVisited(on.url, statements, on.clock.now())).toBeLessThan(100);
  });

  test('include the age of the oldest expired row', async () => {
    const tenant = await on.tenant();
    const { id } = await on.application(tenant);
    const now = on.clock.now();
    const session = newSession(now, id, on.mint('ses', tenant), on.mint('non', tenant));
    await on.store.sessions.create(tenant, session);
    on.clock.advance(session.expiresAt - now + 60_000);
    expect((await readGauges(on.db)).sweepLag).toBe(60);
    await on.maintenance.sweep(100);
    expect((await readGauges(on.db)).sweepLag).toBe(0);
  });

  test('count at most 10,000 chains and rows that expire, and estimate more waiting entries', async () => {
    const many = 12_000;
    const id = name === 'SQLite' ? 'lower(hex(randomblob(16)))' : 'gen_random_uuid()';
    const bytes = name === 'SQLite' ? "x''" : "cast('' as bytea)";
    const insert = (into: string, values: string) =>
      on.runSql(
        `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${many})
         insert into ${into} select ${values} from numbers${name === 'SQLite' ? '' : ', pg_stat_force_next_flush()'}`,
      );
    const tenant = await on.tenant();
    const soon = on.clock.now() + 1000;
    await insert(
      `audit_chains (tenant_id, number, seq, hash, sealed_at, max_delay, base_number, base_seq, base_hash,
        recorded_number, recorded_at)`,
      `${id}, 1, 1, ${bytes}, 1, 0, 0, 0, ${bytes}, 0, 0`,
    );
    await insert('audit_pending (tenant_id, id, at, format, mac, entry)', `${id}, ${id}, 1, 1, ${bytes}, ''`);
    await insert(
      'applications (tenant_id, id, name, name_folded, type, created_at, expires_at, permissions, rules)',
      `'${tenant}', ${id}, 'x', 'x', 'private', 1, ${soon}, '[]', '[]'`,
    );
    const { rows, unsealed, expiring } = await readGauges(on.db);
    expect([rows.audit, expiring]).toEqual([10_000, 10_000]);
    // The coordinator of a Citus cluster has no statistics of the rows on the workers.
    expect(Math.abs(unsealed - (name === 'PostgreSQL' ? many : 10_000))).toBeLessThan(100);
  });
});
