/** Deletes an application with very many sessions, and kills every node before all rows are removed. */
import { openStore } from '../../src/store/open.ts';
import { generousTimeout, testMasterKey } from '../../test/support/test-server.ts';
import { masterKeys, runSql } from '../../test/support/test-store.ts';
import { Client, type ClientResponse, type RequestOptions } from '../client.ts';
import { firstKey, type KillableNode, startNode } from '../crash/node.ts';
import { type Body, retry503 } from '../fleet-clients.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { Filler } from '../worst/fill.ts';

export const deleteWhileLarge: Row = {
  name: 'delete-while-large',
  requirement:
    'an application with 200,000 sessions is deleted: 204 at the first attempt, its keys are invalid on every node from then on, its rows are deleted in the background, also across kill -9, and no other caller is denied',
  databases: bothDatabases,
  run,
};

/** Sessions whose keys this row knows. */
const known = 6;

async function run(context: Context): Promise<Outcome> {
  const count = context.sized(200_000, 20_000);
  const databaseUrl = await context.freshDatabase();
  const failures: string[] = [];
  const first = new Nodes(context, databaseUrl);
  await first.start();
  const owner = firstKey(context);
  const web: Body = await first.must('POST', '/applications', { key: owner, body: application('public') });
  const other: Body = await first.must('POST', '/applications', { key: owner, body: application('private') });
  const keys = [web.key as string];
  for (let made = 0; made < known; made++) {
    const session: Body = await first.must('POST', '/sessions', { key: web.key });
    const body = { nonce: session.nonce, permissions: ['application:read'] };
    await first.must('POST', '/sessions/authorize', { key: owner, body });
    keys.push(session.session_key);
  }
  await new Filler(databaseUrl, context.database.name).sessions(web.tenant_id, web.id, count);
  const before = await first.statuses(keys);
  if (before.some((status) => status !== 200)) failures.push(`before: ${before}`);

  const bystander = watch(first, other.key);
  const deleted = await first.call(0, 'DELETE', `/applications/${web.id}`, { key: owner });
  const leftAtOnce = await left(databaseUrl, web.id);
  if (deleted.status !== 204) failures.push(`the DELETE was answered with ${deleted.status}`);
  if (deleted.status === 204 && leftAtOnce === 0) failures.push('it was answered after all rows were gone');
  await refusedEverywhere(first, 'after the answer');
  await sweepSome(databaseUrl, context.sized(50, 5));
  const refusals = await bystander.stop();
  await first.kill();
  const leftWhenKilled = await left(databaseUrl, web.id);

  const second = new Nodes(context, databaseUrl);
  await second.start();
  await refusedEverywhere(second, 'after the restart');
  const later = watch(second, other.key);
  const remaining = await cleanedUp(context, databaseUrl, web.id, leftWhenKilled);
  const laterRefusals = await later.stop();
  if (remaining > 0) failures.push(`${remaining} sessions were left`);
  const gone = await second.call(0, 'GET', `/applications/${web.id}`, { key: owner });
  if (gone.status !== 404) failures.push(`the application was answered with ${gone.status}`);
  const others = refusals + laterRefusals;
  if (others > 0) failures.push(`${others} requests of another caller were refused`);
  return {
    figures: {
      sessions: count + known,
      'left after the answer': leftAtOnce,
      'left when killed': leftWhenKilled,
      'left at the end': remaining,
      'requests of others refused': others,
    },
    failures,
  };

  async function refusedEverywhere(nodes: Nodes, when: string): Promise<void> {
    const statuses = await nodes.statuses(keys);
    const odd = statuses.filter((status) => status !== 401);
    if (odd.length > 0)
      failures.push(`${when}: ${odd.length} of ${statuses.length} were answered with ${odd[0]}`);
  }
}

function application(type: string): object {
  return { name: 'an application', type, permissions: ['application:read'] };
}

/** Sessions of the application that are still in the table. */
async function left(databaseUrl: string, id: string): Promise<number> {
  const sql = `select count(*) as count from sessions where application_id = '${id}'`;
  const [row] = await runSql<{ count: unknown }>(databaseUrl, sql);
  return Number(row?.count);
}

const batchSize = 500;

/** Runs the cleanup like another node, for at most this many batches. */
async function sweepSome(databaseUrl: string, batches: number): Promise<void> {
  const { maintenance, close } = await openStore(databaseUrl, {
    masters: masterKeys(testMasterKey),
    timeout: generousTimeout,
  });
  for (let batch = 0; batch < batches && (await maintenance.sweep(batchSize)) >= batchSize; batch++);
  await close();
}

/**
 * Number of remaining sessions. In the full run the background jobs of the nodes, which start every 30 s, must delete
 * some of them. More batches than there are sessions for then delete the rest.
 */
async function cleanedUp(context: Context, databaseUrl: string, id: string, before: number): Promise<number> {
  while (context.size === 'full' && (await left(databaseUrl, id)) === before) await Bun.sleep(250);
  await sweepSome(databaseUrl, Math.ceil(before / batchSize) + 50);
  return left(databaseUrl, id);
}

/** Sends requests of another caller, which must always succeed. `stop` returns how many did not. */
function watch(nodes: Nodes, key: string): { stop(): Promise<number> } {
  let [stopped, refused] = [false, 0];
  const watching = (async () => {
    for (let number = 0; !stopped; number++) {
      const { status } = await nodes.call(number, 'GET', '/applications/key', { key });
      if (status !== 200) refused++;
      await Bun.sleep(10);
    }
  })();
  return {
    stop: async () => {
      stopped = true;
      await watching;
      return refused;
    },
  };
}

/** Nodes on one database, killed together. */
class Nodes {
  readonly #context: Context;
  readonly #databaseUrl: string;
  readonly #nodes: KillableNode[] = [];
  readonly #clients: Client[] = [];

  constructor(context: Context, databaseUrl: string) {
    this.#context = context;
    this.#databaseUrl = databaseUrl;
  }

  async start(): Promise<void> {
    const command = [await this.#context.executable()];
    for (let number = 0; number < this.#context.sized(3, 2); number++) {
      const node = await startNode(this.#context, {
        databaseUrl: this.#databaseUrl,
        command,
        env: databaseTimeout(this.#context),
      });
      this.#nodes.push(node);
      this.#clients.push(new Client(node.url));
    }
    this.#context.defer(() => this.#clients.forEach((client) => void client.close()));
  }

  async call(
    number: number,
    method: string,
    path: string,
    options?: RequestOptions,
  ): Promise<ClientResponse> {
    const client = this.#clients[number % this.#clients.length] as Client;
    const answer = await client.call(method, path, options);
    if (answer.status === 201) this.#context.secrets.addFrom(answer.text);
    return answer;
  }

  async must(method: string, path: string, options?: RequestOptions): Promise<Body> {
    const { status, text } = await retry503(() => this.call(0, method, path, options));
    if (status >= 300) throw new Error(`${method} ${path} was answered with ${status}: ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** The status of each key on each node. */
  statuses(keys: readonly string[]): Promise<number[]> {
    const asked = keys.flatMap((key) =>
      this.#nodes.map(async (_, node) => (await this.call(node, 'GET', '/applications/key', { key })).status),
    );
    return Promise.all(asked);
  }

  async kill(): Promise<void> {
    for (const client of this.#clients) client.close();
    await Promise.all(this.#nodes.map((node) => node.kill()));
  }
}
