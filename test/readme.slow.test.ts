/** Pastes the commands of the README and of pages for the same folder into a terminal, and compares the output. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import manifest from '../package.json' with { type: 'json' };
import { type Example, isStatus, readExample, runInTerminal } from './support/page-examples.ts';
import { root, type Service, startService } from './support/service.ts';
import { noCurl } from './support/skip.ts';
import { databases, testMasterKey } from './support/test-server.ts';

const command = `node '${join(root, 'bin/sallyport.mjs')}'`;
const statusesIn = ({ steps }: Example) => steps.flatMap(({ expected }) => expected.filter(isStatus));

test('the README starts with the commands to run and to test', () => {
  const scripts = readExample('README.md', 'Run').steps.concat(readExample('README.md', 'Test').steps);
  expect(scripts.map(({ script }) => script)).toEqual(['npm ci --omit=dev && npm start\n', 'npm test\n']);
  expect(Object.keys(manifest.scripts)).toContainValues(['start', 'test']);
});

describe.each(databases)('pasted into a terminal, on %s,', (_, database) => {
  let service: Service;

  beforeAll(async () => {
    const isPostgres = database.name === 'PostgreSQL';
    service = await startService(
      isPostgres ? { DATABASE_URL: await database.createEmpty(''), SALLYPORT_MASTER_KEY: testMasterKey } : {},
    );
  });

  function follow(example: Example): Promise<void> {
    const { url, folder, env } = service;
    return runInTerminal(example, {
      folder,
      env,
      replacements: { 'http://127.0.0.1:8080': url, 'npx sallyport': command },
    });
  }

  test.skipIf(noCurl())('the tour of the README prints what it shows', async () => {
    const tour = readExample('README.md', 'Tour');
    expect(statusesIn(tour)).toContain('409');
    await follow(tour);
  });

  test.skipIf(noCurl())('the curl guide prints what it shows, also when it is repeated', async () => {
    const guide = readExample('docs/guides/redact-mask-reveal.md');
    expect(statusesIn(guide)).toContain('403');
    for (let run = 0; run < 2; run++) await follow(guide);
  });

  test('a tenant is created while the service runs', async () => {
    const { steps, files } = readExample('docs/operations/tenants.md');
    // Tenants are moved by test/cli/commands/tenants-move.test.ts.
    const created = steps.filter(({ script }) => script.includes('tenants create'));
    expect(created).toHaveLength(1);
    await follow({ steps: created, files });
  });
});
