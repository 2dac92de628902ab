import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Archived, archiveLog } from '../../src/operations/audit-archive.ts';
import { chainAll, exportPaths, verifyFiles } from '../../src/operations/audit-files.ts';
import type { Verdict } from '../../src/store/audit/verify.ts';
import type { Db } from '../../src/store/engine/db.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import { Faults } from '../../torture/crash/faults.ts';
import { entry, masters, named } from '../support/audit-export.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const day = 86_400_000;

describe.each(databases)('an archive of the audit log in %s', (_, database) => {
  let testStore: TestStore;
  let tenant: string;
  let folder: string;
  beforeEach(async () => {
    testStore = await openTestStore(database);
    tenant = await testStore.tenant();
    folder = mkdtempSync(join(tmpdir(), 'sallyport-archive-'));
  });
  afterEach(async () => {
    await testStore.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const files = () => readdirSync(folder).sort();
  const name = (first: number, last: number) => `audit-${tenant}-${first}-${last}.jsonl`;

  /** Writes one entry per day for a tenant, each with a unique request id. */
  async function write(from: number, to: number, tenantId = tenant): Promise<void> {
    const days = Array.from({ length: to - from + 1 }, (_, at) => from + at);
    await testStore.store.audit.write(
      days.map((number) => ({
        ...entry(number, tenantId),
        at: startTime + number * day,
        request_id: `request-${number}`,
      })),
    );
    await chainAll(testStore.maintenance);
  }

  /** Archives the entries from before a day. */
  function archive(
    before: number,
    options: Partial<Parameters<typeof archiveLog>[1]> = {},
  ): Promise<readonly Archived[]> {
    return archiveOn(testStore.maintenance, before, options);
  }

  async function archiveOn(on: Maintenance, before: number, options = {}): Promise<readonly Archived[]> {
    const times = { now: startTime + 1500 * day, before: startTime + before * day };
    return (await archiveLog(on, { folder, ...times, ...options })).archived;
  }

  /** Verifies the database together with the files. */
  async function verifyAll(paths = exportPaths(folder), isPart = paths.length === 0): Promise<Verdict> {
    await chainAll(testStore.maintenance);
    const parts = await testStore.maintenance.audit.export(startTime);
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
    expect(await archive(13)).toEqual([{ chain: tenant, file: name(1, 12), first: 1, last: 12 }]);
    expect(files()).toEqual([name(1, 12)]);
    expect(await listed()).toEqual(numbers(13, 20));
    expect(await listed({ operation: 'application.update' })).toEqual([13, 15, 17, 19]);
    expect(await listed({ request_id: 'request-5' })).toEqual([]);
    const text = readFileSync(join(folder, name(1, 12)), 'utf8');
    expect([...(text.match(/request-\d+/g) ?? [])]).toEqual(
      numbers(1, 12).map((number) => `request-${number}`),
    );
    expect(await verifyAll()).toMatchObject({ ok: true, rows: 21, findings: [], notes: [] });
    const [record] = (await testStore.store.audit.list(tenant, { operation: 'audit.archive' }, { limit: 9 }))
      .entries;
    expect(record).toMatchObject({
      actor: { kind: 'operator' },
      difference: { entries: { from: 1, to: 12 }, file: { to: name(1, 12) } },
    });
  });

  test('continues the previous one, and verification names a missing one', async () => {
    await write(1, 30);
    for (const before of [11, 21, 26]) await archive(before);
    expect(files()).toEqual([name(1, 10), name(11, 20), name(21, 25)]);
    expect(await verifyAll()).toMatchObject({ ok: true, rows: 33 });
    for (const [first, last] of [
      [1, 10],
      [11, 20],
      [21, 25],
    ] as const) {
      const others = exportPaths(folder).filter((path) => !path.endsWith(name(first, last)));
      const { findings } = await verifyAll(others);
      expect(findings).toMatchObject([{ code: 'missing_archive', chain: tenant, row: first, last }]);
      expect(findings[0]?.message).toEndWith(`add ${name(first, last)}`);
    }
    const alone = await verifyAll([]);
    expect(alone).toMatchObject({ ok: true, rows: 8 });
    expect(alone.notes).toEqual([
      `rows 21 to 25 of chain ${tenant} are archived in ${name(21, 25)}`,
      `rows 11 to 20 of chain ${tenant} are archived in ${name(11, 20)}`,
      `rows 1 to 10 of chain ${tenant} are archived in ${name(1, 10)}`,
    ]);
  });

  test('that was changed does not verify with the database', async () => {
    await write(1, 20);
    await archive(11);
    const path = join(folder, name(1, 10));
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace('request-5', 'request-6'));
    expect(named(await verifyAll())).toEqual(['changed_row 5']);
    writeFileSync(path, text.split('\n').toSpliced(5, 1).join('\n'));
    expect(named(await verifyAll())).toContain('missing_rows 5');
  });

  test('of one tenant does not affect the others, and all entries can be archived', async () => {
    const other = await testStore.tenant();
    await write(1, 10, other);
    await write(1, 300);
    await testStore.maintenance.audit.recordHeads('all');
    await archive(2000, { tenantId: tenant });
    expect(files()).toEqual([name(1, 300)]);
    expect(await listed()).toEqual([]);
    expect(await archive(2000, { tenantId: tenant })).toEqual([]);
    const [left] = await testStore.runSql<{ count: number }>(
      `select count(*) as count from audit_index where chain =
       (select number from audit_chains where tenant_id = '${tenant}')`,
    );
    // Only terms of the entry about the archive remain.
    expect(Number(left?.count)).toBeLessThanOrEqual(2);
    await archive(2000);
    expect(files()).toHaveLength(3);
    expect(await verifyAll()).toMatchObject({ ok: true, rows: 314 });
  });

  test('is deleted from the database in small batches', async () => {
    await write(1, 1200);
    const deleted: number[] = [];
    const counting = (db: Db): Db => ({
      ...db,
      transaction: (work) =>
        db.transaction((tx) =>
          work({
            ...tx,
            run: async (sql, params) => {
              const count = await tx.run(sql, params);
              if (sql.startsWith('delete from audit ')) deleted.push(count);
              return count;
            },
          }),
        ),
    });
    const { maintenance } = await testStore.open(undefined, counting);
    await archiveOn(maintenance, 1101);
    expect(Math.max(...deleted)).toBeLessThanOrEqual(250);
    expect(deleted.reduce((sum, count) => sum + count)).toBe(1100);
    expect(await listed({ result: 'failed' })).toEqual(
      numbers(1101, 1200).filter((number) => number % 2 === 0),
    );
    expect(await verifyAll()).toMatchObject({ ok: true, rows: 1201 });
  });

  test('ends with a checkpoint, even if the service replaces the checkpoint during the run', async () => {
    await write(1, 10);
    let grown = false;
    const growing = (db: Db): Db => ({
      ...db,
      get: async <R>(sql: string, params?: Parameters<Db['get']>[1]) => {
        const row = await db.get<R>(sql, params);
        if (!grown && sql.includes('from audit_checkpoints')) {
          grown = true;
          await write(11, 12);
        }
        return row;
      },
    });
    const { maintenance } = await testStore.open(undefined, growing);
    await archiveOn(maintenance, 2000);
    expect(files()).toEqual([name(1, 10), name(11, 12)]);
    expect((await verifyAll()).ok).toBe(true);
  });

  test('stops an export that is reading the entries it deletes', async () => {
    await write(1, 1400);
    const [, part] = await testStore.maintenance.audit.export(startTime);
    const lines = part?.lines()[Symbol.asyncIterator]();
    for (const _ of [1, 2]) await lines?.next();
    await archive(1301);
    await expect(
      Array.fromAsync({ [Symbol.asyncIterator]: () => lines as AsyncIterator<string> }),
    ).rejects.toThrow('deleted while the audit log was read');
  });

  test('loses no entry if the database or the process fails at any step, and the next run completes it', async () => {
    const faults = new Faults();
    const { maintenance } = await testStore.open(undefined, faults.through);
    let written = 0;
    const time = () => ({ now: startTime + written * day });
    const first = (path: string) => Number(/-(\d+)-\d+\.jsonl$/.exec(path)?.[1]);
    /** Verifies the newest files. All others are verified at the end. */
    const verifyAndComplete = async () => {
      const newest = exportPaths(folder).sort((a, b) => first(b) - first(a));
      expect(await verifyAll(newest.slice(0, 3), true)).toMatchObject({ ok: true, findings: [] });
      await archive(written - 4, time());
    };
    for (let step = 1, hit = true; hit; step++) {
      await write(written + 1, written + 6);
      written += 6;
      faults.arm(step % 2 === 0 ? 'down' : 'lost', Math.ceil(step / 2));
      await archiveOn(maintenance, written - 4, time()).catch(() => {});
      hit = faults.disarm().hit;
      await verifyAndComplete();
    }
    expect(written).toBeGreaterThan(6 * 20);
    for (let step = 1, hit = true; hit; step++) {
      await write(written + 1, written + 300);
      written += 300;
      hit = false;
      let left = step;
      const between = async () => {
        left -= 1;
        hit = left === 0;
        if (hit) throw new Error('stopped');
      };
      await archive(written - 4, { between, ...time() }).catch(() => {});
      await verifyAndComplete();
    }
    expect(await verifyAll()).toMatchObject({ ok: true, findings: [] });
    const saved = exportPaths(folder).flatMap(
      (path) => readFileSync(path, 'utf8').match(/request-\d+/g) ?? [],
    );
    const distinct = new Set(saved.map((text) => Number(text.split('-')[1])));
    expect([...distinct].sort((a, b) => a - b)).toEqual(numbers(1, written - 5));
    expect(await listed()).toEqual(numbers(written - 4, written));
    expect(files().filter((file) => file.endsWith('.partial'))).toEqual([]);
  }, 120_000);

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
    const chain = `chain = (select number from audit_chains where tenant_id = '${tenant}')`;
    await testStore.runSql(`update audit set at = at + 1 where seq = 5 and ${chain}`);
    await expect(archive(11)).rejects.toThrow('row 5 was changed');
    await testStore.runSql(`update audit set at = at - 1 where seq = 5 and ${chain}`);
    await testStore.runSql(`delete from audit where seq = 15 and ${chain}`);
    rmSync(folder, { recursive: true });
    await expect(archive(11)).rejects.toThrow();
    const [row] = await testStore.runSql<{ count: number }>(
      `select count(*) as count from audit where ${chain}`,
    );
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
    await restored.store.audit.write(entries);
    await expect(archiveOn(restored.maintenance, 15)).rejects.toThrow('has other entries than the database');
    const heads = await restored.maintenance.audit.heads();
    await other.close();
    expect(heads.map(({ baseSeq }) => baseSeq)).toEqual([0]);
  });
});
