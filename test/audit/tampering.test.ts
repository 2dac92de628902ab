/** Every kind of tampering with the tables of the audit log is found, on both databases. */
import { describe, expect, test } from 'bun:test';
import { segmentAt } from '../../src/audit/log/chain.ts';
import { packEntries, type SignedHeader, sha256 } from '../../src/audit/log/segment.ts';
import { packIndex, storedIndex, termsFor } from '../../src/audit/log/terms.ts';
import { IndexCheck } from '../../src/audit/proof/check.ts';
import { verifyParts } from '../../src/audit/proof/verifier.ts';
import type { VerifyProgress } from '../../src/audit/proof.ts';
import { systemTenant } from '../../src/audit/records.ts';
import { newMasterKey } from '../../src/db/keys/cipher.ts';
import { recordAuditedReads } from '../../src/operations/bootstrap.ts';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import {
  entry,
  exportOf,
  masters,
  mastersOf,
  named,
  verify,
  verifyDatabase,
  write,
} from '../support/audit-export.ts';
import { databases, fewConnections, generousTimeout, startTime } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const tables = [
  'audit_segments',
  'audit_index',
  'audit_chains',
  'audit_pending',
  'audit_key',
  'setting_changes',
];

describe.each(databases)('tampering with the audit log in %s', async (name, database) => {
  /** The tenant has the segments 1 (entries 1 to 4), 2 (5 to 7) and 3 (8 to 10). */
  const testStore = await openTestStore(database);
  const tenant = await testStore.tenant();
  await recordAuditedReads(testStore.maintenance, 'all', startTime);
  for (const count of [4, 3, 3]) await write(testStore, count, tenant);
  await testStore.maintenance.audit.recordHeads('all');
  await testStore.maintenance.audit.seal();
  for (const table of tables)
    await testStore.runSql(`create table copy_of_${table} as select * from ${table}`);
  const node: OpenedStore = await testStore.open();

  const bytes = (data: Uint8Array | string) => {
    const hex = Buffer.from(data).toString('hex');
    return name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'::bytea`;
  };
  const segment = (number: number) => `tenant_id = '${tenant}' and number = ${number}`;
  const change = (set: string, number = 2) => `update audit_segments set ${set} where ${segment(number)}`;

  /**
   * Runs the statements, and returns the findings about an export and about the database. They must agree, except for the
   * index, which is not in an export. Restores the database.
   */
  async function after(...statements: string[]): Promise<string[]> {
    for (const statement of statements) await testStore.runSql(statement);
    // A node caches the keys of the log.
    const reader = statements.some((sql) => sql.includes('audit_key')) ? await testStore.open() : node;
    const exported = named(await verify(await exportOf(reader)));
    const found = named(await verifyDatabase(reader));
    for (const table of tables) {
      await testStore.runSql(`delete from ${table}`);
      await testStore.runSql(`insert into ${table} select * from copy_of_${table}`);
    }
    expect(found.filter((one) => !/^changed_(index|settings)/.test(one))).toEqual(exported);
    return found;
  }

  test('an untouched log has no findings', async () => {
    expect(await after()).toEqual([]);
  });

  test('by changing an entry: its position is found', async () => {
    const stored = await segmentAt(testStore.db, tenant, 2);
    const entries = stored?.packed.all() ?? [];
    const middle = entries[1] as (typeof entries)[number];
    const changes = [
      { ...middle, text: middle.text.replace('token.read', 'token.list') },
      { ...middle, text: '{}' },
      { ...middle, at: middle.at + 1 },
      { ...middle, id: middle.id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')) },
    ];
    for (const changed of changes) {
      const packed = bytes(await packEntries(entries.with(1, changed)));
      expect(await after(change(`entries = ${packed}`))).toEqual(['changed_entry 6']);
    }
    const otherMac = await packEntries(entries.with(1, { ...middle, mac: new Uint8Array(16) }));
    expect(await after(change(`entries = ${bytes(otherMac)}`))).toEqual([
      'changed_entry 6',
      'changed_segment 2',
    ]);
    const swapped = await packEntries([entries[1], entries[0], entries[2]] as typeof entries);
    expect(await after(change(`entries = ${bytes(swapped)}`))).toEqual(['changed_segment 2']);
    for (const packed of [bytes(await packEntries(entries.slice(1))), bytes('x'), bytes('')])
      expect(await after(change(`entries = ${packed}`))).toEqual(['changed_segment 2']);
  });

  test('by changing any other column of a segment', async () => {
    for (const set of [
      'earliest_at = earliest_at + 1',
      'latest_at = latest_at + 1',
      'sealed_at = 0',
      'max_delay = 9',
    ])
      expect(await after(change(set))).toContain('changed_segment 2');
    for (const set of ['successes = 0', 'denials = 5', 'failures = 9', "key_id = 'x'", 'system_number = 0'])
      expect(await after(change(set))).toContain('changed_segment 2');
    for (const column of ['previous', 'content_hash', 'index_hash', 'signature', 'system_hash'])
      expect(await after(change(`${column} = ${bytes('x')}`))).toContain('changed_segment 2');
    expect(await after(change('first_seq = 6'))).toContain('changed_segment 2');
    expect(await after(change('format = 2'))).toContain('unknown_format 2');
  });

  test('by removing a segment from the beginning, the middle or the end', async () => {
    for (const number of [1, 2])
      expect(await after(`delete from audit_segments where ${segment(number)}`)).toEqual([
        `missing_segments ${number}`,
      ]);
    expect(await after(`delete from audit_segments where ${segment(3)}`)).toEqual(['cut_off 2', 'cut_off 2']);
  });

  test('by removing a segment and closing the gap', async () => {
    const found = await after(
      `delete from audit_segments where ${segment(2)}`,
      change('number = 2', 3),
      `update audit_chains set number = 2 where tenant_id = '${tenant}'`,
    );
    expect(found).toContain('changed_segment 2');
    expect(found).toContain('cut_off 2');
  });

  const columns = `format, first_seq, last_seq, earliest_at, latest_at, sealed_at, max_delay, successes, denials,
    failures, previous, system_number, system_hash, key_id, content_hash, index_hash, signature, entries`;
  const copyTo = (id: string, number: number) =>
    `insert into audit_segments (tenant_id, number, ${columns})
     select '${id}', ${number}, ${columns} from audit_segments where ${segment(3)}`;

  test('by moving a segment to another chain', async () => {
    const moved = await after(
      copyTo(systemTenant, 9),
      `delete from audit_segments where ${segment(3)}`,
      `update audit_chains set number = 9 where tenant_id = '${systemTenant}'`,
    );
    expect(moved).toContain('changed_segment 9');
    expect(moved).toContain('cut_off 2');
  });

  test('by inserting segments', async () => {
    expect(await after(copyTo(tenant, 4))).toEqual(['broken_chain']);
    expect(await after(copyTo(tenant, 0))).toEqual(['broken_chain']);
    expect(await after(copyTo(crypto.randomUUID(), 1))).toEqual(['broken_chain']);
    const extended = `update audit_chains set number = 4 where tenant_id = '${tenant}'`;
    expect(await after(copyTo(tenant, 4), extended)).toContain('changed_segment 4');
  });

  test('sealing stops at an inserted segment, only of that tenant, and goes on when it is removed', async () => {
    const on = await openTestStore(database);
    const [id, other] = [await on.tenant(), await on.tenant()];
    await write(on, 2, id);
    await on.runSql('create table kept as select * from audit_segments');
    await on.runSql('update kept set number = 2');
    await on.runSql('insert into audit_segments select * from kept');
    await on.store.audit.write([entry(3, id)]);
    await on.store.audit.write([entry(4, other)]);
    const { audit } = on.maintenance;
    await expect(audit.seal()).rejects.toThrow(
      `the audit chain ${id} does not verify, so its entries cannot be sealed`,
    );
    const heads = await audit.heads();
    expect(heads.map(({ tenantId, number }) => [tenantId, number])).toEqual(
      [id, other].sort().map((tenant) => [tenant, 1]),
    );
    expect((await on.store.audit.list(id, {}, { limit: 9 })).entries).toHaveLength(3);
    expect(named(await verifyParts(await audit.parts(startTime), { masters }))).toEqual(['broken_chain']);
    await on.runSql(`delete from audit_segments where tenant_id = '${id}' and number = 2`);
    await audit.seal();
    expect((await verifyDatabase(on)).findings).toEqual([]);
  });

  test('by inserting a pending entry, with or without a copied MAC', async () => {
    const stored = await segmentAt(testStore.db, tenant, 3);
    const { id, at, text, mac } = stored?.packed.all()?.[0] ?? {
      id: '',
      at: 0,
      text: '',
      mac: new Uint8Array(),
    };
    const insert = (values: { id?: string; text?: string }) =>
      `insert into audit_pending (tenant_id, id, at, format, mac, entry)
       values ('${tenant}', '${values.id ?? id}', ${at}, 1, ${bytes(mac)}, '${(values.text ?? text).replaceAll("'", "''")}')`;
    expect(await after(insert({}))).toEqual(['replayed_entry 11']);
    expect(await after(insert({ text: '{}' }))).toEqual(['changed_entry 11']);
    expect(await after(insert({ id: crypto.randomUUID() }))).toEqual(['changed_entry 11']);
    expect(await after(insert({ text: 'two\nlines' }))).toEqual(['changed_entry 11']);
  });

  test('by changing the end or the start of a chain', async () => {
    const set = (what: string) => `update audit_chains set ${what} where tenant_id = '${tenant}'`;
    expect(await after(set('hash = base_hash'))).toEqual(['broken_chain 3']);
    for (const what of ['seq = 9', 'sealed_at = sealed_at + 1', 'max_delay = 9'])
      expect(await after(set(what))).toEqual(['changed_index 3']);
    const shortened = await after(set('number = 2'));
    expect(shortened).toContain('broken_chain');
    expect(shortened).toContain('cut_off 2');
    const cut = [`delete from audit_segments where ${segment(1)}`, set('base_number = 1, base_seq = 4')];
    expect(await after(...cut)).toContain('missing_segments 1');
    expect(await after(set('base_number = 1'))).toContain('broken_chain');
  });

  test('by removing a whole chain, or only its end', async () => {
    const chain = `delete from audit_chains where tenant_id = '${tenant}'`;
    expect(await after(`delete from audit_segments where tenant_id = '${tenant}'`, chain)).toEqual([
      'cut_off',
    ]);
    expect(await after(chain)).toEqual(['broken_chain', 'cut_off']);
  });

  test('by replacing the keys of the log', async () => {
    const found = await after('delete from audit_key');
    for (let seq = 1; seq <= 10; seq++) expect(found).toContain(`changed_entry ${seq}`);
    expect(found).toContain('changed_segment 3');
  });

  test('by changing the index, so that filters miss entries or count others', async () => {
    const [term] = termsFor({ operation: 'token.read' });
    const row = `${segment(2)} and term = ${term}`;
    for (const statement of [
      `delete from audit_index where ${row}`,
      `delete from audit_index where ${segment(2)}`,
      `update audit_index set number = 7 where ${row}`,
      `update audit_index set offsets = ${bytes('\0\x02')} where ${row}`,
      `insert into audit_index (tenant_id, term, number, offsets) values ('${tenant}', 1, 2, ${bytes('\0\0')})`,
    ])
      expect(await after(statement)).toEqual(['changed_index 2']);
  });

  test('ranges in which the index is read neither overlap nor leave terms out', async () => {
    const terms = [-(2 ** 31), -1, 0, 2 ** 31 - 1];
    const header = { ...(await segmentAt(testStore.db, tenant, 3)), number: 99 } as SignedHeader;
    for (const term of terms)
      await testStore.runSql(
        `insert into audit_index (tenant_id, term, number, offsets) values ('${tenant}', ${term}, 99, ${bytes('\0\0')})`,
      );
    for (const rowsPerRead of [1, 2, 4]) {
      const check = new IndexCheck(testStore.db, tenant, rowsPerRead);
      let reads = 0;
      check.add({ ...header, index: sha256(packIndex([terms])) }, terms.length);
      expect(await check.takeChanged(async () => void reads++)).toEqual([]);
      expect(reads).toBe(4 / rowsPerRead);
    }
    const all = { first: -(2 ** 31), last: 2 ** 31 - 1 };
    const halved = await Array.fromAsync(storedIndex(testStore.db, tenant, { first: 99, last: 99 }, all, 2));
    expect(sha256(Buffer.concat(halved.map(({ packed }) => packed)))).toBe(sha256(packIndex([terms])));
    await testStore.runSql('delete from audit_index where number = 99');
  });

  test('segments that are deleted during a verification are no finding', async () => {
    const growing = await openTestStore(database);
    const id = await growing.tenant();
    for (let run = 0; run < 3; run++) await write(growing, 2, id);
    const retain = async ({ done, total }: VerifyProgress) => {
      if (done === total)
        await growing.runSql(`update audit_chains set base_number = 2 where tenant_id = '${id}'`);
      if (done === total)
        await growing.runSql(`delete from audit_index where tenant_id = '${id}' and number <= 2`);
    };
    await expect(verifyDatabase(growing, { between: retain })).rejects.toThrow(
      'while the audit log was read',
    );
  });

  test('by changing the times when reads were not recorded', async () => {
    expect(await after("update setting_changes set value = 'off'")).toEqual(['changed_settings']);
    expect(await after('delete from setting_changes')).toEqual(['changed_settings']);
  });

  test('by resetting a chain to an earlier state is found by the system chain; a reset system chain, by an anchor', async () => {
    const other = await openTestStore(database);
    const id = await other.tenant();
    const copied = ['audit_segments', 'audit_chains'];
    await write(other, 6, id);
    await write(other, 2);
    for (const table of copied) await other.runSql(`create table old_${table} as select * from ${table}`);
    await write(other, 4, id);
    await other.maintenance.audit.recordHeads('all');
    await exportOf(other);
    const anchors = await other.maintenance.audit.heads();
    const reset = async (tenantId: string) => {
      for (const table of copied) {
        await other.runSql(`delete from ${table} where tenant_id = '${tenantId}'`);
        await other.runSql(`insert into ${table} select * from old_${table} where tenant_id = '${tenantId}'`);
      }
    };
    await reset(id);
    expect(named(await verify(await exportOf(other)))).toEqual(['cut_off 1']);
    await reset(systemTenant);
    const lines = await exportOf(other);
    await other.close();
    expect((await verify(lines)).ok).toBe(true);
    expect(named(await verify(lines, { anchors })).sort()).toEqual(['cut_off 1', 'cut_off 1']);
    const onlySystem = anchors.filter(({ tenantId }) => tenantId === systemTenant);
    expect(named(await verify(lines, { anchors: onlySystem }))).toEqual(['cut_off 1']);
  });

  test('an untouched log has no findings if entries are added during the export', async () => {
    const growing = await openTestStore(database);
    await write(growing, 1500);
    const lines: string[] = [];
    for await (const line of (await growing.maintenance.audit.export(0))?.lines ?? []) {
      lines.push(line);
      if (lines.length % 500 === 0) await write(growing, 1);
    }
    const verdict = await verify(lines);
    await growing.close();
    expect(verdict).toMatchObject({ ok: true, entries: 1500, findings: [] });
  });

  test('a later run verifies only what was sealed since', async () => {
    const growing = await openTestStore(database);
    const id = await growing.tenant();
    const { audit } = growing.maintenance;
    for (let run = 0; run < 3; run++) await write(growing, 5, id);
    const since = await audit.heads();
    await write(growing, 2, id);
    const rest = async () =>
      verifyDatabase(growing, { anchors: since, parts: await audit.parts(startTime, since) });
    expect(await rest()).toMatchObject({ ok: true, entries: 2, segments: 1, findings: [] });
    await growing.runSql('update audit_segments set failures = 9 where number = 1');
    expect(await rest()).toMatchObject({ ok: true, entries: 2 });
    await growing.runSql('delete from audit_index where number = 1');
    expect(await rest()).toMatchObject({ ok: true, entries: 2 });
    await growing.runSql('delete from audit_index where number = 4');
    expect(named(await rest())).toEqual(['changed_index 4']);
    await growing.runSql('delete from audit_segments where number = 4');
    await growing.runSql(`update audit_chains set number = 2 where tenant_id = '${id}'`);
    expect((await rest()).findings.map(({ code }) => code)).toContain('cut_off');
  });

  test('exports need the master key that was current when they were made', async () => {
    const before = await exportOf(testStore);
    const to = newMasterKey();
    await testStore.maintenance.rotateMasterKey({ next: () => to, done: () => {} });
    const renewed = mastersOf(Buffer.from(to.bytes).toString('base64'));
    const node = await openStore(testStore.url, {
      masters: renewed,
      timeout: generousTimeout,
      maxConnections: fewConnections,
    });
    const later = await exportOf(node);
    await node.close();
    expect((await verify(before)).ok).toBe(true);
    expect(new Set(named(await verify(before, { masters: renewed })))).toEqual(new Set(['wrong_key']));
    expect((await verify(later, { masters: renewed })).ok).toBe(true);
    expect(new Set(named(await verify(later)))).toEqual(new Set(['wrong_key']));
  });
});
