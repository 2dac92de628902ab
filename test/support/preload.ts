/** Before each test file: the current folder is a new, empty one, so that no test sees `data/` or `.env` of the project. */
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'sallyport-cwd-'));
// Some tests act as another user.
chmodSync(folder, 0o755);
process.chdir(folder);
