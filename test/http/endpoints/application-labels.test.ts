import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

describe.each(databases)('labels of applications on %s', async (_, database) => {
  const server = await openTestServer(database);

  async function namesIn(key: string, query: string): Promise<string[]> {
    const { status, body } = await server.call('GET', `/applications?${query}`, { key });
    expect(status).toBe(200);
    return body.data.map(({ name }: { name: string }) => name);
  }
  const update = (key: string, id: string, fields: object) =>
    server.call('PUT', `/applications/${id}`, {
      key,
      body: { name: 'shop', permissions: ['token:read'], ...fields },
    });

  test('are returned, unchanged by an update without them, replaced as a whole, and removed', async () => {
    const { key } = await server.tenant();
    const labels = { team: 'shop', env: 'prod' };
    const { id, ...created } = await server.application(key, { labels });
    expect(created.labels).toEqual(labels);
    const current = async () => (await server.call('GET', `/applications/${id}`, { key })).body.labels;
    expect((await update(key, id, {})).body.labels).toEqual(labels);
    expect((await update(key, id, { labels: null })).body.labels).toEqual(labels);
    expect((await update(key, id, { labels: { team: 'toys' } })).body.labels).toEqual({ team: 'toys' });
    expect(await current()).toEqual({ team: 'toys' });
    expect((await update(key, id, { labels: {} })).body).not.toHaveProperty('labels');
    expect(await current()).toBeUndefined();
  });

  test('filter a list, alone and together with other filters', async () => {
    const { key } = await server.tenant();
    const add = (name: string, labels: object, type = 'private') =>
      server.application(key, { name, type, labels });
    const one = await add('one', { team: 'shop', env: 'prod' });
    await add('two', { team: 'shop', env: 'test' });
    await add('three', { team: 'shop', env: 'prod' }, 'public');
    await add('four', { team: 'shop2', env: 'shop' });
    await add('five', {});
    expect(await namesIn(key, 'label[team]=shop')).toEqual(['three', 'two', 'one']);
    expect(await namesIn(key, 'label[team]=Shop')).toEqual([]);
    expect(await namesIn(key, 'label[env]=prod&label[team]=shop')).toEqual(['three', 'one']);
    expect(await namesIn(key, 'label[team]=shop&type=private&name=t')).toEqual(['two']);
    expect(await namesIn(key, `label[team]=shop&id=${one.id}`)).toEqual(['one']);
    expect(await namesIn((await server.tenant()).key, 'label[team]=shop')).toEqual([]);
    await update(key, one.id, { labels: { team: 'toys' } });
    expect(await namesIn(key, 'label[team]=shop')).toEqual(['three', 'two']);
    expect(await namesIn(key, 'label[team]=toys')).toEqual(['shop']);
    await server.call('DELETE', `/applications/${one.id}`, { key });
    expect(await namesIn(key, 'label[team]=toys')).toEqual([]);
  });

  test('a filtered list has pages and totals', async () => {
    const { key } = await server.tenant();
    for (const name of ['a', 'b', 'c', 'd', 'e'])
      await server.application(key, { name, labels: { team: name === 'c' ? 'toys' : 'shop' } });
    const list = async (query: string) =>
      (await server.call('GET', `/applications?label[team]=shop&size=2${query}`, { key })).body;
    const { data, pagination } = await list('');
    expect(pagination).toMatchObject({ total_items: 4, total_pages: 2 });
    const next = await list(`&start=${pagination.next}`);
    expect([...data, ...next.data].map(({ name }) => name)).toEqual(['e', 'd', 'b', 'a']);
    expect(next.pagination.next).toBeUndefined();
    expect((await list('&page=2')).data).toEqual(next.data);
  });

  test('are in the audit log', async () => {
    const { key } = await server.tenant();
    const { id } = await server.application(key, { labels: { team: 'shop' } });
    await update(key, id, { labels: { team: 'toys' } });
    const { body } = await server.call('GET', '/logs?size=2', { key });
    expect(body.data.map(({ difference }: { difference: object }) => difference)).toMatchObject([
      { labels: { from: { team: 'shop' }, to: { team: 'toys' } } },
      { labels: { to: { team: 'shop' } } },
    ]);
  });

  test('are removed with their application', async () => {
    const { key, id: tenant } = await server.tenant();
    const { id } = await server.application(key, { labels: { team: 'shop' } });
    const count = async () => {
      const sql = `select count(*) as count from application_labels where tenant_id = '${tenant}'`;
      const [row] = await runSql<{ count: number }>(server.config.databaseUrl, sql);
      return Number(row?.count);
    };
    expect(await count()).toBe(1);
    await server.call('DELETE', `/applications/${id}`, { key });
    await server.flush();
    expect(await count()).toBe(0);
  });

  test('are validated by name', async () => {
    const { key } = await server.tenant();
    const body = {
      name: 'x',
      type: 'private',
      permissions: ['token:read'],
      labels: { team: 'a b', Env: 'x' },
    };
    const { status, body: problem } = await server.call('POST', '/applications', { key, body });
    expect([status, Object.keys(problem.errors).toSorted()]).toEqual([400, ['labels.Env', 'labels.team']]);
  });
});
