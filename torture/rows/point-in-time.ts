/**
 * Restores a base backup and the archived WAL to a point in time: what was revoked after it stays revoked. On Citus, of
 * every server, with tenants on both workers.
 */
import { join } from 'node:path';
import { Client } from '../client.ts';
import type { CitusCluster } from '../crash/citus.ts';
import { Cluster, createFolder } from '../crash/cluster.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { operatorChecks, runCommand } from '../crash/operator.ts';
import { retry503 } from '../fleet-clients.ts';
import { databaseTimeout } from '../retry.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const pointInTime: Row = {
  name: 'point-in-time',
  requirement:
    'PostgreSQL restored from a base backup and its WAL archive to a point in time: refused until an operator accepts the loss, 0 changes before the point lost, and 0 keys valid that were revoked after it',
  databases: ['PostgreSQL', 'Citus'],
  run,
};

interface Made {
  readonly id: string;
  readonly key: string;
  /** The management key of the tenant. */
  readonly owner: string;
}

async function run(context: Context): Promise<Outcome> {
  const count = context.sized(200, 5);
  const distributed = await context.citus();
  const servers = distributed
    ? [...distributed.workers, distributed.coordinator]
    : [await Cluster.make(join(context.folder, 'cluster'))];
  const archives = servers.map((_, at) => join(context.folder, `archive-${at}`));
  for (const [at, server] of servers.entries()) {
    context.defer(() => server.kill());
    await server.kill();
    createFolder(archives[at]!);
    await server.start({ archive_mode: 'on', archive_command: `cp %p ${archives[at]}/%f` });
  }
  const first = servers.at(-1)!;
  const databaseUrl = first.url();
  const program = [await context.executable()];
  const start = () => startNode(context, { databaseUrl, command: program, env: databaseTimeout(context) });
  const failures: string[] = [];

  let node = await start();
  const operate = async (...args: string[]) => {
    const { code, out, err } = await runCommand(context, databaseUrl, [...program, ...args]);
    if (code !== 0) failures.push(`${args.join(' ')} ended with ${code}: ${out}${err}`);
    return out;
  };
  const owners = distributed
    ? await onEachWorker(distributed, () => operate('tenants', 'create', 'x', '--json'))
    : [firstKey(context)];
  context.secrets.addFrom(owners.join(' '));
  const makeMany = async () => {
    const client = new Client(node.url);
    const made: Made[] = [];
    for (const owner of owners)
      for (let number = 0; number < count; number++) {
        const body = { name: 'x', type: 'private', permissions: ['application:read'] };
        const { text } = await retry503(() => client.call('POST', '/applications', { key: owner, body }));
        context.secrets.addFrom(text);
        made.push({ ...JSON.parse(text), owner });
      }
    client.close();
    return made;
  };
  const early = await makeMany();
  const backups = servers.map((_, at) => join(context.folder, `base-${at}`));
  for (const [at, server] of servers.entries()) await server.backUp(backups[at]!);
  const [kept, revoked] = [await makeMany(), await makeMany()];
  await first.sql(`select ${distributed ? 'citus' : 'pg'}_create_restore_point('before')`);
  const client = new Client(node.url);
  for (const { id, owner } of revoked)
    await retry503(() => client.call('DELETE', `/applications/${id}`, { key: owner }));
  client.close();
  const late = await makeMany();
  await beat(node.url);
  await node.stop();
  const log = join(context.folder, 'audit.jsonl');
  await operate('audit', 'export', log);
  for (const server of servers) {
    await archiveAll(server);
    await server.kill();
  }

  for (const [at, server] of servers.entries()) await server.restore(backups[at]!, archives[at]!, 'before');
  const refused = await start().then(
    () => 'the node started',
    ({ message }) => message,
  );
  if (!refused.includes('is behind'))
    failures.push(`a node started with a restored database before the loss was accepted: ${refused}`);
  await operate('recover', '--audit', log, '--revoke', '--yes');
  node = await start();
  const expectStatus = async (what: string, made: readonly { key: string }[], expected: number) => {
    const again = new Client(node.url);
    for (const { key } of made) {
      const { status } = await retry503(() => again.call('GET', '/applications/key', { key }));
      if (status !== expected) failures.push(`a key ${what} got ${status}, not ${expected}`);
    }
    again.close();
  };
  await expectStatus('created before the backup', early, 200);
  await expectStatus('created before the point', kept, 200);
  await expectStatus('revoked after the point', revoked, 401);
  await expectStatus('created after the point', late, 401);
  await node.stop();
  failures.push(...(await operatorChecks(context, databaseUrl, program)));
  return {
    figures: {
      'keys created before the point': 3 * late.length,
      'revoked after it': revoked.length,
      'created after it, lost as accepted': late.length,
    },
    failures: failures.slice(0, 10),
  };
}

/** The management keys of two tenants on different workers. */
async function onEachWorker(cluster: CitusCluster, create: () => Promise<string>): Promise<string[]> {
  const keys = new Map<number, string>();
  while (keys.size < cluster.workers.length) {
    const { tenant_id, key } = JSON.parse(await create());
    for (const port of await cluster.portsOf(tenant_id)) keys.set(port, key);
  }
  return [...keys.values()];
}

/** Waits until the node has increased the beat of the database, by which it notices that a database is behind. */
async function beat(url: string): Promise<void> {
  const read = async () => (await (await fetch(`${url}/livez`)).json()).database.beat as number;
  const before = await read();
  // The first beat may have begun earlier.
  while ((await read()) < before + 2) await Bun.sleep(50);
}

/** Waits until all WAL is archived. */
async function archiveAll(cluster: Cluster): Promise<void> {
  const [last] = await cluster.sql<{ name: string }>('select pg_walfile_name(pg_switch_wal()) as name');
  const archived = `select 1 from pg_stat_archiver where last_archived_wal >= '${last?.name}'`;
  while ((await cluster.sql(archived)).length === 0) await Bun.sleep(20);
}
