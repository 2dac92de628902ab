/** kill -9 while requests are sent to a destination: the audit log has an entry for every request that arrived there. */
import { createUser, json, openReceiver, type Receiver } from '../../test/support/destination-receiver.ts';
import { Client } from '../client.ts';
import { firstKey, type KillableNode, startNode } from '../crash/node.ts';
import { retry503 } from '../fleet-clients.ts';
import type { Random } from '../random.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { mortalDatabase } from './kill.ts';

export const useKill: Row = {
  name: 'use-kill',
  requirement:
    'kill -9 while requests are sent to a destination: each one that arrives has its audit entry, none arrives twice, and no token is used more often than `max_uses`',
  databases: bothDatabases,
  run,
};

/** On PostgreSQL, one in this many kills includes the database. */
const withDatabase = 20;
const racers = 8;
const maxUses = 3;
/** Some nodes are killed after this many answers, others after as many requests have arrived at the destination. */
const most = 6;

async function run(context: Context): Promise<Outcome> {
  const kills = context.sized(150, 6);
  const command = [await context.executable()];
  const { url: databaseUrl, crash } = await mortalDatabase(context);
  const receiver = await openReceiver();
  context.defer(() => receiver.close());
  receiver.answer((socket) => void socket.write(json({ id: 'ch_1' })));
  const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '0' };
  const start = () => startNode(context, { databaseUrl, command, env });
  let node = await start();
  const management = firstKey(context);
  const key = await prepare(node, management, receiver, context);
  const failures: string[] = [];
  let [uses, deletions] = [0, 0];
  for (let killed = 1; killed <= kills; killed++) {
    const code = `code-${killed}`;
    await killWhileSending(node, management, key, code, receiver, context.random);
    if (killed % withDatabase === 0) await crash();
    node = await start();
    const client = new Client(node.url);
    const get = async (path: string) =>
      JSON.parse((await retry503(() => client.call('GET', path, { key: management }))).text);
    const entries: { operation: string; request_id: string }[] = (await get(`/logs?token=${code}&size=100`))
      .data;
    const arrived = receiver.received
      .splice(0)
      .map((text) => /svc-request-id: (\S+)/.exec(text)?.[1] ?? text);
    const entered = entries.filter(({ operation }) => operation === 'token.use');
    const isDeleted = entries.some(({ operation }) => operation === 'token.delete');
    const { uses: counted = maxUses, code: problem } = await get(`/tokens/${code}`);
    for (const id of new Set(arrived))
      if (!entered.some(({ request_id }) => request_id === id))
        failures.push(`${id} arrived without an entry`);
    if (new Set(arrived).size < arrived.length) failures.push(`a request of ${code} arrived twice`);
    if (arrived.length > maxUses) failures.push(`${code} was used ${arrived.length} times`);
    if (entered.length !== counted || isDeleted !== (problem === 'not_found'))
      failures.push(
        `${code} has ${counted} uses and ${entered.length} entries, deleted: ${isDeleted}, ${problem}`,
      );
    uses += arrived.length;
    if (isDeleted) deletions++;
    client.close();
  }
  await node.kill();
  return {
    figures: { kills, 'requests that arrived': uses, 'tokens deleted with their last use': deletions },
    failures: failures.slice(0, 10),
  };
}

/** Creates the destination and returns the key of an application that may use it. */
async function prepare(
  { url }: KillableNode,
  management: string,
  { addressOrigin: origin, ca }: Receiver,
  { secrets }: Context,
): Promise<string> {
  const client = new Client(url);
  const create = async (path: string, body: object) => {
    const { status, text } = await client.call('POST', path, { key: management, body });
    if (status !== 201) throw new Error(`POST ${path} returned ${status}: ${text}`);
    return JSON.parse(text);
  };
  const requests = [{ method: 'POST', path: '/charges', placeholders: [{ at: '/code' }] }];
  const key = await createUser(create, { origin, ca, requests });
  client.close();
  return secrets.add(key);
}

/** Sends requests with one token, and kills the node after some of them were answered or have arrived. */
async function killWhileSending(
  node: KillableNode,
  management: string,
  key: string,
  code: string,
  receiver: Receiver,
  random: Random,
): Promise<void> {
  const client = new Client(node.url);
  const token = { id: code, data: { code: '123' }, max_uses: maxUses };
  const created = await retry503(() => client.call('POST', '/tokens', { key: management, body: token }));
  if (created.status !== 201) throw new Error(`a token was not created: ${created.text}`);
  let answers = 0;
  const sending = Array.from({ length: racers }, (_, racer) =>
    client
      .call('POST', '/proxy/payments/charges', {
        key,
        body: { code: `{{ token: ${code} }}` },
        headers: [`SVC-REQUEST-ID: ${code}-${racer}`],
      })
      .then(
        () => answers++,
        () => {},
      ),
  );
  const all = Promise.all(sending).then(() => 'all' as const);
  const [wanted, byAnswers] = [random.below(most), random.chance(0.5)];
  const isReached = () => (byAnswers ? answers : receiver.received.length) >= wanted;
  while (!isReached()) if ((await Promise.race([all, Bun.sleep(0)])) === 'all') break;
  await node.kill();
  await all;
  client.close();
}
