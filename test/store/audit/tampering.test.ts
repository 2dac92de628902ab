/** Every kind of tampering with the tables of the audit log is found, on both databases. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { LogEntry } from '../../../src/domain/audit.ts';
import { systemTenant } from '../../../src/store/audit/hash-chain.ts';
import type { Anchor } from '../../../src/store/audit/verify-chain-options.ts';
import { newMasterKey } from '../../../src/store/crypto/cipher.ts';
import { openStore } from '../../../src/store/open.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { entry, exportOf, masters, mastersOf, named, verify, write } from '../../support/audit-export.ts';
import { databases, generousTimeout } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

const count = 10;

describe.each(databases)('tampering with the audit log in %s', (_, database) => {
  let testStore: TestStore;
  let tenant: string;
  let chain: number;
  beforeAll(async () => {
    testStore = await openTestStore(database);
    tenant = await testStore.tenant();
    await write(testStore, count, tenant);
    chain = await numberOf(testStore, tenant);
    await testStore.maintenance.audit.recordHeads('all');
    await exportOf(testStore);
  });
  afterAll(() => testStore.close());

  async function numberOf(on: TestStore, id: string): Promise<number> {
    const [row] = await on.runSql<{ number: number }>(
      `select number from audit_chains where tenant_id = '${id}'`,
    );
    return row?.number as number;
  }

  /** Runs the statements, returns the findings about an export, and restores the database. */
  async function after(...statements: string[]): Promise<string[]> {
    const tables = ['audit', 'audit_checkpoints', 'audit_chains', 'audit_pending', 'audit_key'];
    for (const table of tables)
      await testStore.runSql(`create table copy_of_${table} as select * from ${table}`);
    for (const statement of statements) await testStore.runSql(statement);
    const node = await openStore(testStore.url, { masters, timeout: generousTimeout });
    const verdict = await verify(await exportOf(node));
    await node.close();
    for (const table of tables) {
      await testStore.runSql(`delete from ${table}`);
      await testStore.runSql(`insert into ${table} select * from copy_of_${table}`);
      await testStore.runSql(`drop table copy_of_${table}`);
    }
    return named(verdict);
  }

  const row = (seq: number) => `chain = ${chain} and seq = ${seq}`;

  test('an untouched log has no findings', async () => {
    expect(await after()).toEqual([]);
  });

  test('an untouched log has no findings if entries are added during the export', async () => {
    const growing = await openTestStore(database);
    const goOn = async (entries: NewEntry[]) => {
      await growing.store.audit.write(entries);
      await growing.maintenance.audit.append(2000);
    };
    await goOn(Array.from({ length: 1500 }, () => entry(1)));
    const lines: string[] = [];
    for (const part of await growing.maintenance.audit.export(0))
      for await (const line of part.lines()) {
        lines.push(line);
        if (lines.length % 500 === 0) await goOn([entry(1)]);
      }
    const verdict = await verify(lines);
    await growing.close();
    expect(verdict).toMatchObject({ ok: true, rows: 1500, findings: [] });
  });

  const bytes = (text: string) => {
    const hex = Buffer.from(text).toString('hex');
    return database.name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`;
  };
  test('by changing the time, the entry or the MAC of a row', async () => {
    const changes = ['at = at + 1', `entry = ${bytes('{}')}`, `entry = ${bytes('')}`];
    const mac = database.name === 'SQLite' ? "x'00112233445566778899aabbccddeeff'" : "'\\x0011'";
    for (const change of [...changes, 'format = 1'])
      expect(await after(`update audit set ${change} where ${row(5)}`)).toEqual(['changed_row 5']);
    for (const change of [`mac = ${mac}`, 'mac = null'])
      expect((await after(`update audit set ${change} where ${row(5)}`)).sort()).toEqual([
        'anchor_differs 10',
        'broken_chain 10',
        change === 'mac = null' ? 'foreign_row 5' : 'changed_row 5',
      ]);
    expect(await after(`update audit set format = 3 where ${row(5)}`)).toEqual(['unknown_format']);
  });

  test('by removing a row from the beginning, the middle or the end', async () => {
    expect(await after(`delete from audit where ${row(1)}`)).toEqual(['missing_rows 1']);
    expect(await after(`delete from audit where ${row(5)}`)).toEqual(['missing_rows 5']);
    expect(await after(`delete from audit where ${row(10)}`)).toContain('missing_rows 10');
  });

  test('by removing a row and closing the gap', async () => {
    const found = await after(
      `delete from audit where ${row(5)}`,
      `update audit set seq = seq + 100 where chain = ${chain} and seq > 5`,
      `update audit set seq = seq - 101 where chain = ${chain} and seq > 100`,
    );
    expect(found).toContain('missing_rows 10');
    const disguised = await after(
      `delete from audit where ${row(5)}`,
      `update audit set seq = 5 where ${row(4)}`,
      `insert into audit (chain, seq, at, format, mac, entry)
        select chain, 4, at, format, mac, entry from audit where ${row(3)}`,
    );
    expect(disguised).toEqual(['replayed_row 4', 'anchor_differs 10', 'broken_chain 10']);
  });

  test('by swapping rows', async () => {
    const found = await after(
      `update audit set seq = 100 where ${row(4)}`,
      `update audit set seq = 4 where ${row(5)}`,
      `update audit set seq = 5 where ${row(100)}`,
    );
    expect(found).toEqual(['anchor_differs 10', 'broken_chain 10']);
  });

  test('by moving a row or a chain to another tenant', async () => {
    const system = await numberOf(testStore, systemTenant);
    const moved = await after(`update audit set chain = ${system}, seq = 2 where ${row(10)}`);
    expect(moved).toContain('changed_row 2');
    expect(moved).toContain('missing_rows 10');
    const other = await testStore.tenant();
    const renamed = await after(`update audit_chains set tenant_id = '${other}' where number = ${chain}`);
    for (let seq = 1; seq <= count; seq++) expect(renamed).toContain(`changed_row ${seq}`);
    expect(renamed).toContain('missing_chain');
  });

  const columns = 'chain, at, format, mac, entry';
  const copyAs = (seq: number, as = columns) =>
    `insert into audit (seq, ${columns}) select ${seq}, ${as} from audit where ${row(10)}`;

  test('by inserting a row', async () => {
    expect(await after(copyAs(11))).toEqual(['replayed_row 11', 'foreign_row 11', 'unsigned_end 11']);
    expect(await after(copyAs(0))).toEqual(['foreign_row']);
    expect(await after(copyAs(-1))).toEqual(['foreign_row']);
    expect(await after(copyAs(1, columns.replace('chain', '77')))).toEqual(['foreign_row']);
    const pending = (mac: string) =>
      `insert into audit_pending (tenant_id, at, format, mac, entry)
       select '${tenant}', at + 1, format, ${mac}, '{}' from audit where ${row(10)}`;
    expect(await after(pending('mac'))).toEqual(['changed_row 11']);
    expect(await after(pending('null'))).toEqual(['foreign_row 11']);
  });

  test('by writing an entry again', async () => {
    const texts = await testStore.store.audit.list(tenant, {}, { limit: 1 });
    const { id: _, tenant_id: __, at: ___, ...last } = texts.entries[0] as LogEntry;
    const text = JSON.stringify(last).replaceAll("'", "''");
    const again = `insert into audit_pending (tenant_id, at, format, mac, entry)
      select '${tenant}', at, format, mac, '${text}' from audit where ${row(10)}`;
    expect(await after(again)).toEqual(['replayed_row 11']);
    expect(await after(again, again)).toEqual(['replayed_row 11', 'replayed_row 12']);
  });

  test('by inserting the highest possible number does not stop the service from writing', async () => {
    const most = '9223372036854775807';
    for (const beyond of [
      `insert into audit_checkpoints (chain, format, seq, at, hash, signature)
       select chain, format, ${most}, at, hash, signature from audit_checkpoints`,
      `insert into audit (seq, ${columns}) select ${most}, ${columns} from audit where seq = 10`,
    ]) {
      const other = await openTestStore(database);
      await write(other, count);
      await other.runSql(beyond);
      await write(other, 2);
      const verdict = await verify(await exportOf(other));
      await other.close();
      expect(verdict.ok).toBe(false);
      expect(verdict.rows).toBeGreaterThanOrEqual(count + 2);
    }
  });

  test('by forging or removing the last checkpoint', async () => {
    const last = `chain = ${chain} and seq = 10`;
    expect(await after(`update audit_checkpoints set at = at + 1 where ${last}`)).toEqual([
      'forged_checkpoint 10',
      'unsigned_end 10',
    ]);
    expect(await after(`delete from audit_checkpoints where ${last}`)).toEqual(['unsigned_end 10']);
  });

  test('by changing the end or the start of the chain', async () => {
    const set = (what: string) => `update audit_chains set ${what} where number = ${chain}`;
    expect(await after(set('hash = base_hash'))).toEqual(['broken_chain 10']);
    expect(await after(set('seq = 9'))).toContain('foreign_row 10');
    expect(await after(set('base_seq = 4'))).toEqual([
      'anchor_differs 10',
      'broken_chain 10',
      'foreign_row',
      'missing_rows 1',
    ]);
    const cut = await after(`delete from audit where chain = ${chain} and seq < 5`, set('base_seq = 4'));
    expect(cut).toContain('missing_rows 1');
  });

  test('by removing a whole chain', async () => {
    const tables = ['audit', 'audit_checkpoints'].map(
      (table) => `delete from ${table} where chain = ${chain}`,
    );
    expect(await after(...tables, `delete from audit_chains where number = ${chain}`)).toEqual([
      'missing_chain',
    ]);
    expect(await after(`delete from audit_chains where number = ${chain}`)).toEqual([
      'foreign_row',
      'missing_chain',
    ]);
  });

  test('by replacing the keys of the chain', async () => {
    const found = await after('delete from audit_key');
    for (let seq = 1; seq <= count; seq++) expect(found).toContain(`changed_row ${seq}`);
    expect(found).toContain('forged_checkpoint 10');
  });

  /** Replaces all rows of a chain with those of an older copy, which was valid once. */
  test('by resetting a chain to an earlier state is found by the system chain; a reset system chain, by an anchor', async () => {
    const other = await openTestStore(database);
    const id = await other.tenant();
    const tables = ['audit', 'audit_checkpoints', 'audit_chains'] as const;
    const key = { audit: 'chain', audit_checkpoints: 'chain', audit_chains: 'number' };
    await write(other, 6, id);
    await write(other, 2);
    for (const table of tables) await other.runSql(`create table old_${table} as select * from ${table}`);
    await write(other, 4, id);
    await other.maintenance.audit.recordHeads('all');
    await exportOf(other);
    const heads = await other.maintenance.audit.heads();
    const anchors: Anchor[] = heads.map(({ tenantId = systemTenant, seq, hash }) => {
      return { tenantId, seq, hash: Buffer.from(hash).toString('hex') };
    });
    const reset = async (tenantId: string) => {
      const number = await numberOf(other, tenantId);
      for (const table of tables) {
        await other.runSql(`delete from ${table} where ${key[table]} = ${number}`);
        await other.runSql(`insert into ${table} select * from old_${table} where ${key[table]} = ${number}`);
      }
    };
    await reset(id);
    expect(named(await verify(await exportOf(other)))).toEqual(['cut_off 6']);
    await reset(systemTenant);
    const lines = await exportOf(other);
    await other.close();
    expect((await verify(lines)).ok).toBe(true);
    expect(named(await verify(lines, { anchors })).sort()).toEqual(['cut_off 2', 'cut_off 6']);
    const onlySystem = anchors.filter(({ tenantId }) => tenantId === systemTenant);
    expect(named(await verify(lines, { anchors: onlySystem }))).toEqual(['cut_off 2']);
  });

  test('exports need the master key that was current when they were made', async () => {
    const before = await exportOf(testStore);
    const to = newMasterKey();
    await testStore.maintenance.rotateMasterKey({ next: () => to, done: () => {} });
    const renewed = mastersOf(Buffer.from(to.bytes).toString('base64'));
    const node = await openStore(testStore.url, { masters: renewed, timeout: generousTimeout });
    const later = await exportOf(node);
    await node.close();
    expect((await verify(before)).ok).toBe(true);
    expect(new Set(named(await verify(before, { masters: renewed })))).toEqual(new Set(['wrong_key']));
    expect((await verify(later, { masters: renewed })).ok).toBe(true);
    expect(new Set(named(await verify(later)))).toEqual(new Set(['wrong_key']));
  });
});
