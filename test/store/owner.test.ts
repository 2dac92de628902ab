import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createOwned, makeLike } from '../../src/store/owner.ts';
import { openSqlite } from '../../src/store/sqlite.ts';

describe('a link in the folder of the service', () => {
  let folder: string;
  let target: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-owner-'));
    target = join(folder, 'target');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('in place of the lock is refused, and what it points to is not made', () => {
    const database = join(folder, 'sallyport.db');
    symlinkSync(target, `${database}-lock`);
    expect(() => openSqlite(database, Date.now)).toThrow(/-lock is a link/);
    expect(existsSync(target)).toBe(false);
  });

  test('is not followed to make a file, nor to give one its mode', () => {
    const link = join(folder, 'link');
    symlinkSync(target, link);
    expect(createOwned(link)).toBe(false);
    expect(existsSync(target)).toBe(false);
    const old = join(folder, 'old');
    writeFileSync(old, '', { mode: 0o644 });
    writeFileSync(target, '', { mode: 0o600 });
    expect(() => makeLike(old, link)).toThrow();
    expect(statSync(target).mode & 0o777).toBe(0o600);
  });
});
