import { beforeEach, describe, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isBehind, type Position } from '../../src/domain/database-position.ts';
import { positionMemory, witnessFile } from '../../src/operations/known-positions.ts';
import { makeLog } from '../../src/telemetry/log.ts';
import { temporaryFolder } from '../support/cleanup.ts';

const installation = '0190f5fe-7c00-7a00-8aba-000000000001';
const at = (beat: number, timeline = 1, era = 0): Position => ({ installation, era, timeline, beat });

let folder: string;
let lines: string[];
let now: number;
const open = () => {
  const log = makeLog({ level: 'info', asText: false, now: () => 0, write: (line) => lines.push(line) });
  return positionMemory(join(folder, 'data', 'positions.json'), log, () => now);
};
beforeEach(() => {
  folder = temporaryFolder();
  [lines, now] = [[], 0];
});

test.each<[found: Position, seen: Position, behind: boolean]>([
  [at(5), at(5), false],
  [at(6), at(5), false],
  [at(4), at(5), true],
  [at(9, 1), at(5, 2), true],
  [at(4, 2), at(5, 1), true],
  [at(5, 2), at(5, 1), false],
  [at(1, 1, 1), at(5, 2, 0), false],
  [at(9, 9, 0), at(1, 1, 1), true],
  [{ ...at(1), installation: '0190f5fe-7c00-7a00-8aba-000000000002' }, at(5), false],
])('%j is behind %j: %p', (found, seen, behind) => {
  expect(isBehind(found, seen)).toBe(behind);
});

test('the newest position is known after a restart, for each database, and an older one does not replace it', async () => {
  const other = { ...at(3), installation: '0190f5fe-7c00-7a00-8aba-000000000002' };
  const memory = open();
  memory.saw(at(5), 'db1:5432');
  memory.saw(at(4), 'db1:5432');
  expect(memory.current()).toEqual(at(4));
  memory.saw(other, 'db2:5432');
  const again = open();
  expect(await again.newest()).toEqual([other, at(5)]);
  expect(again.current()).toBeUndefined();
  const connected = lines.map((line) => JSON.parse(line)).map(({ message, host }) => [message, host]);
  expect(connected).toEqual([['connected to another database server', 'db2:5432']]);
});

test('a node asks the others for their positions, also after a restart, and not again for five seconds', async () => {
  let asked = 0;
  const answers: unknown[] = [at(7), { installation, era: 'x' }, undefined];
  const nodes = answers.map((database) =>
    Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => {
        asked++;
        return Response.json({ status: 'ok', database });
      },
    }),
  );
  open().setNodes([...nodes.map(({ url }) => String(url)), 'http://127.0.0.1:1/']);
  const memory = open();
  expect(await memory.newest()).toEqual([at(7)]);
  now += 4999;
  await memory.newest();
  expect(asked).toBe(3);
  now += 1;
  await memory.newest();
  expect(asked).toBe(6);
  for (const node of nodes) await node.stop(true);
});

test('a file that cannot be read or written is reported once', async () => {
  mkdirSync(join(folder, 'data'));
  writeFileSync(join(folder, 'data', 'positions.json'), '{');
  open();
  rmSync(join(folder, 'data'), { recursive: true });
  writeFileSync(join(folder, 'data'), '');
  const memory = open();
  memory.saw(at(5), 'db1:5432');
  memory.saw(at(6), 'db1:5432');
  expect(await memory.newest()).toEqual([at(6)]);
  const warnings = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 'warn');
  expect(warnings.map(({ message }) => message)).toEqual([
    'could not read the position of the database',
    'could not store the position of the database',
  ]);
});

describe('the witness', () => {
  const path = () => join(folder, 'witness');
  const witness = (isOptional = false) => {
    const log = makeLog({ level: 'info', asText: false, now: () => 0, write: (line) => lines.push(line) });
    return witnessFile(path(), isOptional, log, () => now);
  };

  test('tells a node that has never seen the database what others have seen, five seconds later', async () => {
    writeFileSync(path(), '');
    const [writer, reader] = [witness(), witness()];
    expect(await reader.newest()).toEqual([]);
    await writer.saw(at(5));
    await writer.saw(at(6));
    expect(await witness().newest()).toEqual([at(5)]);
    now += 5000;
    await writer.saw(at(7));
    expect(await reader.newest()).toEqual([at(7)]);
    expect(
      await positionMemory(
        join(folder, 'data', 'new'),
        makeLog({ level: 'silent' }),
        () => now,
        reader,
      ).newest(),
    ).toEqual([at(7)]);
    expect(readdirSync(folder)).toEqual(['witness']);
  });

  test('never has an older position in place of a newer one', async () => {
    writeFileSync(path(), JSON.stringify([at(9, 2)]));
    await witness().saw(at(20, 1));
    expect(await witness().newest()).toEqual([at(9, 2)]);
    await witness().saw(at(1, 1, 1));
    expect(await witness().newest()).toEqual([at(1, 1, 1)]);
  });

  test('must be readable at the start, even if empty, unless it is optional; later failures are logged', async () => {
    await expect(witness().newest()).rejects.toThrow('SALLYPORT_WITNESS cannot be read');
    expect(await witness(true).newest()).toEqual([]);
    writeFileSync(path(), 'no JSON');
    await expect(witness().newest()).rejects.toThrow('SALLYPORT_WITNESS cannot be read');
    writeFileSync(path(), JSON.stringify([at(5)]));
    lines = [];
    const running = witness();
    await running.newest();
    rmSync(path());
    now += 5000;
    expect(await running.newest()).toEqual([at(5)]);
    await running.saw(at(6));
    expect(readdirSync(folder)).toEqual([]);
    writeFileSync(path(), '');
    now += 5000;
    await running.saw(at(6));
    const logged = lines.map((line) => JSON.parse(line)).map(({ level, message }) => [level, message]);
    expect(logged).toEqual([
      ['warn', 'the witness cannot be used'],
      ['info', 'the witness can be used again'],
    ]);
  });
});
