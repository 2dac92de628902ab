/** An attacker could change the index to hide entries from filters. Verification finds this; `reindex` repairs it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chainAll } from '../../../src/operations/audit-files.ts';
import { systemTenant } from '../../../src/store/audit/hash-chain.ts';
import { requestHash, termsFor } from '../../../src/store/audit/terms.ts';
import { type Verdict, verifyParts } from '../../../src/store/audit/verify.ts';
import type { AuditFilter, NewEntry } from '../../../src/store/store.ts';
import { masters } from '../../support/audit-export.ts';
import { databases, startTime } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

const count = 2500;

describe.each(databases)('the index of the audit log in %s', (name, database) => {
  let on: TestStore;
  let tenant: string;
  let chain: number;
  beforeAll(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    await on.store.audit.write(Array.from({ length: count }, (_, at) => entry(at + 1)));
    await chainAll(on.maintenance);
    const [row] = await on.runSql<{ number: number }>(
      `select number from audit_chains where tenant_id = '${tenant}'`,
    );
    chain = row?.number as number;
  });
  afterAll(() => on.close());

  /** Every 500th entry is about the token `needle`, and is older than the entries before it. */
  const entry = (number: number): NewEntry => ({
    tenantId: tenant,
    at: startTime + number - (number % 500 === 0 ? 700 : 0),
    actor: { kind: 'operator' },
    operation: 'token.read',
    resource: { ids: [number % 500 === 0 ? 'needle' : `token-${number}`], container: '/general/' },
    result: 'success',
    from: {},
    request_id: `request-${number}`,
  });

  async function verified(): Promise<Verdict> {
    return verifyParts(await on.maintenance.audit.export(startTime), { masters });
  }

  async function found(filter: AuditFilter): Promise<number> {
    return (await on.store.audit.list(tenant, filter, { limit: 100 })).entries.length;
  }

  const bytes = (hex: string) => (name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`);
  const row = (term: number, block: number) => `chain = ${chain} and term = ${term} and block = ${block}`;
  const [needle] = termsFor({ token: 'needle' }) as [number];

  test('of an untouched log has no findings', async () => {
    expect(await verified()).toMatchObject({ ok: true, rows: count, findings: [] });
    expect(await found({ token: 'needle' })).toBe(5);
    expect(await on.maintenance.audit.reindex(tenant)).toEqual({ entries: count, corrected: 0, invalid: 0 });
    expect(await on.maintenance.audit.reindex(systemTenant)).toBeUndefined();
  });

  const changes: [title: string, statement: () => string, rows: [first: number, last: number]][] = [
    ['a removed term', () => `delete from audit_index where ${row(needle, 1)}`, [1024, 2047]],
    ['all terms removed', () => `delete from audit_index where chain = ${chain}`, [1, count]],
    [
      'a term moved to another block',
      () => `update audit_index set block = 7 where ${row(needle, 2)}`,
      [2048, 2500],
    ],
    [
      'a removed position',
      () => `update audit_index set offsets = ${bytes('01f4')} where ${row(needle, 0)}`,
      [1, 1023],
    ],
    [
      'an added position',
      () => `update audit_index set offsets = ${bytes('000501f403e8')} where ${row(needle, 0)}`,
      [1, 1023],
    ],
    [
      'positions in another order',
      () => `update audit_index set offsets = ${bytes('03e801f4')} where ${row(needle, 0)}`,
      [1, 1023],
    ],
    [
      'a position after the end',
      () => `update audit_index set offsets = ${bytes('01c403ff')} where ${row(needle, 2)}`,
      [2048, 2500],
    ],
    [
      'a request id',
      () => `update audit set request = null where chain = ${chain} and seq = 1200`,
      [1024, 2047],
    ],
    [
      'another request id',
      () => `update audit set request = ${requestHash('x')} where chain = ${chain} and seq = 2048`,
      [2048, 2500],
    ],
    [
      'the delay that searches by time allow for',
      () => `update audit_chains set max_delay = 0 where number = ${chain}`,
      [1, count],
    ],
  ];

  test.each(changes)('%s is found and repaired', async (_, statement, [first, last]) => {
    await on.runSql(statement());
    const before = await verified();
    expect(before.findings).toEqual([
      {
        code: 'changed_index',
        chain: tenant,
        row: first,
        last: expect.any(Number),
        message: expect.stringContaining(`run \`sallyport audit reindex --tenant ${tenant}\``),
      },
    ]);
    expect(before.findings[0]?.last).toBeGreaterThanOrEqual(last);
    expect((await on.maintenance.audit.reindex(tenant))?.corrected).toBeGreaterThan(0);
    await chainAll(on.maintenance);
    // The next test, and the one after all of them, find no trace of this change.
    expect(await found({ token: 'needle' })).toBe(5);
    expect(await found({ request_id: 'request-1200' })).toBe(1);
    expect(await found({ token: 'needle', to: startTime + 1900 })).toBe(5);
    const repairs = await on.store.audit.list(tenant, { operation: 'audit.reindex' }, { limit: 1 });
    expect(repairs.entries[0]).toMatchObject({ actor: { kind: 'operator' }, result: 'success' });
  });

  test('has no findings after all repairs', async () => {
    expect(await verified()).toMatchObject({ ok: true, findings: [] });
  });

  test('may grow and shrink while it is compared', async () => {
    const other = await openTestStore(database);
    const id = await other.tenant();
    const some = (size: number) =>
      other.store.audit.write(Array.from({ length: size }, (_, at) => ({ ...entry(at), tenantId: id })));
    await some(1500);
    await chainAll(other.maintenance);
    const age = { age: 0, deliveredUpTo: () => 1200, goOn: () => true };
    const parts = await other.maintenance.audit.export(startTime);
    const growing = parts.map((part) => ({
      ...part,
      async *lines() {
        let read = 0;
        for await (const line of part.lines()) {
          if (++read === 1300) {
            await some(100);
            await chainAll(other.maintenance);
            other.clock.advance(10_000);
            await other.maintenance.audit.deleteDelivered(age);
          }
          yield line;
        }
      },
    }));
    const verdict = await verifyParts(growing, { masters });
    const heads = await other.maintenance.audit.heads();
    await other.close();
    expect(heads.map(({ baseSeq }) => baseSeq)).toContain(1200);
    expect(verdict.findings).toEqual([]);
  });

  test('does not contain an entry that was changed', async () => {
    const position = `chain = ${chain} and seq = 500`;
    await on.runSql(`update audit set at = at + 1 where ${position}`);
    expect((await verified()).findings.map(({ code }) => code)).toEqual(['changed_row']);
    const rebuilt = await on.maintenance.audit.reindex(tenant);
    expect(rebuilt).toMatchObject({ invalid: 1 });
    expect(await found({ token: 'needle' })).toBe(4);
  });
});
