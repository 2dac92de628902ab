/** The work of `GET /access/who` grows with the number of applications, and not faster. */
import { describe, expect, test } from 'bun:test';
import { newId } from '../../../../src/domain/key.ts';
import type { RunSteps } from '../../../../src/domain/steps.ts';
import { runSteps } from '../../../../src/domain/steps.ts';
import { reviewPage } from '../../../../src/http/endpoints/access/review.ts';
import { unknownKey } from '../../../support/keys.ts';
import { databases, openTestServer } from '../../../support/test-server.ts';

const run: RunSteps = async (steps) => runSteps(steps);

describe.each(databases)('the work of an access review on %s', async (_, database) => {
  const server = await openTestServer(database);

  async function tenantWith(count: number): Promise<string> {
    const { id: tenant } = await server.tenant();
    const fields = {
      name: 'x',
      type: 'private' as const,
      rules: [],
      createdBy: undefined,
      expiresAt: undefined,
    };
    for (let index = 0; index < count; index++) {
      const [id, createdAt] = [newId(server.clock.now()), server.clock.now()];
      const application = { ...fields, id, createdAt, permissions: ['token:read'] };
      await server.app.store.applications.create(tenant, application, unknownKey('pvt'));
    }
    return tenant;
  }

  test('each application is read once, in batches between which other requests run', async () => {
    const { store } = server.app;
    for (const count of [150, 300]) {
      const tenantId = await tenantWith(count);
      let [examined, batches, turns, isRunning] = [0, 0, 0, true];
      const countTurns = () => {
        turns++;
        if (isRunning) setImmediate(countTurns);
      };
      setImmediate(countTurns);
      const scan: typeof store.subjects.scan = async (...args) => {
        const batch = await store.subjects.scan(...args);
        examined += batch.examined;
        batches++;
        return batch;
      };
      const counting = { ...store, subjects: { ...store.subjects, scan } };
      const review = { tenantId, permission: 'token:read', resource: { container: '/' } };
      const { totals } = await reviewPage(counting, run, review, 1, 20);
      isRunning = false;
      // All created applications, and the management application of the tenant.
      expect([examined, totals?.mask]).toEqual([count + 1, count + 1]);
      expect(batches).toBe(Math.ceil((count + 1 - 5) / 200) + 2);
      expect(turns).toBeGreaterThanOrEqual(batches);
    }
  });
});
