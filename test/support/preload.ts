/** Gives each test file an empty current folder, so that no test reads the project's `data/` or `.env`. */
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'sallyport-cwd-'));
// Some tests run as another user.
chmodSync(folder, 0o755);
process.chdir(folder);
