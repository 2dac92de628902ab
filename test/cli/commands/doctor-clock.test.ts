import { describe, expect, test } from 'bun:test';
import { openDesk } from '../../support/cli.ts';
import { examine } from '../../support/doctor.ts';
import { entry } from '../../support/exports.ts';
import { databases, testMasterKey } from '../../support/test-server.ts';
import { openTestStore } from '../../support/test-store.ts';

describe.each(databases)('the clock that doctor sees on %s', (_, database) => {
  const hour = 3_600_000;
  test.each([
    ['was ahead and was put right', [-2, -1, 24, 25, 0], 'warn'],
    ['was ahead, as far as anybody can tell', [-2, -1, 24, 25], 'fail'],
    ['is behind', [-1, 1, 2, 3, 4, 5, 0], 'fail'],
    ['is behind all that there is', [1, 0], 'fail'],
    ['is right', [-2, -1, 0], 'ok'],
  ])('%s', async (_name, hours, state) => {
    const stores = await openTestStore(database);
    const desk = openDesk(() => ({ SALLYPORT_MASTER_KEY: testMasterKey, DATABASE_URL: stores.url }));
    for (const each of hours) {
      await stores.store.audit.write([{ ...entry(1), at: Date.now() + each * hour }]);
      await stores.maintenance.audit.append(1);
    }
    const clock = (await examine(desk)).checks.find(({ name }) => name === 'clock');
    expect(clock?.state).toBe(state);
    if (state === 'warn') expect(clock?.says).toEndWith(', made while the clock was ahead');
    desk.clear();
    await stores.close();
  });
});
