import { expect, test } from 'bun:test';
import { compilePolicy } from '../../../src/domain/policy.ts';
import type { Principal } from '../../../src/domain/principal.ts';
import { maxUses } from '../../../src/domain/usage.ts';
import { usageRecorder } from '../../../src/http/pipeline/usage-recorder.ts';
import type { ApplicationUse } from '../../../src/store/store.ts';
import { principalBase } from '../../support/grants.ts';

const principal: Principal = {
  ...principalBase,
  kind: 'session',
  tenantId: 'tenant',
  applicationId: 'web',
  sessionId: 'session',
  authorizedBy: undefined,
  policy: compilePolicy({ permissions: [], rules: [] }),
  ceiling: undefined,
  authority: { applicationId: 'backend', keyId: 'key' },
  now: 1000,
};

async function written(note: (noted: ReturnType<typeof usageRecorder>) => void): Promise<ApplicationUse[]> {
  const all: ApplicationUse[] = [];
  const write = async (some: readonly ApplicationUse[]) => {
    all.push(...some);
  };
  const noted = usageRecorder({ usage: { write } });
  note(noted);
  await noted.flush();
  return all;
}

test('containers in memory are bounded, with their latest use', async () => {
  const [backend] = await written((noted) => {
    for (let at = 0; at < 10_000; at++)
      noted.record({ ...principal, now: at }, 'token:create', `/customers/${at}/`);
  });
  const places = backend!.permissions.get('token:create')!;
  expect(places.size).toBeLessThanOrEqual(100);
  expect(Math.max(...places.values())).toBe(9999);
});

test('uses in memory are bounded', async () => {
  const [backend] = await written((noted) => {
    for (let at = 0; at < 20_000; at++)
      noted.record({ ...principal, now: at }, `invoice:action-${at % 2000}`, `/customers/${at}/`);
  });
  const places = [...backend!.permissions.values()].reduce((sum, moments) => sum + moments.size, 0);
  expect(places).toBeLessThanOrEqual(2 * maxUses);
  expect(backend!.permissions.has('invoice:action-1999')).toBe(true);
});

test('an earlier time does not replace a later one', async () => {
  const [backend, web] = await written((noted) => {
    for (const now of [2000, 1000]) noted.record({ ...principal, now }, 'token:read', '/a/');
  });
  expect([web!.at, backend!.at, backend!.keys.get('key')?.at]).toEqual([2000, 2000, 2000]);
  expect(backend!.permissions.get('token:read')).toEqual(new Map([['/a/', 2000]]));
});

test('uses are written once', async () => {
  const counts: number[] = [];
  const noted = usageRecorder({ usage: { write: async (some) => void counts.push(some.length) } });
  noted.request(principal);
  await noted.flush();
  await noted.flush();
  expect(counts).toEqual([2]);
});

test('requests are counted by key, also after a failed write; uses of permissions are not requests', async () => {
  const written: ApplicationUse[] = [];
  let isAvailable = false;
  const write = async (some: readonly ApplicationUse[]) => {
    if (!isAvailable) throw new Error('unavailable');
    written.push(...some);
  };
  const noted = usageRecorder({ usage: { write } });
  const request = (now: number) => noted.request({ ...principal, now }, 'application:read');
  for (const now of [1000, 2000]) request(now);
  noted.record({ ...principal, now: 3000 }, 'token:read', '/a/');
  await expect(noted.flush()).rejects.toThrow('unavailable');
  request(2500);
  isAvailable = true;
  await noted.flush();
  expect(written[0]!.keys).toEqual(new Map([['key', { at: 3000, days: new Map([[0, 3]]) }]]));
});

test('a request counts for its own day, also if it is written after midnight', async () => {
  const day = 86_400_000;
  const [backend] = await written((noted) => {
    for (const now of [day - 2, day - 1, day, day - 1]) noted.request({ ...principal, now });
  });
  const days = new Map([
    [0, 3],
    [1, 1],
  ]);
  expect(backend!.keys).toEqual(new Map([['key', { at: day, days }]]));
});
