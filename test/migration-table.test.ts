/** Sends every request of the table in the migration guide and compares the status. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './support/service.ts';
import { openTestServer, sqlite } from './support/test-server.ts';

const guide = readFileSync(join(root, 'docs/guides/migrate-from-a-hosted-vault.md'), 'utf8');
const rows = [...guide.matchAll(/^\| `([A-Z]+) (\/\S*)(?: (\{.*\}))?` \| (\d{3}) \| (.+) \|$/gm)].map(
  ([, method = '', path = '', body, status, difference = '']) =>
    [method, path, body, Number(status), difference] as const,
);

const server = await openTestServer(sqlite);
const { key } = await server.tenant();

test('every row of the table is recognised', () => {
  const [, table = ''] =
    /^\| request \| status \| difference \|\n\|[-|]+\|\n((?:\|.*\n)+)/m.exec(guide) ?? [];
  expect(rows.length).toBeGreaterThan(10);
  expect(rows).toHaveLength(table.trim().split('\n').length);
});

test.each(rows)('%s %s %s has the status %d: %s', async (method, path, body, status) => {
  const response = await server.call(method, path, { key, ...(body && { body: JSON.parse(body) }) });
  expect(response.status).toBe(status);
});

test('the container of a list with one entry is the one in the response', async () => {
  const { body } = await server.call('POST', '/tokens', { key, body: { data: 'x', containers: ['/pci/'] } });
  expect(body.container).toBe('/pci/');
  expect(body).not.toHaveProperty('containers');
});

test('a page number returns a cursor while more remains', async () => {
  for (let count = 0; count < 2; count++)
    await server.call('POST', '/tokens', { key, body: { data: 'x', container: '/pages/' } });
  const { body } = await server.call('GET', '/tokens?container=/pages/&page=1&size=1', { key });
  expect(body.pagination).toMatchObject({ total_items: 2, total_pages: 2, next: expect.any(String) });
});
