/** Searching the audit log: the rows that a page examines do not depend on the length of the log. */
import { describe, expect, test } from 'bun:test';
import { segmentAt } from '../../src/audit/log/chain.ts';
import { maxExamined } from '../../src/audit/log/search.ts';
import type { RunSteps } from '../../src/domain/steps.ts';
import type { AuditFilter, NewEntry, Store } from '../../src/store/store.ts';
import { plansOf, recorder, rowsVisited } from '../support/statement-recorder.ts';
import { databases, startTime, testMasterKey } from '../support/test-server.ts';
import { masterKeys, openTestStore } from '../support/test-store.ts';

const actor = '01900000-0000-7000-8000-000000000001';
const from = startTime - 10;
const filters: [name: string, filter: AuditFilter][] = [
  ['a token', { token: 'needle' }],
  ['an entity', { entity: 'needle' }],
  ['a container', { container: '/rare/' }],
  ['an actor', { actor }],
  ['an operation', { operation: 'token.update' }],
  ['a result', { result: 'denied' }],
  ['a request', { request_id: 'one' }],
  ['a request id that most entries but not the newest have', { request_id: 'reused' }],
  ['a token and a time', { token: 'needle', from }],
  ['a token that never occurred', { token: 'none' }],
  ['terms that never occur together', { token: 'needle', operation: 'token.read' }],
];

describe.each(databases)('the cost of a search in the audit log on %s', async (name, database) => {
  const statements = recorder();
  const short = new Map<string, number>();
  const long = new Map<string, number>();

  const noise = (number: number): NewEntry => ({
    tenantId: tenant,
    at: startTime + number,
    actor: { kind: 'operator' },
    operation: 'token.read',
    resource: { ids: [`token-${number}`], container: '/general/' },
    result: 'success',
    from: {},
  });
  const needle = (number: number): NewEntry => ({
    ...noise(number),
    actor: { kind: 'application', id: actor, application_id: actor },
    operation: 'token.update',
    entity: { kind: 'token', id: 'needle' },
    resource: { container: '/rare/one/' },
    result: 'denied',
    request_id: 'one',
  });

  async function write(count: number, request_id?: string): Promise<void> {
    const entries = Array.from({ length: count }, (_, number) =>
      number % 50 === 0 ? needle(number) : { ...noise(number), request_id },
    );
    await on.store.audit.write(entries);
    await on.maintenance.audit.seal();
    if (name !== 'SQLite') await on.runSql('analyze');
  }

  /** Adds copies of a segment, and rows of the index, with SQL, which takes less time than sealing entries. */
  async function grow(count: number): Promise<void> {
    const head = (await on.maintenance.audit.heads()).find(({ tenantId }) => tenantId === tenant);
    const first = head?.number ?? 0;
    const last = await segmentAt(on.db, tenant, first);
    const length = (last?.last ?? 0) - (last?.first ?? 0) + 1;
    const numbers = `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})`;
    const columns = `format, first_seq, last_seq, earliest_at, latest_at, sealed_at, max_delay, successes, denials,
      failures, previous, system_number, system_hash, key_id, content_hash, index_hash, signature, entries`;
    await on.runSql(
      `${numbers} insert into audit_segments (tenant_id, number, ${columns})
       select tenant_id, number + n, ${columns} from audit_segments, numbers
       where tenant_id = '${tenant}' and number = ${first}`,
    );
    const literal = name === 'SQLite' ? "x'0001'" : "'\\x0001'::bytea";
    await on.runSql(
      `${numbers} insert into audit_index (tenant_id, term, number, offsets)
       select '${tenant}', 1000 + n % 250, ${first} + n, ${literal} from numbers`,
    );
    await on.runSql(
      `update audit_chains set number = ${first + count}, seq = seq + ${count * length} where tenant_id = '${tenant}'`,
    );
  }

  /** PostgreSQL: the rows that it visits. SQLite: the rows that it returns, since every step must use an index. */
  async function costOf(filter: AuditFilter): Promise<number> {
    statements.take();
    await watched.audit.list(tenant, filter, { limit: 20 });
    const sent = statements.take();
    if (name !== 'SQLite') return rowsVisited(on.url, sent, on.clock.now());
    const steps = plansOf(on.url, sent, on.clock.now());
    for (const step of steps) expect(step).toMatch(/^SEARCH .* USING /);
    return sent.reduce((sum, { rows }) => sum + rows, 0);
  }
  const on = await openTestStore(database);
  const tenant = await on.tenant();
  const watched: Store = await on.openNode(masterKeys(testMasterKey), statements.through);
  await write(1000, 'reused');
  for (const [title, filter] of filters) short.set(title, await costOf(filter));
  await grow(2000);
  if (name !== 'SQLite') await on.runSql('analyze');
  await write(1000);
  for (const [title, filter] of filters) long.set(title, await costOf(filter));

  test.each(filters)('by %s is the same for few and for thousands of segments', (title) => {
    expect(short.get(title)).toBeGreaterThan(0);
    expect(long.get(title)).toBeLessThanOrEqual((short.get(title) as number) + 20);
  });

  test('without a suitable term is bounded, and the next page continues', async () => {
    const filter: AuditFilter = { transform: 'mask' };
    expect(await costOf(filter)).toBeLessThan(2.5 * maxExamined);
    const { entries, next } = await watched.audit.list(tenant, filter, { limit: 20 });
    expect(entries).toEqual([]);
    const second = await watched.audit.list(tenant, filter, { limit: 20, before: next });
    expect(second.next).not.toBe(next);
  });

  test('pauses at every statement, entry and chunk, and reserves what is in memory before it adds an entry', async () => {
    const busy = await on.tenant();
    const large = 'x'.repeat(100_000);
    const difference = { name: { from: null, to: large } };
    const entries = Array.from({ length: 150 }, (_, number) => {
      return { ...noise(number), tenantId: busy, ...(number % 2 === 0 && { difference }) };
    });
    await on.store.audit.write(entries);
    let [steps, reserved] = [0, 0];
    const run: RunSteps = async (computation) => {
      for (let step = computation.next(); ; step = computation.next()) {
        if (step.done) return step.value;
        steps++;
      }
    };
    const reserve = (bytes: number) => {
      reserved += bytes;
      if (reserved > 12_000_000) throw new Error('too much');
    };
    const list = async (filter: AuditFilter, limit: number) => {
      [steps, reserved] = [0, 0];
      statements.take();
      const page = await watched.audit.list(busy, filter, { limit, run, reserve });
      return { found: page.entries.length, statements: statements.take(), steps, reserved };
    };
    const [kept, chunk] = [4 * 10 * large.length, 10 * large.length];

    for (const state of ['pending', 'sealed']) {
      const page = await list({}, 20);
      expect(page.found).toBe(20);
      expect(page.reserved).toBeGreaterThan(kept + (state === 'pending' ? large.length : 2 * chunk));
      expect(page.reserved).toBeLessThan(2 * kept);
      expect(page.steps).toBeGreaterThanOrEqual(page.statements.length + 20 + (state === 'pending' ? 0 : 3));
      // Nothing matches: only the rows in memory are reserved.
      const none = await list({ transform: 'mask' }, 20);
      expect([none.found, Math.max(...none.statements.map(({ rows }) => rows)) <= 25]).toEqual([0, true]);
      expect(none.steps).toBeGreaterThanOrEqual(none.statements.length + entries.length);
      if (state === 'pending') expect(none.reserved).toBeLessThan(25 * large.length);
      await expect(list({}, 100)).rejects.toThrow('too much');
      await on.maintenance.audit.seal();
    }
  });
});
