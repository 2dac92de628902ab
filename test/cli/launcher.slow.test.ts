import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostileFiles, runInHostileFolder } from '../support/hostile-folder.ts';
import { root } from '../support/service.ts';

const folder = mkdtempSync(join(tmpdir(), 'sallyport-launcher-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('bin/sallyport.mjs runs no code of the current folder, its parents or the home folder:', () => {
  const launcher = ['node', join(root, 'bin/sallyport.mjs')];
  const env = { PATH: String(process.env.PATH) };

  test.each(Object.keys(hostileFiles))('%s', async (file) => {
    for (const printed of await runInHostileFolder(folder, file, launcher, env))
      expect(printed).toStartWith('sallyport: error: no key was given');
  });
});
