import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { genesis, type Head, systemTenant } from '../../src/audit/records.ts';
import { newMasterKey } from '../../src/db/keys/cipher.ts';
import { restoreOperation } from '../../src/domain/audit.ts';
import { entry, exportOf, masters, named, verify, write } from '../support/audit-export.ts';
import { sqlite } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const count = 6;

describe('an export of the audit log', async () => {
  const testStore = await openTestStore(sqlite);
  const tenant = await testStore.tenant();
  await write(testStore, 4, tenant);
  await write(testStore, count - 4, tenant);
  await testStore.maintenance.audit.recordHeads('all');
  const lines: string[] = await exportOf(testStore);
  /** An export of the tenant's chain alone. */
  const chain: string[] = await exportOf(testStore, tenant);

  const kinds = (of = lines) => of.map((line) => JSON.parse(line).kind);
  const withLine = (at: number, line: string) => lines.with(at, line);
  const entryLine = (seq: number) =>
    chain.findIndex((line) => line.startsWith(`{"kind":"entry","seq":${seq},`));

  test('verifies, and the verdict has the ends of the chains', async () => {
    const verdict = await verify(lines);
    expect(verdict).toMatchObject({ ok: true, entries: count + 1, segments: 3, findings: [], notes: [] });
    expect(verdict.chains).toEqual([
      {
        chain: 'system',
        first: 1,
        last: 1,
        latest_at: expect.any(String),
        entries: 1,
        segments: 1,
        anchor: expect.stringMatching(/^system:1:/),
      },
      {
        chain: tenant,
        first: 1,
        last: 2,
        latest_at: expect.any(String),
        entries: count,
        segments: 2,
        anchor: expect.stringContaining(`${tenant}:2:`),
      },
    ]);
    expect(await verify(chain)).toMatchObject({ ok: true, entries: count });
  });

  test('of an empty log verifies', async () => {
    const empty = await openTestStore(sqlite);
    const verdict = await verify(await exportOf(empty));
    await empty.close();
    expect(verdict).toMatchObject({ ok: true, entries: 0 });
    expect(verdict.chains[0]?.anchor).toBe(`system:0:${genesis.hash}`);
  });

  test('a change of any field of any line is found', async () => {
    const fields = lines.flatMap((line, at) =>
      Object.keys(JSON.parse(line)).map((field) => [at, field] as const),
    );
    const values = fc.oneof(fc.string(), fc.integer(), fc.constant(null), fc.constant(true));
    for (const [at, field] of fields) {
      const before = JSON.parse(lines[at] as string);
      const others = fc.sample(values, { numRuns: 2, seed: at }).filter((value) => value !== before[field]);
      for (const value of [...near(before[field]), ...others]) {
        const verdict = await verify(withLine(at, JSON.stringify({ ...before, [field]: value })));
        expect({ at, field, value, ok: verdict.ok }).toEqual({ at, field, value, ok: false });
        const well = before.kind === 'entry' && field !== 'kind' && typeof value === typeof before[field];
        if (well && !['seq', 'mac'].includes(field))
          expect(named(verdict)).toEqual([`changed_entry ${before.seq}`]);
      }
    }
  });

  /** Values that differ slightly from the given one. */
  function near(value: unknown): unknown[] {
    if (typeof value === 'number') return [value + 1, value - 1, -1 - value, String(value)];
    if (typeof value === 'string')
      return [`${value}x`, value.slice(0, -1), value.toUpperCase(), `0${value.slice(1)}`].filter(
        (other) => other !== value,
      );
    return ['', 0];
  }

  test('a change of any byte is found', async () => {
    const file = Buffer.from(lines.join('\n'));
    const flip = fc.tuple(fc.nat(file.length - 1), fc.integer({ min: 1, max: 255 }));
    await fc.assert(
      fc.asyncProperty(flip, async ([at, bits]) => {
        const other = Buffer.from(file);
        other[at] = (other[at] as number) ^ bits;
        expect((await verify(other.toString().split('\n'))).ok).toBe(false);
      }),
      { numRuns: 200 },
    );
  });

  test('an extra field, an extra line and another notation are found', async () => {
    for (const [at, line] of lines.entries()) {
      expect((await verify(withLine(at, line.replace(/}$/, ',"more":1}')))).ok).toBe(false);
      expect((await verify(withLine(at, line.replace(',"', ', "')))).ok).toBe(false);
      expect((await verify(lines.toSpliced(at, 0, line))).ok).toBe(false);
    }
  });

  test('every removed line is found', async () => {
    for (const [at, kind] of kinds().entries()) {
      const verdict = await verify(lines.toSpliced(at, 1));
      expect(verdict.ok).toBe(false);
      if (kind === 'entry') expect(named(verdict).join()).toContain('changed_segment');
    }
  });

  test('two swapped entries are found, with their numbers or without', async () => {
    for (let seq = 1; seq < count; seq++) {
      const [first, second] = [entryLine(seq), entryLine(seq + 1)];
      const [a, b] = [chain[first] as string, chain[second] as string];
      expect((await verify(chain.with(first, b).with(second, a))).ok).toBe(false);
      const numbered = (line: string, number: number) => line.replace(/"seq":\d+/, `"seq":${number}`);
      const disguised = chain.with(first, numbered(b, seq)).with(second, numbered(a, seq + 1));
      expect(named(await verify(disguised)).join()).toContain('changed_segment');
    }
  });

  test('truncation at any line is found', async () => {
    for (let length = 1; length < lines.length; length++)
      expect(named(await verify(lines.slice(0, length))).join()).toContain('cut_off');
    expect(named(await verify([]))).toEqual(['damaged_file']);
    const text = lines.join('\n');
    expect((await verify(text.slice(0, -1).split('\n'))).ok).toBe(false);
  });

  test('a line of another export is found', async () => {
    const other = await openTestStore(sqlite);
    const id = await other.tenant();
    await write(other, count, id);
    const foreign = await exportOf(other, id);
    await other.close();
    expect(named(await verify([...chain.slice(0, -1), foreign.at(-1) as string]))).toContain('damaged_file');
    const mark = kinds(chain).indexOf('segment');
    const { previous } = JSON.parse(chain[mark] as string);
    const forged = JSON.stringify({ ...JSON.parse(foreign[mark] as string), previous });
    expect(named(await verify(chain.with(mark, forged)))).toContain('changed_segment 1');
    const verdict = await verify([foreign[0] as string, ...chain.slice(1)]);
    expect(named(verdict)).toContain('changed_entry 1');
    expect(verdict.findings.length).toBeGreaterThan(count);
    const moved = chain.with(0, (chain[0] as string).replace(tenant, id));
    expect(named(await verify(moved))).toContain('changed_entry 1');
  });

  test('needs all of its chains', async () => {
    const start = kinds().lastIndexOf('header');
    expect(named(await verify(lines.slice(0, start)))).toEqual(['cut_off', 'cut_off']);
    expect(named(await verify(lines.slice(start)))).toEqual(['cut_off']);
    expect(named(await verify([...lines, ...lines.slice(start)]))).toContain('cut_off');
  });

  test('needs the master key of the database', async () => {
    const another = { ...masters, find: () => undefined };
    expect(named(await verify(chain, { masters: another }))).toEqual(['wrong_key']);
    const impostor = { ...newMasterKey(), id: masters.current().id };
    expect(named(await verify(chain, { masters: { find: () => impostor } }))).toEqual(['wrong_key']);
  });

  test.each([
    [
      'which names the end of the log that it replaced',
      { audit_head: { from: '8:00', to: '3:00' } },
      [4, 5, 6, 8],
    ],
    ['which could not tell what it replaced', { audit_head: { to: '3:00' } }, [4, 5, 6, 8, 9]],
  ])('a restore, %s, explains only the anchors that it invalidates', async (_, difference, accounted) => {
    const restored = await openTestStore(sqlite);
    for (let segment = 1; segment <= 3; segment++) await write(restored, 2);
    await restored.store.audit.write([{ ...entry(4), operation: restoreOperation, difference }]);
    await restored.maintenance.audit.seal();
    for (let segment = 5; segment <= 6; segment++) await write(restored, 2);
    const after = await exportOf(restored);
    await restored.close();
    const laid = async (seq: number) => {
      const { findings } = await verify(after, {
        anchors: [{ tenantId: systemTenant, number: seq, hash: '' }],
      });
      expect(findings).toHaveLength(1);
      return findings[0]?.message.endsWith(
        '; segment 4 records that the database was restored from a backup',
      );
    };
    const found = await Promise.all(
      [1, 2, 3, 4, 5, 6, 8, 9].map(async (seq) => ((await laid(seq)) ? [seq] : [])),
    );
    expect(found.flat()).toEqual(accounted);
  });

  test('matches anchors that were taken before', async () => {
    const short = await openTestStore(sqlite);
    await write(short, 5);
    const [anchor] = (await short.maintenance.audit.heads()) as Head[];
    for (let segment = 2; segment <= 4; segment++) await write(short, 5);
    const exported = await exportOf(short);
    await short.close();
    const found = async (changed: Partial<Head>) =>
      named(await verify(exported, { anchors: [{ ...(anchor as Head), ...changed }] }));
    expect(await found({})).toEqual([]);
    expect(await found({ number: 2 })).toEqual(['anchor_differs 2']);
    expect(await found({ number: 11 })).toEqual(['cut_off 4']);
    expect(await found({ tenantId: tenant })).toEqual(['cut_off']);
  });

  test('at most a hundred findings are listed, and the rest are counted', async () => {
    const many = [...lines.slice(0, -1), ...Array.from({ length: 150 }, () => '{}')];
    const { findings, more } = await verify(many);
    expect(findings).toHaveLength(100);
    expect(more).toBeGreaterThan(40);
  });
});
