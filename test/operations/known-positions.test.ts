import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isBehind, type Position } from '../../src/domain/database-position.ts';
import { positionMemory } from '../../src/operations/known-positions.ts';
import { makeLog } from '../../src/telemetry/log.ts';

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
  folder = mkdtempSync(join(tmpdir(), 'sallyport-positions-'));
  [lines, now] = [[], 0];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

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
