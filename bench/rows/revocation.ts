/** Under load, counts requests that a revoked key still passes, on every worker and node. */
import { compare, type Effort, underLoad } from '../compare.ts';
import {
  type CreatedApplication,
  type Environment,
  type PreparedService,
  prepareService,
} from '../environment.ts';
import { maxRow, type Row } from '../report.ts';
import { requestBytes, type Service, startService } from '../servers.ts';

const path = '/applications/key';
const constant = (count: number) => ({ median: count, low: count, high: count });

/** Counts responses other than 401 to requests sent after the revocation's response. */
async function lateResponses(
  nodes: readonly Service[],
  until: () => boolean,
): Promise<{ late: number; asked: number }> {
  const [first] = nodes as [Service];
  let [late, asked] = [0, 0];
  const body = { name: 'revoked', type: 'private', permissions: ['application:read'] };
  while (!until()) {
    const { id, key } = await first.call<CreatedApplication>('POST', '/applications', body);
    for (const node of nodes) await node.call('GET', path, undefined, key);
    const node = nodes[asked % nodes.length] as Service;
    if (asked % 2 === 0) await node.call('POST', `/applications/${id}/regenerate`, undefined, first.key);
    else await node.call('DELETE', `/applications/${id}`, undefined, first.key);
    const responses = await Promise.all(
      [...nodes, ...nodes, ...nodes, ...nodes].map(({ url }) =>
        fetch(`${url}${path}`, { headers: { 'SVC-API-KEY': key } }),
      ),
    );
    late += responses.filter(({ status }) => status !== 401).length;
    asked += responses.length + 1;
  }
  return { late, asked };
}

async function underReads(loaded: PreparedService, nodes: readonly Service[], effort: Effort) {
  const plan = { port: loaded.port, requests: [requestBytes('GET', path, loaded.backend.key)], status: 200 };
  let done = false;
  const busy = compare([underLoad('load', loaded.pid, plan)], {
    ...effort,
    rounds: 1,
    seconds: effort.quick ? 1 : 4,
  });
  const found = lateResponses(nodes, () => done);
  await busy;
  done = true;
  return found;
}

export async function revocationRows({ onPostgres }: Environment, effort: Effort): Promise<Row[]> {
  const workers = await prepareService(await startService({ SALLYPORT_WORKERS: '2' }));
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
    maxRow(
      {
        group: 'strictness',
        work: `requests accepted after revocation, ${where} under load`,
        baseline: 'requests sent after the revocation',
        unit: 'late',
        max: 0,
      },
      constant(late),
      constant(asked),
    ),
  );
}
