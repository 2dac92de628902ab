/** What was revoked is refused from the next request on, on every process and node, under load in the same run. */
import { contest, type Effort, underLoad } from '../contest.ts';
import { boundRow, type Row } from '../report.ts';
import { type Service, startService, wire } from '../servers.ts';
import { type Created, type Furnished, furnish, type Stage } from '../stage.ts';

const path = '/applications/key';
const still = (count: number) => ({ median: count, low: count, high: count });

/** How many requests with a key were answered after the answer that took it away. */
async function lateAnswers(
  nodes: readonly Service[],
  until: () => boolean,
): Promise<{ late: number; asked: number }> {
  const [first] = nodes as [Service];
  let [late, asked] = [0, 0];
  const body = { name: 'revoked', type: 'private', permissions: ['application:read'] };
  while (!until()) {
    const { id, key } = await first.call<Created>('POST', '/applications', body);
    for (const node of nodes) await node.call('GET', path, undefined, key);
    const node = nodes[asked % nodes.length] as Service;
    if (asked % 2 === 0) await node.call('POST', `/applications/${id}/regenerate`, undefined, first.key);
    else await node.call('DELETE', `/applications/${id}`, undefined, first.key);
    const answers = await Promise.all(
      [...nodes, ...nodes, ...nodes, ...nodes].map(({ url }) =>
        fetch(`${url}${path}`, { headers: { 'SVC-API-KEY': key } }),
      ),
    );
    late += answers.filter(({ status }) => status !== 401).length;
    asked += answers.length + 1;
  }
  return { late, asked };
}

async function underReads(loaded: Furnished, nodes: readonly Service[], effort: Effort) {
  const plan = { port: loaded.port, requests: [wire('GET', path, loaded.backend.key)], status: 200 };
  let done = false;
  const busy = contest([underLoad('load', loaded.pid, plan)], {
    ...effort,
    rounds: 1,
    seconds: effort.quick ? 2 : 4,
  });
  const found = lateAnswers(nodes, () => done);
  await busy;
  done = true;
  return found;
}

export async function strictRows({ onPostgres }: Stage, effort: Effort): Promise<Row[]> {
  const workers = await furnish(await startService({ SALLYPORT_WORKERS: '2' }));
  const second = await startService({
    DATABASE_URL: onPostgres.databaseUrl,
    SALLYPORT_MANAGEMENT_KEY_FILE: onPostgres.keyFile,
  });
  const found = [
    ['two workers on SQLite', await underReads(workers, [workers], effort)],
    ['two nodes on PostgreSQL', await underReads(onPostgres, [onPostgres, second], effort)],
  ] as const;
  await workers.stop();
  await second.stop();
  return found.map(([where, { late, asked }]) =>
    boundRow(
      {
        group: 'strictness',
        work: `answers to a revoked key, ${where} under load`,
        beside: 'requests sent after the revocation',
        unit: 'late',
        most: 0,
      },
      still(late),
      still(asked),
      late,
    ),
  );
}
