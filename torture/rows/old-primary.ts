/** An old primary runs again after a failover, and a standby is promoted that lacks changes: nodes must use neither. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from '../crash/cluster.ts';
import { startNode } from '../crash/node.ts';
import { runCommand } from '../crash/operator.ts';
import { NotFinished } from '../not-finished.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const oldPrimary: Row = {
  name: 'old-primary',
  requirement:
    'primary frozen, standby promoted, keys revoked, old primary runs again, new primary and a node restarted, then a standby promoted that lacks changes: 0 revoked keys valid, 0 created keys lost, and the loss is accepted only by an operator; a new node refuses the old primary with young, old and no rows of nodes, and a restored copy until `recover`; without its witness a node does not start, but continues',
  databases: ['PostgreSQL'],
  run,
};

/** Milliseconds. While a server is frozen, every search for a server takes this long. */
const timeout = '2000';

async function run(context: Context): Promise<Outcome> {
  const { first, second, third } = await openClusters(context);
  const hosts = [first, second, third].map(({ port }) => `127.0.0.1:${port}`).join();
  const databaseUrl = `postgres://postgres@${hosts}/postgres`;
  const command = [await context.executable()];
  const dataOf = (node: number) => join(context.folder, `data-${node}`);
  const witness = join(context.folder, 'witness');
  writeFileSync(witness, '');
  let fresh = 10;
  const failures: string[] = [];
  const start = (node: number) =>
    startNode(context, {
      databaseUrl,
      command,
      env: {
        SALLYPORT_DATABASE_TIMEOUT: timeout,
        SALLYPORT_DATA_DIR: dataOf(node),
        SALLYPORT_WITNESS: witness,
      },
    });
  /** A node with an empty data folder must exit for this reason before it listens. */
  const expectRefusal = async (
    when: string,
    reason: string,
    env: Record<string, string>,
    url = databaseUrl,
  ) => {
    const own = { SALLYPORT_DATABASE_TIMEOUT: timeout, SALLYPORT_DATA_DIR: dataOf(fresh++), ...env };
    const said = await startNode(context, { databaseUrl: url, command, env: own }).then(
      () => 'it started',
      (error) => {
        if (error instanceof NotFinished) throw error;
        return (error as Error).message;
      },
    );
    if (!said.includes(reason)) failures.push(`a new node, ${when}: ${said}`);
  };
  const nodes = [await start(0), await start(1), await start(2)];
  const management = context.secrets.add((await Bun.file(join(dataOf(0), 'management.key')).text()).trim());
  const call = async (node: number, method: string, path: string, key: string, body?: object) => {
    const response = await fetch(`${nodes[node]?.url}${path}`, {
      method,
      headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: response.status === 204 ? undefined : await response.json() };
  };
  /** Repeats the request until the machine is fast enough for the timeout. */
  const change = async (...[method, path, body]: [method: string, path: string, body?: object]) => {
    for (;;) {
      const answer = await call(0, method, path, management, body);
      if (answer.status !== 503) return answer;
    }
  };
  const create = async () => {
    const fields = { name: 'x', type: 'private', permissions: ['application:read'] };
    const { body } = await change('POST', '/applications', fields);
    return { id: body.id as string, key: context.secrets.add(body.key as string) };
  };
  const times = async <T>(count: number, work: () => Promise<T>) => {
    const made: T[] = [];
    while (made.length < count) made.push(await work());
    return made;
  };
  /** Waits until all nodes have found a server. */
  const untilServed = async () => {
    for (const node of nodes.keys())
      while ((await call(node, 'GET', '/applications/key', management)).status !== 200) await Bun.sleep(20);
  };
  const beatsOf = () =>
    Promise.all(nodes.map(async ({ url }) => (await (await fetch(`${url}/livez`)).json()).database));
  /** Waits until every node has seen changes that were made before. */
  const afterBeat = async (timeline: number) => {
    const before = Math.max(...(await beatsOf()).map(({ beat }) => beat));
    while ((await beatsOf()).some((each) => each.timeline < timeline || each.beat <= before))
      await Bun.sleep(50);
  };
  let asked = 0;
  /** Sends a request with each key to each node, and adds a failure for each other status. */
  const expectStatus = async (when: string, applications: readonly { key: string }[], expected: number) => {
    for (const { key } of applications)
      for (const node of nodes.keys()) {
        let status: number;
        // A slow machine may exceed the timeout.
        do ({ status } = await call(node, 'GET', '/applications/key', key));
        while (status === 503 && expected !== 503);
        asked++;
        if (status !== expected)
          failures.push(`${when}: node ${node} responded with ${status}, not ${expected}`);
      }
  };

  const count = context.sized(80, 3);
  const outcome = () => ({
    figures: { 'keys revoked': count, 'keys created': count, requests: asked },
    failures: failures.slice(0, 10),
  });
  const revoked = await times(count, create);
  // Nodes write their address a second after they listen.
  while ((await first.sql('select 1 from nodes where url is null')).length > 0) await Bun.sleep(50);
  first.freeze();
  await second.promote();
  await untilServed();
  const created = await times(count, create);
  for (const { id } of revoked) await change('DELETE', `/applications/${id}`);
  await afterBeat(2);
  while (!(await Bun.file(witness).text()).includes('"timeline":2')) await Bun.sleep(50);
  first.unfreeze();
  await second.kill();
  await expectStatus('only the old primary runs', [...revoked, ...created], 503);
  await expectRefusal('rows of nodes are young', 'is behind', {});
  await first.sql('update nodes set seen_at = seen_at - 3600000');
  await expectRefusal('rows of nodes are old', 'is behind', {});
  await first.sql('delete from nodes');
  await expectRefusal('without rows, with a witness', 'is behind', { SALLYPORT_WITNESS: witness });
  const nowhere = { SALLYPORT_WITNESS: `${witness}-nowhere` };
  await expectRefusal('with an unreachable witness', 'SALLYPORT_WITNESS cannot be read', nowhere);
  await nodes[2]?.stop();
  const refused = await start(2).then(
    () => 'the node started',
    ({ message }) => message,
  );
  if (!refused.includes('is behind')) failures.push(`a node was restarted with the old primary: ${refused}`);
  // A node that uses a server that is behind never sees what the next steps wait for.
  if (failures.length > 0) return outcome();
  nodes.pop();
  await second.start();
  nodes.push(await start(2));
  rmSync(witness);
  await untilServed();
  await expectStatus('both primaries run', revoked, 401);
  await expectStatus('both primaries run', created, 200);
  await afterBeat(2);

  await Promise.all([first.kill(), second.kill()]);
  await third.promote();
  await expectStatus('a standby without the changes was promoted', [...revoked, ...created], 503);
  if (failures.length > 0) return outcome();
  const recover = [...command, 'recover', '--yes'];
  const recovered = await runCommand(context, databaseUrl, recover, { SALLYPORT_DATA_DIR: dataOf(0) });
  if (recovered.code !== 0) failures.push(`the loss could not be accepted: ${recovered.err}`);
  await untilServed();
  await afterBeat(2);
  await second.start();
  await third.kill();
  await expectStatus('only a server from before the loss runs', created, 503);
  for (const node of nodes) await node.stop();
  await third.start();
  await third.sql('create database restored template postgres', 'template1');
  const copy = third.url('restored');
  await expectRefusal('with a restored copy', 'restored or copied', {}, copy);
  const accepted = await runCommand(context, copy, recover, { SALLYPORT_DATA_DIR: dataOf(fresh) });
  if (accepted.code !== 0) failures.push(`the copy could not be accepted: ${accepted.err}`);
  const env = { SALLYPORT_DATABASE_TIMEOUT: timeout, SALLYPORT_DATA_DIR: dataOf(fresh) };
  await startNode(context, { databaseUrl: copy, command, env });
  return outcome();
}

/** A primary with a synchronous standby and an asynchronous one. */
async function openClusters(context: Context): Promise<Record<'first' | 'second' | 'third', Cluster>> {
  const first = await Cluster.make(join(context.folder, 'first'));
  context.defer(() => first.kill());
  await first.start();
  const follow = async (name: string) => {
    const standby = await first.copy(join(context.folder, name));
    context.defer(() => standby.kill());
    await standby.start();
    return standby;
  };
  const [second, third] = [await follow('second'), await follow('third')];
  await first.waitForStandby();
  return { first, second, third };
}
