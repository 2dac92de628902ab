import { describe, expect, test } from 'bun:test';
import { entry } from '../../support/audit-export.ts';
import { openCli } from '../../support/cli.ts';
import { runDoctor } from '../../support/doctor.ts';
import { databases, testMasterKey } from '../../support/test-server.ts';
import { openTestStore } from '../../support/test-store.ts';

describe.each(databases)('doctor on %s: the clock', (_, database) => {
  const hour = 3_600_000;
  test.each([
    ['was fast and is corrected', [-2, -1, 24, 25, 0], 'warn'],
    ['is slow, or was fast before', [-2, -1, 24, 25], 'fail'],
    ['is slow', [-1, 1, 2, 3, 4, 5, 0], 'fail'],
    ['is behind all entries', [1, 0], 'fail'],
    ['is correct', [-2, -1, 0], 'ok'],
  ])('%s', async (_name, hours, state) => {
    const testStore = await openTestStore(database);
    const cli = openCli(() => ({ SALLYPORT_MASTER_KEY: testMasterKey, DATABASE_URL: testStore.url }));
    for (const each of hours) {
      await testStore.store.audit.write([{ ...entry(1), at: Date.now() + each * hour }]);
      await testStore.maintenance.audit.seal();
    }
    const clock = (await runDoctor(cli)).checks.find(({ name }) => name === 'clock');
    expect(clock?.state).toBe(state);
    if (state === 'warn') expect(clock?.message).toEndWith(', written while the clock was fast');
  });
});
