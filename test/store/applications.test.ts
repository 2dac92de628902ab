import { describe, expect, test } from 'bun:test';
import { recorder } from '../support/statement-recorder.ts';
import { databases } from '../support/test-server.ts';
import { newApplication, openTestStore } from '../support/test-store.ts';

describe.each(databases)('the store on %s: applications', async (_, database) => {
  const on = await openTestStore(database);

  test('an application whose key cannot be stored is not created', async () => {
    const tenant = await on.tenant();
    const taken = await on.application(tenant);
    const second = newApplication(on.clock.now());
    const creating = on.store.applications.create(tenant, second, taken.key);
    expect(await creating.catch(() => 'refused')).toBe('refused');
    expect(await on.store.applications.get(tenant, second.id)).toBeUndefined();
    expect(await on.store.credentials.find(taken.key)).toMatchObject({ applicationId: taken.id });
  });

  test('memory for the rows of a page is reserved before they are read', async () => {
    const tenant = await on.tenant();
    for (let count = 0; count < 3; count++) await on.application(tenant);
    const asked = recorder();
    const store = await on.openNode(undefined, asked.through);
    const reserved: number[] = [];
    const reserve = (bytes: number) => void reserved.push(bytes);
    const { rows } = await store.applications.list(tenant, {}, { size: 3, page: 1, reserve });
    const bytes = rows.reduce((sum, { rules }) => sum + JSON.stringify(rules).length, 0);
    expect(reserved).toHaveLength(1);
    expect(reserved[0]).toBeGreaterThanOrEqual(4 * bytes);
    asked.take();
    const refuse = () => {
      throw new Error('no memory');
    };
    const refused = store.applications.list(tenant, {}, { size: 3, page: 1, reserve: refuse });
    await expect(refused).rejects.toThrow('no memory');
    const statements = asked.take().map(({ sql }) => sql);
    expect(statements.length).toBeGreaterThan(0);
    expect(statements.filter((sql) => /\br\.permissions\b/.test(sql))).toEqual([]);
  });

  test('a rule that has ended is neither missing after a restore nor brought back', async () => {
    const tenant = await on.tenant();
    const end = new Date(on.clock.now() + 1000).toISOString();
    const rule = (container: string) => ({
      description: undefined,
      conditions: undefined,
      priority: 1,
      container,
      transform: 'mask' as const,
      permissions: ['token:read'],
    });
    const [lasting, ending] = [rule('/a/'), { ...rule('/b/'), expires_at: end }];
    const rules = [lasting, ending];
    const { id } = await on.application(tenant, { rules });
    const entry = (to: object[]) => JSON.stringify({ difference: { rules: { from: [], to } } });
    const revived = async (to: object[]) => {
      const row = { tenant_id: tenant, operation: 'application.update', entity_id: id, result: 'success' };
      return (await on.maintenance.lookUpRevived([{ ...row, entry: entry(to) }])).applications;
    };
    expect(await revived([lasting])).toMatchObject([{ access: { rules: [{ container: '/a/' }] } }]);
    on.clock.advance(1000);
    expect(await revived([lasting])).toEqual([]);
    expect(await revived(rules)).toEqual([]);
    expect(await revived([ending])).toMatchObject([{ access: { rules: [] } }]);
  });
});
