/** Does what the README tells a newcomer to do, and expects what it shows, in the order of a terminal. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Example, isStatus, readExample, runInTerminal } from './support/page-examples.ts';
import { program, root, runBannerCommand, type Service, startService } from './support/service.ts';
import { noCurl } from './support/skip.ts';
import { databases, postgres, testMasterKey } from './support/test-server.ts';

const under = (heading: string) => readExample('README.md', heading);
const statusesIn = ({ steps }: Example) => steps.flatMap(({ expected }) => expected.filter(isStatus));

describe.each(databases)('the README, on %s', (_, database) => {
  let service: Service;

  beforeAll(async () => {
    const fleet = database.name === 'PostgreSQL';
    service = await startService(
      fleet ? { DATABASE_URL: await database.createEmpty(''), SALLYPORT_MASTER_KEY: testMasterKey } : {},
    );
  });
  afterAll(() => service.close());

  function follow(example: Example): Promise<void> {
    const { url, folder, env } = service;
    const command = `node '${join(root, 'bin/sallyport.mjs')}'`;
    return runInTerminal(example, {
      folder,
      env,
      replacements: { 'http://127.0.0.1:8080': url, 'npx sallyport': command },
    });
  }

  test.skipIf(noCurl)('the first tour prints what it shows', async () => {
    const tour = under('A first tour');
    expect(statusesIn(tour)).toContain('409');
    await follow(tour);
  });

  test.skipIf(noCurl)('the second tour prints what it shows, also when it is repeated', async () => {
    const [helpers] = under('A first tour').steps;
    const tour = under('A second tour');
    expect(statusesIn(tour)).toContain('403');
    const steps = [helpers as Example['steps'][0], ...tour.steps];
    for (let run = 0; run < 2; run++) await follow({ ...tour, steps });
  });

  test('the PostgreSQL section works after the tours in the same folder, also when it is repeated', async () => {
    const [step] = under('On PostgreSQL').steps;
    const key = readFileSync(join(service.folder, 'data/management.key'), 'utf8');
    const script = (step as Example['steps'][0]).script
      .replace('postgres://user:password@db.example.com/sallyport', await postgres.createEmpty(''))
      .replace('npx sallyport', `node '${join(root, 'bin/sallyport.mjs')}'`)
      .replace('npm start', 'exec "$@"');
    for (let run = 0; run < 2; run++) {
      const node = await startService({}, ['sh', '-e', '-c', script, 'sh', ...program], service.folder);
      expect(await runBannerCommand(node)).toMatchObject({ type: 'management' });
      node.process.kill('SIGTERM');
      await node.process.exited;
    }
    expect(readFileSync(join(service.folder, 'data/management.key'), 'utf8')).toBe(key);
  });

  test('another tenant is made while the service runs', async () => {
    const { steps, files } = under('More tenants');
    expect(steps).toHaveLength(1);
    await follow({ steps, files });
  });
});
