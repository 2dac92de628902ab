/** Pastes the commands of the README and of pages for the same folder into a terminal, and compares the output. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../package.json' with { type: 'json' };
import { type Example, isStatus, readExample, runInTerminal, type Step } from './support/page-examples.ts';
import { program, root, runBannerCommand, type Service, startService } from './support/service.ts';
import { noCurl } from './support/skip.ts';
import { databases, postgres, testMasterKey } from './support/test-server.ts';

const command = `node '${join(root, 'bin/sallyport.mjs')}'`;
const statusesIn = ({ steps }: Example) => steps.flatMap(({ expected }) => expected.filter(isStatus));

test('the README starts with the commands to run and to test', () => {
  const scripts = readExample('README.md', 'Run').steps.concat(readExample('README.md', 'Test').steps);
  expect(scripts.map(({ script }) => script)).toEqual(['npm ci && npm start\n', 'npm test\n']);
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
  afterAll(() => service.close());

  function follow(example: Example): Promise<void> {
    const { url, folder, env } = service;
    return runInTerminal(example, {
      folder,
      env,
      replacements: { 'http://127.0.0.1:8080': url, 'npx sallyport': command },
    });
  }

  test.skipIf(noCurl)('the tour of the README prints what it shows', async () => {
    const tour = readExample('README.md', 'Tour');
    expect(statusesIn(tour)).toContain('409');
    await follow(tour);
  });

  test.skipIf(noCurl)('the curl guide prints what it shows, also when it is repeated', async () => {
    const guide = readExample('docs/guides/redact-mask-reveal.md');
    expect(statusesIn(guide)).toContain('403');
    for (let run = 0; run < 2; run++) await follow(guide);
  });

  test('PostgreSQL can be tried in the folder of the tour, also when it is repeated', async () => {
    const [step] = readExample('docs/operations/postgresql.md', 'Try it').steps as [Step];
    const key = readFileSync(join(service.folder, 'data/management.key'), 'utf8');
    const script = step.script
      .replace('postgres://user:password@db.example.com/sallyport', await postgres.createEmpty(''))
      .replace('npx sallyport', command)
      .replace('npm start', 'exec "$@"');
    for (let run = 0; run < 2; run++) {
      const node = await startService({}, ['sh', '-e', '-c', script, 'sh', ...program], service.folder);
      expect(await runBannerCommand(node)).toMatchObject({ type: 'management' });
      node.process.kill('SIGTERM');
      await node.process.exited;
    }
    expect(readFileSync(join(service.folder, 'data/management.key'), 'utf8')).toBe(key);
  });

  test('a tenant is created while the service runs', async () => {
    const { steps, files } = readExample('docs/operations/tenants.md');
    expect(steps).toHaveLength(1);
    await follow({ steps, files });
  });
});
