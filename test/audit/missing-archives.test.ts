/** Verification names missing archives if signed entries mention them, and otherwise the missing entries. */

import { beforeEach, describe, expect, test } from 'bun:test';
import { exportPaths, verifyFiles } from '../../src/audit/files.ts';
import type { Verdict } from '../../src/audit/proof.ts';
import { entry, masters } from '../support/audit-export.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const day = 86_400_000;

describe.each(databases)('missing archives of the audit log in %s', (_, database) => {
  let on: TestStore;
  let tenant: string;
  let folder: string;
  beforeEach(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    folder = temporaryFolder();
    await write(1, 10, tenant);
    // On the next day, so that the next archive contains the entry about this archive.
    await archive(11);
    await write(11, 20, tenant);
    await archive(21);
    await write(21, 30, tenant);
    await archive(31);
  });

  /** Writes a segment with one entry per day. */
  async function write(from: number, to: number, tenantId: string): Promise<void> {
    const days = Array.from({ length: to - from + 1 }, (_, at) => from + at);
    await on.store.audit.write(
      days.map((number) => ({ ...entry(number, tenantId), at: startTime + number * day })),
    );
    await on.maintenance.audit.seal();
    on.clock.advance(startTime + to * day - on.clock.now());
    await on.maintenance.audit.recordHeads('all');
    await on.maintenance.audit.seal();
  }

  async function archive(before: number): Promise<void> {
    const now = startTime + before * day;
    await on.maintenance.audit.archive({ folder, now, before: now });
  }

  const name = (first: number, last: number) => `audit-${tenant}-${first}-${last}.jsonl`;
  const without = (...names: string[]) =>
    exportPaths(folder).filter((path) => !names.some((one) => path.endsWith(one)));
  const found = ({ findings }: Verdict) =>
    findings.map(({ code, chain, message }) => `${code} ${chain === tenant ? 'tenant' : chain} ${message}`);

  const verifyFolder = (...missing: string[]) => verifyFiles(without(...missing), { masters });
  async function verifyWithDatabase(...missing: string[]): Promise<Verdict> {
    await on.maintenance.audit.seal();
    return verifyFiles(without(...missing), { masters }, await on.maintenance.audit.parts(startTime));
  }

  test('are not reported if all files are given', async () => {
    expect(exportPaths(folder).map((path) => path.slice(folder.length + 1))).toEqual(
      expect.arrayContaining([name(1, 1), name(2, 3), name(4, 5)]),
    );
    const archives = await verifyFolder();
    expect(found(archives)).toEqual([]);
    expect(archives.notes).toEqual([
      expect.stringMatching(/^entries after the last segment of each chain, /),
    ]);
    expect(archives.chains).toContainEqual(expect.objectContaining({ chain: tenant, first: 1, last: 5 }));
    expect(found(await verifyWithDatabase())).toEqual([]);
  });

  test('are named by the entries about them, and not merged into files that never existed', async () => {
    const [first, second, third] = [name(1, 1), name(2, 3), name(4, 5)];
    const missing = (segments: string, todo: string) => `missing_archive tenant ${segments} archived${todo}`;
    expect(found(await verifyWithDatabase(first))).toEqual([missing('segment 1 is', `: add ${first}`)]);
    expect(found(await verifyWithDatabase(second))).toEqual([
      missing('segments 2 to 3 are', `: add ${second}`),
    ]);
    expect(found(await verifyWithDatabase(first, second))).toEqual([
      missing('segments 2 to 3 are', `: add ${second}`),
      missing('segment 1 is', `: add ${second}, which names the next file`),
    ]);
    expect(found(await verifyWithDatabase(first, second, third))).toEqual([
      missing('segments 4 to 5 are', `: add ${third}`),
      missing('segments 1 to 3 are', `: add ${third}, which names the next file`),
    ]);
  });

  test('of a whole tenant, or its newest ones, are found by the archive of the system chain', async () => {
    const whole = await verifyFolder(name(1, 1), name(2, 3), name(4, 5));
    expect(whole.ok).toBe(false);
    expect(whole.findings).toMatchObject([{ code: 'missing_archive', chain: tenant, segment: 1, last: 5 }]);
    expect(whole.findings[0]?.message).toMatch(
      /^segments 1 to 5, which segment \d+ of the system chain mentions, are not in these files: add the archives, or pass --database$/,
    );
    expect((await verifyFolder(name(4, 5))).findings).toMatchObject([
      { code: 'missing_archive', chain: tenant, segment: 4, last: 5 },
    ]);
  });
});
