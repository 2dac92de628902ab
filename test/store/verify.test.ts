import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { newMasterKey } from '../../src/store/cipher.ts';
import { openStore } from '../../src/store/open.ts';
import type { NewEntry } from '../../src/store/store.ts';
import { entry, exportOf, masters, mastersOf, named, verify, write } from '../support/exports.ts';
import { openStores, type Stores } from '../support/stores.ts';
import { databases, sqlite, start } from '../support/world.ts';

const count = 10;

describe('an export of the audit log', () => {
  let stores: Stores;
  let lines: string[];
  beforeAll(async () => {
    stores = await openStores(sqlite);
    await write(stores.store, count, await stores.tenant());
    lines = await exportOf(stores.store);
  });
  afterAll(() => stores.close());

  const kinds = () => lines.map((line) => JSON.parse(line).kind);
  const withLine = (at: number, line: string) => lines.with(at, line);
  const rowLine = (seq: number) => lines.findIndex((line) => line.startsWith(`{"kind":"row","seq":${seq},`));

  test('is sound as it is written, and says how far it goes', async () => {
    const verdict = await verify(lines);
    expect(verdict).toMatchObject({ ok: true, rows: count, checkpoints: 4, findings: [] });
    expect(verdict.head).toStartWith(`${count}:`);
    expect(kinds().filter((kind) => kind === 'row')).toHaveLength(count);
  });

  test('goes up to the last commit on SQLite, where rows are sealed as they are written', async () => {
    const fresh = await openStores(sqlite);
    await fresh.store.audit.write([entry(1), entry(2)]);
    await fresh.store.audit.write([entry(3)]);
    expect(await fresh.store.audit.head()).toMatchObject({ seq: 3 });
    const verdict = await verify(await Array.fromAsync(fresh.store.audit.export(start)));
    await fresh.close();
    expect(verdict).toMatchObject({ ok: true, rows: 3, checkpoints: 1 });
  });

  test('shows any change to any field of any line, and names the row', async () => {
    const fields = lines.flatMap((line, at) =>
      Object.keys(JSON.parse(line)).map((field) => [at, field] as const),
    );
    const values = fc.oneof(fc.string(), fc.integer(), fc.constant(null), fc.constant(true));
    for (const [at, field] of fields) {
      const before = JSON.parse(lines[at] as string);
      const others = fc.sample(values, { numRuns: 4, seed: at }).filter((value) => value !== before[field]);
      for (const value of [...near(before[field]), ...others]) {
        const verdict = await verify(withLine(at, JSON.stringify({ ...before, [field]: value })));
        expect({ at, field, value, ok: verdict.ok }).toEqual({ at, field, value, ok: false });
        const well = before.kind === 'row' && field !== 'kind' && typeof value === typeof before[field];
        if (well && field !== 'seq' && !(field === 'hash' || field === 'mac'))
          expect(named(verdict)).toEqual([`changed_row ${before.seq}`]);
      }
    }
  });

  /** The smallest changes. */
  function near(value: unknown): unknown[] {
    if (typeof value === 'number') return [value + 1, value - 1, -value, String(value)];
    if (typeof value === 'string')
      return [`${value}x`, value.slice(0, -1), value.toUpperCase(), `0${value.slice(1)}`].filter(
        (other) => other !== value,
      );
    return ['', 0];
  }

  test('shows any other byte', async () => {
    const file = Buffer.from(lines.join('\n'));
    const flip = fc.tuple(fc.nat(file.length - 1), fc.integer({ min: 1, max: 255 }));
    await fc.assert(
      fc.asyncProperty(flip, async ([at, bits]) => {
        const other = Buffer.from(file);
        other[at] = (other[at] as number) ^ bits;
        expect((await verify(other.toString().split('\n'))).ok).toBe(false);
      }),
      { numRuns: 300 },
    );
  });

  test('shows a field or a line that is too much, and a line that is written otherwise', async () => {
    for (const [at, line] of lines.entries()) {
      expect((await verify(withLine(at, line.replace(/}$/, ',"more":1}')))).ok).toBe(false);
      expect((await verify(withLine(at, line.replace(',"', ', "')))).ok).toBe(false);
      expect((await verify(lines.toSpliced(at, 0, line))).ok).toBe(false);
    }
  });

  test('shows every line that was removed, and names the row', async () => {
    for (const [at, kind] of kinds().entries()) {
      const verdict = await verify(lines.toSpliced(at, 1));
      expect(verdict.ok).toBe(false);
      if (kind === 'row')
        expect(named(verdict)).toContain(`missing_rows ${JSON.parse(lines[at] as string).seq}`);
    }
  });

  test('shows any two rows that changed places, with their numbers or without', async () => {
    for (let seq = 1; seq < count; seq++) {
      const [first, second] = [rowLine(seq), rowLine(seq + 1)];
      const [a, b] = [lines[first] as string, lines[second] as string];
      const swapped = lines.with(first, b).with(second, a);
      expect(named(await verify(swapped))).toContain(`misplaced_row ${seq}`);
      const numbered = (line: string, number: number) => line.replace(/"seq":\d+/, `"seq":${number}`);
      const disguised = lines.with(first, numbered(b, seq)).with(second, numbered(a, seq + 1));
      expect(named(await verify(disguised))).toContain(`misplaced_row ${seq}`);
    }
  });

  test('shows that it was cut off, wherever', async () => {
    for (let length = 1; length < lines.length; length++)
      expect(named(await verify(lines.slice(0, length))).join()).toContain('cut_off');
    expect(named(await verify([]))).toEqual(['not_an_export']);
    const text = lines.join('\n');
    expect((await verify(text.slice(0, -1).split('\n'))).ok).toBe(false);
  });

  test('shows a footer or a checkpoint that belongs to another export', async () => {
    const other = await openStores(sqlite);
    await write(other.store, count);
    const foreign = await exportOf(other.store);
    await other.close();
    expect(named(await verify([...lines.slice(0, -1), foreign.at(-1) as string]))).toContain('forged_footer');
    const mark = kinds().indexOf('checkpoint');
    const { hash } = JSON.parse(lines[mark] as string);
    const forged = JSON.stringify({ ...JSON.parse(foreign[mark] as string), hash });
    expect(named(await verify(withLine(mark, forged)))).toContain('forged_checkpoint 3');
    const verdict = await verify([foreign[0] as string, ...lines.slice(1)]);
    expect(named(verdict)).toContain('changed_row 1');
    expect(verdict.findings.length).toBeGreaterThan(count);
  });

  test('takes the master key that it was made with', async () => {
    const another = { ...masters, find: () => undefined };
    expect(named(await verify(lines, { masters: another }))).toEqual(['wrong_key']);
    const impostor = { ...newMasterKey(), id: masters.current().id };
    expect(named(await verify(lines, { masters: { find: () => impostor } }))).toEqual(['wrong_key']);
  });

  test('goes through the anchors that were taken before', async () => {
    const hashOf = (seq: number) => JSON.parse(lines[rowLine(seq)] as string).hash as string;
    const anchors = [1, 5, count].map((seq) => ({ seq, hash: hashOf(seq) }));
    expect((await verify(lines, { anchors })).ok).toBe(true);
    expect(named(await verify(lines, { anchors: [{ seq: 5, hash: hashOf(6) }] }))).toEqual([
      'anchor_differs 5',
    ]);
    expect(named(await verify(lines, { anchors: [{ seq: 11, hash: hashOf(6) }] }))).toEqual(['cut_off 10']);
  });

  test('lists a hundred findings, and counts the rest', async () => {
    const many = [...lines.slice(0, -1), ...Array.from({ length: 150 }, () => '{}')];
    const { findings, more } = await verify(many);
    expect(findings).toHaveLength(100);
    expect(more).toBe(51);
  });
});

