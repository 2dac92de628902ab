/**
 * Gives each test file an empty current folder, so that no test reads the project's `data/` or `.env`. Afterwards
 * cleans up, and reports that the file is done. A process runs several files.
 */
import { afterAll, afterEach, beforeAll, beforeEach } from 'bun:test';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { beginTest, done, endFile, endTest } from './cleanup.ts';

const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'sallyport-cwd-'));
// Some tests run as another user.
chmodSync(folder, 0o755);
process.chdir(folder);

beforeAll(() => process.chdir(folder));
beforeEach(beginTest);
afterEach(endTest);
afterAll(async () => {
  await endFile();
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
  console.error(done + relative(root, Bun.main));
});
