import { beforeEach, describe, expect, test } from 'bun:test';
import { postgres } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe('on PostgreSQL, an idempotent request that runs on one node', () => {
  let on: TestStore;
  beforeEach(async () => {
    on = await openTestStore(postgres);
  });

  test('is rejected on another node while it runs, and replayed there afterwards', async () => {
    const [tenant, node] = [await on.tenant(), await on.openNode()];
    const { id: caller } = await on.application(tenant);
    const request = { caller, application: caller, key: 'the same', request: 'POST /tokens' };
    const reply = { status: 201 };
    for (const each of [on.store, node]) await each.tokens.get(tenant, 'none');
    const elsewhere = () => node.change(tenant, (tx) => tx.idempotency.find(tenant, request));
    const meanwhile = await on.store.change(tenant, async (tx) => {
      expect(await tx.idempotency.find(tenant, request)).toBeUndefined();
      const answer = await elsewhere().catch((error) => error.code);
      await tx.idempotency.save(tenant, request, reply, on.clock.now());
      return answer;
    });
    expect(meanwhile).toBe('idempotency_running');
    expect(await elsewhere()).toEqual(reply);
  });
});
