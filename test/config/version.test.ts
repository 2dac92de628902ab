import { beforeEach, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build, commitOf, version } from '../../src/config/version.ts';
import { newestSchema } from '../../src/db/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

const commit = '0123456789abcdef0123456789abcdef01234567';

test.each<[string, Record<string, string>]>([
  ['a branch', { '.git/HEAD': 'ref: refs/heads/a/b\n', '.git/refs/heads/a/b': `${commit}\n` }],
  ['a commit', { '.git/HEAD': `${commit}\n` }],
  [
    'a branch in packed-refs',
    {
      '.git/HEAD': 'ref: refs/heads/main\n',
      '.git/packed-refs': `# pack-refs with: peeled\nf${commit.slice(1)} refs/heads/other/refs/heads/main\n${commit} refs/heads/main\n`,
    },
  ],
  [
    'a second work tree',
    {
      '.git': 'gitdir: repository/worktrees/two\n',
      'repository/worktrees/two/HEAD': 'ref: refs/heads/two\n',
      'repository/worktrees/two/commondir': '../..\n',
      'repository/refs/heads/two': `${commit}\n`,
    },
  ],
])('the commit is found if %s is checked out', (_, files) => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  expect(commitOf(folder)).toBe(commit);
});

test('a folder that is not a repository has no commit', () => {
  expect(commitOf(folder)).toBeUndefined();
});

test('/readyz and the metrics show the version with its commit, and the schema', async () => {
  expect(build()).toMatch(new RegExp(`^${version}(\\+[0-9a-f]{12})?$`));
  const server = await openTestServer(sqlite, { SALLYPORT_METRICS_PORT: '0' });
  const { body } = await server.call('GET', '/readyz');
  expect(body).toEqual({ status: 'ok', version: build(), schema: newestSchema });
  const text = await (await fetch(server.app.metricsUrl as string)).text();
  expect(text).toContain(`sallyport_build_info{version="${build()}",schema="${newestSchema}",bun="`);
});