describe.each(databases)('tampering with the audit log in %s', (_, database) => {
  const atOnce = database === sqlite;
  let stores: Stores;
  beforeAll(async () => {
    stores = await openStores(database);
    await write(stores.store, count, await stores.tenant());
  });
  afterAll(() => stores.close());

  /** What an export shows after somebody did this to the database, which is then put back as it was. */
  async function after(...statements: string[]): Promise<string[]> {
    const tables = ['audit', 'audit_checkpoints', 'audit_key'];
    for (const table of tables) await stores.raw(`create table copy_of_${table} as select * from ${table}`);
    for (const statement of statements) await stores.raw(statement);
    const { store } = await openStore(stores.url, { masters });
    const verdict = await verify(await exportOf(store));
    await store.close();
    for (const table of tables) {
      await stores.raw(`delete from ${table}`);
      await stores.raw(`insert into ${table} select * from copy_of_${table}`);
      await stores.raw(`drop table copy_of_${table}`);
    }
    return named(verdict);
  }

  test('that did not happen is not found', async () => {
    expect(await after()).toEqual([]);
  });

  test('that did not happen is not found while the log goes on within the same second, either', async () => {
    const growing = await openStores(database);
    const goOn = async (entries: NewEntry[]) => {
      await growing.store.audit.write(entries);
      await growing.store.audit.seal(2000);
    };
    await goOn(Array.from({ length: 1500 }, () => entry(1)));
    const lines: string[] = [];
    for await (const line of growing.store.audit.export(start)) {
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

  test('by changing what proves a row', async () => {
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

  test('by making rows change places', async () => {
    const found = await after(
      'update audit set seq = 100 where seq = 4',
      'update audit set seq = 4 where seq = 5',
      'update audit set seq = 5 where seq = 100',
    );
    expect(found).toContain('misplaced_row 4');
  });

  const columns = 'tenant_id, at, actor_id, operation, entity_id, result, entry, mac';
  test('by putting a row in, with a place in the chain, or without one and so sealed like any other', async () => {
    const copy = `insert into audit (id, ${columns}, seq, hash)
      select ${id}, ${columns}, 11, hash from audit where seq = 10`;
    expect(await after(copy)).toEqual(['changed_row 11', 'unsigned_end 11']);
    const waiting = `insert into audit (id, ${columns}) select ${id}, ${columns} from audit where seq = 10`;
    expect(await after(waiting)).toEqual([`foreign_row ${atOnce ? 0 : 11}`]);
    const below = `insert into audit (id, ${columns}, seq) select ${id}, ${columns}, -1 from audit where seq = 10`;
    expect(await after(below)).toEqual(['foreign_row -1']);
  });

  test('by numbers that nothing could follow, which does not keep the service from writing', async () => {
    for (const beyond of [
      'insert into audit_checkpoints (seq, at, hash, signature) select 9223372036854775807, at, hash, signature from audit_checkpoints where seq = 10',
      `insert into audit (id, ${columns}, seq) select ${id}, ${columns}, 9223372036854775807 from audit where seq = 10`,
    ]) {
      const other = await openStores(database);
      await write(other.store, count);
      await other.raw(beyond);
      await write(other.store, 2);
      const verdict = await verify(await exportOf(other.store));
      await other.close();
      expect(verdict.ok).toBe(false);
      expect(verdict.rows).toBeGreaterThanOrEqual(count + 2);
    }
  });

  test('by taking a row away and setting those behind it back: at once on SQLite, elsewhere by an anchor', async () => {
    const other = await openStores(database);
    await write(other.store, count);
    const { seq, hash } = (await other.store.audit.head()) as { seq: number; hash: Uint8Array };
    await other.raw('delete from audit where seq = 4');
    await other.raw('delete from audit_checkpoints where seq >= 4');
    await other.raw('update audit set seq = null, hash = null where seq > 4');
    const lines = await exportOf(other.store);
    await other.close();
    const strays = atOnce ? Array(6).fill('foreign_row 0') : [];
    expect(named(await verify(lines))).toEqual(strays);
    const anchors = [{ seq, hash: Buffer.from(hash).toString('hex') }];
    expect(named(await verify(lines, { anchors }))).toEqual([...strays, `cut_off ${atOnce ? 3 : 9}`]);
  });

  test('by changing a row that waits to be sealed', async () => {
    const again = `insert into audit (id, ${columns}) select id, ${columns} from copy_of_audit where seq = 10`;
    const found = await after(
      'delete from audit where seq = 10',
      'delete from audit_checkpoints where seq = 10',
      again,
      "update audit set result = 'denied' where seq is null",
    );
    expect(found).toEqual([`foreign_row ${atOnce ? 0 : 10}`]);
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

  test('by cutting off its end, if an anchor was taken before', async () => {
    const { hash } = JSON.parse(
      (await exportOf(stores.store)).find((line) => line.includes('"seq":10,')) as string,
    );
    const anchors = [{ seq: 10, hash }];
    await stores.raw('delete from audit where seq > 6');
    await stores.raw('delete from audit_checkpoints where seq > 6');
    const lines = await exportOf(stores.store);
    expect((await verify(lines)).ok).toBe(true);
    expect(named(await verify(lines, { anchors }))).toEqual(['cut_off 6']);
  });

  test('by taking rows away from its end leaves a gap that what comes later does not close', async () => {
    const other = await openStores(database);
    await write(other.store, count);
    await other.raw('delete from audit where seq > 7');
    await other.store.audit.write([entry(count + 1)]);
    const verdict = await verify(await exportOf(other.store));
    await other.close();
    expect(verdict.head).toStartWith(`${count + 1}:`);
    expect(named(verdict)).toEqual(['missing_rows 9', 'missing_rows 10', 'missing_rows 8']);
  });

  test('a new master key leaves old exports to the old one, and makes new ones for itself', async () => {
    const before = await exportOf(stores.store);
    const to = newMasterKey();
    await stores.store.rotateMasterKey({ next: () => to, done: () => {} });
    const renewed = mastersOf(Buffer.from(to.bytes).toString('base64'));
    const { store } = await openStore(stores.url, { masters: renewed });
    const after = await exportOf(store);
    await store.close();
    expect((await verify(before)).ok).toBe(true);
    expect(named(await verify(before, { masters: renewed }))).toEqual(['wrong_key']);
    expect((await verify(after, { masters: renewed })).ok).toBe(true);
    expect(named(await verify(after))).toEqual(['wrong_key']);
  });
});
