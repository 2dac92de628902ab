/** The gauges of the metrics read a bounded number of rows. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readGauges } from '../../src/store/gauges.ts';
import { plansOf, recorder, rowsVisited } from '../support/statement-recorder.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe.each(databases)('the gauges on %s', (name, database) => {
  let on: TestStore;
  beforeAll(async () => {
    on = await openTestStore(database);
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
  });
  afterAll(() => on.close());

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
});
