import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { newMasterKey } from '../../../src/store/crypto/cipher.ts';
import { openStore } from '../../../src/store/open.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { entry, exportOf, masters, mastersOf, named, verify, write } from '../../support/audit-export.ts';
import { databases, generousTimeout, sqlite, startTime } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

const count = 10;

describe.each(databases)('tampering with the audit log in %s', (_, database) => {
  const atOnce = database === sqlite;
  let testStore: TestStore;
  beforeAll(async () => {
    testStore = await openTestStore(database);
    await write(testStore, count, await testStore.tenant());
  });
  afterAll(() => testStore.close());

  /** Runs the statements, returns the findings about an export, and restores the database. */
  async function after(...statements: string[]): Promise<string[]> {
    const tables = ['audit', 'audit_checkpoints', 'audit_key'];
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

  test('an untouched log has no findings', async () => {
    expect(await after()).toEqual([]);
  });

  test('an untouched log has no findings if rows are added during the export', async () => {
    const growing = await openTestStore(database);
    const goOn = async (entries: NewEntry[]) => {
      await growing.store.audit.write(entries);
      await growing.maintenance.audit.append(2000);
    };
    await goOn(Array.from({ length: 1500 }, () => entry(1)));
    const lines: string[] = [];
    for await (const line of growing.maintenance.audit.export(startTime)) {
      lines.push(line);
      if (lines.length % 500 === 0) await goOn([entry(1)]);
    }
    const verdict = await verify(lines);
    await growing.close();
    expect(verdict).toMatchObject({ ok: true, rows: 1500, findings: [] });
  });

  const id = "'0192a3b4-0000-7000-8000-000000000000'";
  test.each([
    ['id', id],
    ['tenant_id', id],
    ['tenant_id', 'null'],
    ['at', 'at + 1'],
    ['actor_id', id],
    ['operation', "'application.read'"],
    ['entity_id', "'other'"],
    ['result', "'denied'"],
    ['entry', "replace(entry, '127.0.0.1', '127.0.0.2')"],
  ])('by changing %s of a row to %s', async (column, value) => {
    expect(await after(`update audit set ${column} = ${value} where seq = 5`)).toEqual(['changed_row 5']);
  });

  test('by changing the format of a row', async () => {
    expect(await after('update audit set format = 2 where seq = 5')).toEqual(['unknown_format']);
  });

  test('by changing the MAC or the link of a row', async () => {
    expect(await after('update audit set mac = null where seq = 5')).toEqual(['foreign_row 5']);
    expect(await after('update audit set hash = null where seq = 5')).toEqual(['misplaced_row 5']);
    expect(await after('update audit set hash = mac where seq = 10')).toEqual([
      'misplaced_row 10',
      'changed_row 10',
    ]);
  });

  test('by removing a row from the beginning, the middle or the end', async () => {
    expect(await after('delete from audit where seq = 1')).toEqual(['missing_rows 1']);
    expect(await after('delete from audit where seq = 5')).toEqual(['missing_rows 5']);
    expect(await after('delete from audit where seq = 10')).toEqual(['missing_rows 10', 'cut_off 9']);
  });

  test('by removing a row and closing the gap', async () => {
    const found = await after(
      'delete from audit where seq = 5',
      'update audit set seq = seq - 100 where seq > 5',
      'update audit set seq = seq + 99 where seq < 0',
    );
    expect(found).toContain('misplaced_row 5');
  });

  test('by swapping rows', async () => {
    const found = await after(
      'update audit set seq = 100 where seq = 4',
      'update audit set seq = 4 where seq = 5',
      'update audit set seq = 5 where seq = 100',
    );
    expect(found).toContain('misplaced_row 4');
  });

  const columns = 'format, tenant_id, at, actor_id, operation, entity_id, result, entry, mac';
  test('by inserting a row, with a number in the chain or without one', async () => {
    const copy = `insert into audit (id, ${columns}, seq, hash)
      select ${id}, ${columns}, 11, hash from audit where seq = 10`;
    expect(await after(copy)).toEqual(['changed_row 11', 'unsigned_end 11']);
    const waiting = `insert into audit (id, ${columns}) select ${id}, ${columns} from audit where seq = 10`;
    expect(await after(waiting)).toEqual([atOnce ? 'foreign_row 0' : 'changed_row 11']);
    const without = `insert into audit (id, ${columns}) select ${id}, ${columns.replace('mac', 'null')} from audit where seq = 10`;
    expect(await after(without)).toEqual([`foreign_row ${atOnce ? 0 : 11}`]);
    const below = `insert into audit (id, ${columns}, seq) select ${id}, ${columns}, -1 from audit where seq = 10`;
    expect(await after(below)).toEqual(['foreign_row -1']);
    const lowest = below.replace('-1 from', '-9223372036854775807 - 1 from');
    expect(await after(lowest)).toHaveLength(1);
  });

  test('by inserting the highest possible number does not stop the service from writing', async () => {
    for (const beyond of [
      'insert into audit_checkpoints (format, seq, at, hash, signature) select format, 9223372036854775807, at, hash, signature from audit_checkpoints where seq = 10',
      `insert into audit (id, ${columns}, seq) select ${id}, ${columns}, 9223372036854775807 from audit where seq = 10`,
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

  test('by deleting a row and resetting those after it to not chained is found on SQLite, and on PostgreSQL by an anchor', async () => {
    const other = await openTestStore(database);
    await write(other, count);
    const { seq, hash } = (await other.maintenance.audit.head()) as { seq: number; hash: Uint8Array };
    await other.runSql('delete from audit where seq = 4');
    await other.runSql('delete from audit_checkpoints where seq >= 4');
    await other.runSql('update audit set seq = null, hash = null where seq > 4');
    const lines = await exportOf(other);
    await other.close();
    const strays = atOnce ? Array(6).fill('foreign_row 0') : [];
    expect(named(await verify(lines))).toEqual(strays);
    const anchors = [{ seq, hash: Buffer.from(hash).toString('hex') }];
    expect(named(await verify(lines, { anchors }))).toEqual([...strays, `cut_off ${atOnce ? 3 : 9}`]);
  });

  test('by changing a row that is not chained yet', async () => {
    const again = `insert into audit (id, ${columns}) select id, ${columns} from copy_of_audit where seq = 10`;
    const found = await after(
      'delete from audit where seq = 10',
      'delete from audit_checkpoints where seq = 10',
      again,
      "update audit set result = 'denied' where seq is null",
    );
    expect(found).toEqual([atOnce ? 'foreign_row 0' : 'changed_row 10']);
  });

  test('by forging or removing the last checkpoint', async () => {
    expect(await after('update audit_checkpoints set at = at + 1 where seq = 6')).toEqual([
      'forged_checkpoint 6',
    ]);
    expect(await after('delete from audit_checkpoints where seq = 10')).toEqual(['unsigned_end 10']);
  });

  test('by replacing the keys of the chain', async () => {
    const found = await after('delete from audit_key');
    for (let seq = 1; seq <= count; seq++) expect(found).toContain(`changed_row ${seq}`);
    expect(found).toContain('forged_checkpoint 10');
  });

  test('by deleting its end is found by an anchor', async () => {
    const { hash } = JSON.parse(
      (await exportOf(testStore)).find((line) => line.includes('"seq":10,')) as string,
    );
    const anchors = [{ seq: 10, hash }];
    await testStore.runSql('delete from audit where seq > 6');
    await testStore.runSql('delete from audit_checkpoints where seq > 6');
    const lines = await exportOf(testStore);
    expect((await verify(lines)).ok).toBe(true);
    expect(named(await verify(lines, { anchors }))).toEqual(['cut_off 6']);
  });

  test('by deleting rows at the end leaves a gap after which new rows continue', async () => {
    const other = await openTestStore(database);
    await write(other, count);
    await other.runSql('delete from audit where seq > 7');
    await other.store.audit.write([entry(count + 1)]);
    const verdict = await verify(await exportOf(other));
    await other.close();
    expect(verdict.head).toStartWith(`${count + 1}:`);
    expect(named(verdict)).toEqual(['missing_rows 9', 'missing_rows 10', 'missing_rows 8']);
  });

  test('exports need the master key that was current when they were made', async () => {
    const before = await exportOf(testStore);
    const to = newMasterKey();
    await testStore.maintenance.rotateMasterKey({ next: () => to, done: () => {} });
    const renewed = mastersOf(Buffer.from(to.bytes).toString('base64'));
    const node = await openStore(testStore.url, { masters: renewed, timeout: generousTimeout });
    const after = await exportOf(node);
    await node.close();
    expect((await verify(before)).ok).toBe(true);
    expect(named(await verify(before, { masters: renewed }))).toEqual(['wrong_key']);
    expect((await verify(after, { masters: renewed })).ok).toBe(true);
    expect(named(await verify(after))).toEqual(['wrong_key']);
  });
});
