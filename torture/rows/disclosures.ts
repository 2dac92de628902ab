/** kill -9 while clients read plaintext: the audit log has an entry for every response that arrived. */
import { Client, type ClientResponse } from '../client.ts';
import { firstKey, type KillableNode, startNode } from '../crash/node.ts';
import type { Random } from '../random.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { mortalDatabase } from './kill.ts';

export const disclosures: Row = {
  name: 'disclosures',
  requirement: 'kill -9 while clients read plaintext: 0 responses with plaintext that have no audit entry',
  databases: allDatabases,
  run,
};

/** On PostgreSQL, one in this many kills includes the database. */
const withDatabase = 20;
const readers = 8;
const tokens = 12;
/** The node is killed after at most this many responses. */
const maxResponses = 40;
const plaintext = 'plaintext-of-a-token';

/** The request ids of responses with plaintext, each with the tokens whose plaintext it had. */
type Received = Map<string, readonly string[]>;

async function run(context: Context): Promise<Outcome> {
  const kills = context.sized(150, 8);
  const program = [await context.executable()];
  const { url: databaseUrl, crash } = await mortalDatabase(context);
  const start = () => startNode(context, { databaseUrl, command: program });
  let node = await start();
  const management = firstKey(context);
  const key = await prepare(node, management, context);
  const received: Received = new Map();
  for (let killed = 1; killed <= kills; killed++) {
    await killWhileReading(node, key, `kill-${killed}`, context.random, received);
    if (killed % withDatabase === 0) await crash();
    node = await start();
  }
  const logged = await disclosuresIn(node, management);
  const missing = [...received].filter(([id, seen]) => {
    const ids = logged.get(id);
    return !seen.every((token) => ids?.includes(token));
  });
  await node.kill();
  return {
    figures: {
      kills,
      'responses with plaintext': received.size,
      'entries of plaintext': logged.size,
      'responses without entry': missing.length,
    },
    failures: missing.slice(0, 10).map(([id, seen]) => `${id} returned ${seen.join(', ')} without an entry`),
  };
}

/** Creates the tokens and returns the key of an application that sees their plaintext. */
async function prepare({ url }: KillableNode, management: string, { secrets }: Context): Promise<string> {
  const client = new Client(url);
  const permissions = ['token:create', 'token:read', 'token:update'];
  const body = {
    name: 'reader',
    type: 'private',
    permissions: [],
    rules: [{ priority: 1, container: '/cards/', transform: 'reveal', permissions }],
  };
  const created = await client.call('POST', '/applications', { key: management, body });
  const key = secrets.add((JSON.parse(created.text) as { key: string }).key);
  for (let number = 0; number < tokens; number++) {
    const { status, text } = await client.call(...createToken(number, key, 'prepare'));
    if (status !== 201) throw new Error(`a token was not created: ${text}`);
  }
  client.close();
  return key;
}

type Request = Parameters<Client['call']>;

/** The idempotency key depends only on `number`, so that repeated requests are replays. */
function createToken(number: number, key: string, id: string): Request {
  const headers = [`Idempotency-Key: create-${number}`, `SVC-REQUEST-ID: ${id}`];
  const body = { id: `card-${number}`, container: `/cards/${number}/`, data: plaintext };
  return ['POST', '/tokens', { key, body, headers }];
}

function randomRequest(random: Random, key: string, id: string): Request {
  const number = random.below(tokens);
  const headers = [`SVC-REQUEST-ID: ${id}`];
  const kind = random.one(['get', 'get', 'get', 'list', 'replay', 'patch'] as const);
  if (kind === 'list') return ['GET', '/tokens?size=5', { key, headers }];
  if (kind === 'replay') return createToken(number, key, id);
  const body = { type: random.one(['token', 'card'] as const) };
  if (kind === 'patch') return ['PATCH', `/tokens/card-${number}`, { key, headers, body }];
  return ['GET', `/tokens/card-${number}`, { key, headers }];
}

/** Kills the node as soon as the last of a random number of responses has arrived. */
async function killWhileReading(
  node: KillableNode,
  key: string,
  name: string,
  random: Random,
  received: Received,
): Promise<void> {
  const client = new Client(node.url);
  const last = 1 + random.below(maxResponses);
  let [sent, responses] = [0, 0];
  let killed: Promise<void> | undefined;
  const reader = async () => {
    while (!killed) {
      const id = `${name}-${sent++}`;
      const response = await client.call(...randomRequest(random, key, id)).catch(() => undefined);
      if (!response) continue;
      if (++responses >= last) killed ??= node.kill();
      const seen = tokensIn(response);
      if (seen.length > 0) received.set(id, seen);
    }
  };
  await Promise.all(Array.from({ length: readers }, reader));
  await killed;
  client.close();
}

interface ReturnedToken {
  readonly id: string;
  readonly data?: unknown;
}

/** The ids of the tokens whose plaintext the response contains. */
function tokensIn({ status, text }: ClientResponse): string[] {
  if (status >= 300 || !text.includes(plaintext)) return [];
  const body = JSON.parse(text) as ReturnedToken | { data: ReturnedToken[] };
  const found = Array.isArray(body.data) ? (body.data as ReturnedToken[]) : [body as ReturnedToken];
  return found.filter(({ data }) => data === plaintext).map(({ id }) => id);
}

interface LoggedEntry {
  readonly request_id?: string;
  readonly resource?: { readonly ids?: readonly string[] };
  readonly decision?: { readonly transform?: string };
}

/** The tokens of every entry about plaintext, by request id. */
async function disclosuresIn({ url }: KillableNode, key: string): Promise<Map<string, readonly string[]>> {
  const client = new Client(url);
  const found = new Map<string, readonly string[]>();
  for (let next: string | undefined = ''; next !== undefined; ) {
    const { text }: ClientResponse = await client.call(
      'GET',
      `/logs?size=100${next === '' ? '' : `&start=${next}`}`,
      { key },
    );
    const page = JSON.parse(text) as { data: LoggedEntry[]; pagination: { next?: string } };
    for (const { request_id, resource, decision } of page.data)
      if (request_id !== undefined && decision?.transform === 'reveal')
        found.set(request_id, resource?.ids ?? []);
    next = page.pagination.next;
  }
  client.close();
  return found;
}
