/** Does what the README tells a newcomer to do, and expects what it shows. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, type Service, startService } from './support/service.ts';
import { databases, testMasterKey } from './support/world.ts';

const readme = readFileSync(join(root, 'README.md'), 'utf8');

interface Step {
  readonly script: string;
  /** The output that is shown under it, where `…` stands for anything. */
  readonly shown: readonly string[];
}

function stepsUnder(heading: string): Step[] {
  const section = readme.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?/gs)].map(([, script, shown]) => ({
    script: script as string,
    shown: lines(shown ?? ''),
  }));
}

function lines(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function matching(shown: string) {
  const parts = shown.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return expect.stringMatching(new RegExp(`^${parts.join('.*')}$`));
}

const isStatus = (line: string) => /^\d{3}$/.test(line);

describe.each(databases)('the README, on %s', (_, database) => {
  let service: Service;

  beforeAll(async () => {
    const fleet = database.name === 'PostgreSQL';
    service = await startService(
      fleet ? { DATABASE_URL: await database.fresh(''), SALLYPORT_MASTER_KEY: testMasterKey } : {},
    );
  });
  afterAll(() => service.close());

  /** Runs the steps in one shell, and holds each to what is shown under it. */
  async function take(steps: readonly Step[]): Promise<void> {
    const { url, folder, env } = service;
    const script = steps.map((step, index) => `{\n${step.script}} >${index}.out 2>${index}.err`).join('\n');
    const adapted = script
      .replaceAll('http://127.0.0.1:8080', url)
      .replaceAll('npx sallyport', `node ${join(root, 'bin/sallyport.mjs')}`);
    const shell = Bun.spawn(['sh', '-e', '-c', adapted], { cwd: folder, env, stdin: 'ignore' });
    expect(await shell.exited).toBe(0);
    for (const [index, { shown }] of steps.entries()) {
      const [out, err] = ['out', 'err'].map((end) =>
        lines(readFileSync(join(folder, `${index}.${end}`), 'utf8')),
      );
      expect(err).toEqual(shown.filter(isStatus));
      expect(out).toEqual(shown.filter((line) => !isStatus(line)).map(matching));
    }
  }

  test.skipIf(!Bun.which('curl'))('the first tour answers as it says when it is pasted', async () => {
    const steps = stepsUnder('A first tour');
    expect(steps.flatMap(({ shown }) => shown.filter(isStatus))).toContain('409');
    await take(steps);
  });

  test.skipIf(!Bun.which('curl'))('so does the second, with the helpers of the first', async () => {
    const helpers = stepsUnder('A first tour').slice(0, 1);
    const steps = stepsUnder('A second tour');
    expect(steps.flatMap(({ shown }) => shown.filter(isStatus))).toContain('403');
    await take([...helpers, ...steps]);
  });

  test('another tenant is made while the service runs', async () => {
    const steps = stepsUnder('More tenants');
    expect(steps).toHaveLength(1);
    await take(steps);
  });
});
