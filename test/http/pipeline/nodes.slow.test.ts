/** Nodes in separate processes. `nodes.test.ts` has several in one process. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { temporaryFolder } from '../../support/cleanup.ts';
import { type NodeProcess, startNode } from '../../support/start-node.ts';
import { databases } from '../../support/test-server.ts';

const times = <T>(count: number, make: (at: number) => T) =>
  Array.from({ length: count }, (_, at) => make(at));

describe.each(databases)('three processes on one %s', (_, database) => {
  let folder: string;
  let processes: NodeProcess[];
  beforeAll(async () => {
    folder = temporaryFolder();
    const url = await database.createEmpty(folder);
    processes = await Promise.all(times(3, () => startNode(url)));
  });
  afterAll(async () => {
    await Promise.all(processes.map((process) => process.stop()));
  });

  async function call(at: number, path: string, key: string, body?: object) {
    const { url } = processes[at % processes.length] as NodeProcess;
    const response = await fetch(url + path, {
      method: path === '/applications/key' ? 'GET' : 'POST',
      headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : undefined };
  }

  test('create one tenant on an empty database, and authorize a nonce once', async () => {
    const keys = processes.map((process) => process.managementKey()).filter((key) => key !== undefined);
    expect(keys).toHaveLength(1);
    const key = keys[0] as string;
    const web = await call(0, '/applications', key, { name: 'web', type: 'public', permissions: ['mine:x'] });
    for (let round = 0; round < 3; round++) {
      const { body } = await call(round, '/sessions', web.body.key);
      const grant = { nonce: body.nonce, permissions: ['application:read'] };
      const answers = await Promise.all(times(50, (index) => call(index, '/sessions/authorize', key, grant)));
      const statuses = answers.map(({ status }) => status).sort();
      expect(statuses).toEqual([204, ...Array(49).fill(409)]);
      const seen = await Promise.all(times(3, (index) => call(index, '/applications/key', body.session_key)));
      expect(seen.map(({ status }) => status)).toEqual([200, 200, 200]);
    }
  });
});
