import { beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportPaths, verifyFiles } from '../../src/audit/files.ts';
import type { Archived, ArchiveOptions, Verdict } from '../../src/audit/proof.ts';
import type { Db } from '../../src/db/db.ts';
import { boundOf } from '../../src/db/statement.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import { Faults } from '../../torture/crash/faults.ts';
import { entry, masters, named } from '../support/audit-export.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { databases, sqlite, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const day = 86_400_000;

describe.each(databases)('an archive of the audit log in %s', (_, database) => {
  let testStore: TestStore;
  let tenant: string;
  let folder: string;
  beforeEach(async () => {
    testStore = await openTestStore(database);
    tenant = await testStore.tenant();
    folder = temporaryFolder();
  });

  const files = () => readdirSync(folder).sort();
  const name = (first: number, last: number) => `audit-${tenant}-${first}-${last}.jsonl`;

  /** Writes one segment per day for a tenant, with one entry that has a unique request id. */
  async function write(from: number, to: number, tenantId = tenant): Promise<void> {
    for (let number = from; number <= to; number++) {
      const at = startTime + number * day;
      await testStore.store.audit.write([
        { ...entry(number, tenantId), at, request_id: `request-${number}` },
      ]);
      await testStore.maintenance.audit.seal();
    }
  }

  /** Archives the entries from before a day. */
  function archive(before: number, options: Partial<ArchiveOptions> = {}): Promise<readonly Archived[]> {
    return archiveOn(testStore.maintenance, before, options);
  }

  async function archiveOn(on: Maintenance, before: number, options = {}): Promise<readonly Archived[]> {
    const times = { now: startTime + 1500 * day, before: startTime + before * day };
    return (await on.audit.archive({ folder, ...times, ...options })).archived;
  }

  /** Verifies the database together with the files. */
  async function verifyAll(paths = exportPaths(folder), isPart = paths.length === 0): Promise<Verdict> {
    await testStore.maintenance.audit.seal();
    const parts = await testStore.maintenance.audit.parts(startTime);
    return verifyFiles(paths, { masters, archives: isPart ? 'optional' : 'required' }, parts);
  }

  /** The numbers of the entries that the log lists. */
  async function listed(filter = {}): Promise<number[]> {
    const { entries } = await testStore.store.audit.list(tenant, filter, { limit: 1000 });
    const ids = entries.flatMap(({ request_id }) => request_id ?? []);
    return ids.map((id) => Number(id.split('-')[1])).reverse();
  }

  const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);

  test('contains the old entries, which are then deleted from the database', async () => {
    await write(1, 20);
    expect(await archive(13)).toEqual([
      { chain: tenant, file: name(1, 12), first: 1, last: 12, entries: 12 },
    ]);
    expect(files()).toEqual([name(1, 12)]);
    expect(await listed()).toEqual(numbers(13, 20));
    expect(await listed({ operation: 'application.update' })).toEqual([13, 15, 17, 19]);
    expect(await listed({ request_id: 'request-5' })).toEqual([]);
    const text = readFileSync(join(folder, name(1, 12)), 'utf8');
    expect([...(text.match(/request-\d+/g) ?? [])]).toEqual(
      numbers(1, 12).map((number) => `request-${number}`),
    );
    expect(await verifyAll()).toMatchObject({ ok: true, entries: 21, findings: [], notes: [] });
    const [record] = (await testStore.store.audit.list(tenant, { operation: 'audit.archive' }, { limit: 9 }))
      .entries;
    expect(record).toMatchObject({
      actor: { kind: 'operator' },
      difference: { segments: { from: 1, to: 12 }, file: { to: name(1, 12) } },
    });
  });

  test('continues the previous one, and verification names a missing one', async () => {
    await write(1, 30);
    for (const before of [11, 21, 26]) await archive(before);
    expect(files()).toEqual([name(1, 10), name(11, 20), name(21, 25)]);
    expect(await verifyAll()).toMatchObject({ ok: true, entries: 33 });
    for (const [first, last] of [
      [1, 10],
      [11, 20],
      [21, 25],
    ] as const) {
      const others = exportPaths(folder).filter((path) => !path.endsWith(name(first, last)));
      const { findings } = await verifyAll(others);
      expect(findings).toMatchObject([{ code: 'missing_archive', chain: tenant, segment: first, last }]);
      expect(findings[0]?.message).toEndWith(`add ${name(first, last)}`);
    }
    const alone = await verifyAll([]);
    expect(alone).toMatchObject({ ok: true, entries: 8 });
    expect(alone.notes).toEqual([
      `segments 21 to 25 of chain ${tenant} are archived in ${name(21, 25)}`,
      `segments 11 to 20 of chain ${tenant} are archived in ${name(11, 20)}`,
      `segments 1 to 10 of chain ${tenant} are archived in ${name(1, 10)}`,
    ]);
  });

  test('that was changed does not verify with the database', async () => {
    await write(1, 20);
    await archive(11);
    const path = join(folder, name(1, 10));
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace('request-5', 'request-6'));
    expect(named(await verifyAll())).toEqual(['changed_entry 5']);
    writeFileSync(path, text.split('\n').toSpliced(9, 2).join('\n'));
    expect(named(await verifyAll())).toContain('missing_segments 5');
  });

  test('of one tenant does not affect the others, and all entries can be archived', async () => {
    const other = await testStore.tenant();
    await write(1, 10, other);
    await write(1, 30);
    await testStore.maintenance.audit.recordHeads('all');
    await archive(2000, { tenantId: tenant });
    expect(files()).toEqual([name(1, 30)]);
    expect(await listed()).toEqual([]);
    expect(await archive(2000, { tenantId: tenant })).toEqual([]);
    const [left] = await testStore.runSql<{ count: number }>(
      `select count(*) as count from audit_index where tenant_id = '${tenant}'`,
    );
    // Only terms of the entry about the archive remain.
    expect(Number(left?.count)).toBeLessThanOrEqual(2);
    await archive(2000);
    expect(files()).toHaveLength(3);
    expect(await verifyAll()).toMatchObject({ ok: true, entries: 44 });
  });

  test('is deleted from the database with one statement per segment and table', async () => {
    await write(1, 12);
    const deleted: string[] = [];
    const counting = (db: Db): Db => ({
      ...db,
      transaction: (work) =>
        db.transaction((tx) =>
          work({
            ...tx,
            run: (statement) => {
              const table = /^delete from (audit_(?:segments|index))/.exec(boundOf(statement)[0])?.[1];
              if (table) deleted.push(table);
              return tx.run(statement);
            },
          }),
        ),
    });
    const { maintenance } = await testStore.open(undefined, counting);
    await archiveOn(maintenance, 7);
    expect(deleted).toEqual(numbers(1, 6).flatMap(() => ['audit_segments', 'audit_index']));
    expect(await listed({ result: 'failed' })).toEqual(numbers(7, 12).filter((number) => number % 2 === 0));
    expect(await verifyAll()).toMatchObject({ ok: true, entries: 13 });
  });

  test('stops an export that is reading the entries it deletes', async () => {
    await write(1, 40);
    const exported = await testStore.maintenance.audit.export(startTime, tenant);
    const lines = exported?.lines[Symbol.asyncIterator]();
    for (const _ of [1, 2]) await lines?.next();
    await archive(31);
    await expect(
      Array.fromAsync({ [Symbol.asyncIterator]: () => lines as AsyncIterator<string> }),
    ).rejects.toThrow('deleted while the audit log was read');
  });

  test('loses no entry if the database or the process fails at any step, and the next run completes it', async () => {
    const faults = new Faults();
    const { maintenance } = await testStore.open(undefined, faults.through);
    const perStep = 2;
    let written = 0;
    const time = () => ({ now: startTime + written * day });
    const first = (path: string) => Number(/-(\d+)-\d+\.jsonl$/.exec(path)?.[1]);
    /** Verifies the newest files. All others are verified at the end. */
    const verifyAndComplete = async () => {
      const newest = exportPaths(folder).sort((a, b) => first(b) - first(a));
      expect(await verifyAll(newest.slice(0, 3), true)).toMatchObject({ ok: true, findings: [] });
      await archive(written - 2, time());
    };
    for (let step = 1, hit = true; hit; step++) {
      await write(written + 1, written + perStep);
      written += perStep;
      // The other database gets the other kind of fault at this step.
      faults.arm((step % 2 === 0) === (database === sqlite) ? 'down' : 'lost', step);
      await archiveOn(maintenance, written - 2, time()).catch(() => {});
      hit = faults.disarm().hit;
      await verifyAndComplete();
    }
    expect(written).toBeGreaterThan(perStep * 20);
    for (let step = 1, hit = true; hit; step++) {
      await write(written + 1, written + perStep);
      written += perStep;
      hit = false;
      let left = step;
      const between = async () => {
        left -= 1;
        hit = left === 0;
        if (hit) throw new Error('stopped');
      };
      await archive(written - 2, { between, ...time() }).catch(() => {});
      await verifyAndComplete();
    }
    expect(await verifyAll()).toMatchObject({ ok: true, findings: [] });
    const saved = exportPaths(folder).flatMap(
      (path) => readFileSync(path, 'utf8').match(/request-\d+/g) ?? [],
    );
    const distinct = new Set(saved.map((text) => Number(text.split('-')[1])));
    expect([...distinct].sort((a, b) => a - b)).toEqual(numbers(1, written - 3));
    expect(await listed()).toEqual(numbers(written - 2, written));
    expect(files().filter((file) => file.endsWith('.partial'))).toEqual([]);
  });

  test('includes entries that were written while the clock was fast', async () => {
    await write(1, 10);
    await write(50_000, 50_000);
    await write(11, 20);
    await archive(16, { now: startTime + 100 * day });
    expect(files()).toEqual([name(1, 16)]);
    expect(await listed()).toEqual(numbers(16, 20));
    expect((await verifyAll()).ok).toBe(true);
  });

  test('is not created from a chain that does not verify', async () => {
    await write(1, 20);
    const where = (number: number) => `tenant_id = '${tenant}' and number = ${number}`;
    await testStore.runSql(`update audit_segments set failures = failures + 1 where ${where(5)}`);
    await expect(archive(11)).rejects.toThrow('the signature of segment 5 is invalid');
    await testStore.runSql(`update audit_segments set failures = failures - 1 where ${where(5)}`);
    await testStore.runSql(`delete from audit_segments where ${where(6)}`);
    rmSync(folder, { recursive: true });
    await expect(archive(11)).rejects.toThrow();
    const [row] = await testStore.runSql<{ count: number }>('select count(*) as count from audit_segments');
    expect(Number(row?.count)).toBe(19);
  });

  test('from before a restore of the database is not continued', async () => {
    await write(1, 20);
    await archive(11);
    const other = await openTestStore(database);
    const keys = await testStore.runSql<{ wrapped: Uint8Array }>('select wrapped from audit_key');
    const hex = Buffer.from(keys[0]?.wrapped as Uint8Array).toString('hex');
    await other.runSql(
      `update audit_key set wrapped = ${database.name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`}`,
    );
    const restored = await other.open();
    const entries = Array.from({ length: 20 }, (_, at) => ({
      ...entry(at, tenant),
      at: startTime + at * day,
    }));
    for (const one of entries) {
      await restored.store.audit.write([one]);
      await restored.maintenance.audit.seal();
    }
    await expect(archiveOn(restored.maintenance, 15)).rejects.toThrow('has other entries than the database');
    const bases = await other.runSql<{ base: number }>('select base_number as base from audit_chains');
    await other.close();
    expect(bases.map(({ base }) => Number(base))).toEqual([0]);
  });
});
