/** Does what the README tells a newcomer to do, and expects what it shows. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { type Example, exampleOn, isStatus, take } from './support/pages.ts';
import { root, type Service, startService } from './support/service.ts';
import { noCurl } from './support/skip.ts';
import { databases, testMasterKey } from './support/world.ts';

const under = (heading: string) => exampleOn('README.md', heading);
const statusesIn = ({ steps }: Example) => steps.flatMap(({ shown }) => shown.filter(isStatus));

describe.each(databases)('the README, on %s', (_, database) => {
  let service: Service;

  beforeAll(async () => {
    const fleet = database.name === 'PostgreSQL';
    service = await startService(
      fleet ? { DATABASE_URL: await database.fresh(''), SALLYPORT_MASTER_KEY: testMasterKey } : {},
    );
  });
  afterAll(() => service.close());

  function follow(example: Example): Promise<void> {
    const { url, folder, env } = service;
    const command = `node '${join(root, 'bin/sallyport.mjs')}'`;
    return take(example, {
      folder,
      env,
      instead: { 'http://127.0.0.1:8080': url, 'npx sallyport': command },
    });
  }

  test.skipIf(noCurl)('the first tour answers as it says when it is pasted', async () => {
    const tour = under('A first tour');
    expect(statusesIn(tour)).toContain('409');
    await follow(tour);
  });

  test.skipIf(noCurl)('so does the second, with the helpers of the first', async () => {
    const [helpers] = under('A first tour').steps;
    const tour = under('A second tour');
    expect(statusesIn(tour)).toContain('403');
    await follow({ ...tour, steps: [helpers as Example['steps'][0], ...tour.steps] });
  });

  test('another tenant is made while the service runs', async () => {
    const { steps, files } = under('More tenants');
    expect(steps).toHaveLength(1);
    await follow({ steps, files });
  });
});
