import { beforeEach, expect, test } from 'bun:test';
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { appendMac, type BackupMac, copyChecked, readMac } from '../../../src/db/keys/backup-mac.ts';
import { newMasterKey } from '../../../src/db/keys/cipher.ts';
import { temporaryFolder } from '../../support/cleanup.ts';

const master = newMasterKey();
const at = Date.parse('2030-01-31T12:00:00.000Z');
let folder: string;
let path: string;
beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, 'backup');
});

function opened<T>(flags: string, work: (file: number) => T, name = path): T {
  const file = openSync(name, flags);
  try {
    return work(file);
  } finally {
    closeSync(file);
  }
}

/** Whether the MAC matches, and the copied bytes. */
function check(key = master): { holds: boolean; copy: Buffer } {
  const copied = join(folder, 'copy');
  const holds = opened('r', (from) =>
    opened('w', (to) => copyChecked(from, to, readMac(from) as BackupMac, key), copied),
  );
  return { holds, copy: readFileSync(copied) };
}

function patch(offset: number): void {
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(offset) ^ 1, offset);
  writeFileSync(path, bytes);
}

const mebibyte = 1024 * 1024;
test.each([1, 4096, mebibyte, mebibyte + 1, 2.5 * mebibyte])(
  'the MAC covers all bytes of a file of %d bytes',
  (size) => {
    const content = Buffer.from(crypto.getRandomValues(new Uint8Array(16)))
      .toString('hex')
      .repeat(size);
    const bytes = Buffer.from(content.slice(0, size));
    writeFileSync(path, bytes);
    const made = opened('r+', (file) => appendMac(file, master, at));
    expect(made).toMatchObject({ taken_at: '2030-01-31T12:00:00.000Z', master_key: master.id, length: size });
    expect(opened('r', readMac)).toEqual(made);
    expect(opened('r', (file) => fstatSync(file).size)).toBe(size + 127);
    const { holds, copy } = check();
    expect(holds).toBe(true);
    expect(copy.equals(bytes)).toBe(true);
    for (const offset of [0, Math.floor(size / 2), size - 1]) {
      patch(offset);
      expect(check().holds).toBe(false);
      patch(offset);
    }
    expect(check({ ...newMasterKey(), id: master.id }).holds).toBe(false);
  },
);

test.each([
  ['an empty file', ''],
  ['a short file', 'x'],
  ['a file without one', 'x'.repeat(5000)],
  ['a MAC alone', `\nsallyport-backup 1 2030-01-31T12:00:00.000Z ${'a'.repeat(16)} ${'b'.repeat(64)}\n`],
  ['another format', `x\nsallyport-backup 2 2030-01-31T12:00:00.000Z ${'a'.repeat(16)} ${'b'.repeat(64)}\n`],
])('%s has no MAC', (_, content) => {
  writeFileSync(path, content);
  expect(opened('r', readMac)).toBeUndefined();
});
