/**
 * How long one request holds up the others: the processor time of the longest turn of a node's event loop. Measured for
 * the most expensive requests, and for a grammar of bad texts at every place of every route that takes a text.
 */

import type { Route } from '../../src/http/pipeline/route.ts';
import { allRoutes, framesRoutes } from '../../src/http/routes.ts';
import { routeCaller } from '../../test/support/route-access.ts';
import { Client, type ClientResponse, chunks, written } from '../client.ts';
import type { Tenant } from '../fleet.ts';
import { type Clients, clientsOf } from '../fleet-clients.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { type Destination, exchanges, openDestination } from '../texts/exchanges.ts';
import { type Base, type Sent, type Variation, variationsOf } from '../texts/variations.ts';
import { Turns } from '../turns.ts';
import { makeWorld, type WorstRequest, worstRequests } from '../worst/routes.ts';

/** Milliseconds of processor time, apart from one `JSON.parse` of the body. */
const longestStall = 20;
/** A request that takes too long is repeated. The shortest time counts, because collections and compilation add to some. */
const repeats = 5;
/** Requests that are reported of one place. The rest of its texts is then left out. */
const mostCulprits = 4;

export const stalls: Row = {
  name: 'stalls',
  requirement: `the most expensive requests, and bad texts and values at every place of every route, in replies of destinations and in the data of tokens: every request is answered, and none holds up others for more than ${longestStall} ms of processor time, not counting the parsing of its body`,
  databases: bothDatabases,
  alone: true,
  run,
};

const framesHost = 'frames.localhost';

async function run(context: Context): Promise<Outcome> {
  const turns = new Turns(`${context.folder}/turns`);
  const env = {
    ...databaseTimeout(context),
    SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1',
    SALLYPORT_USES_PER_TOKEN: '0',
    SALLYPORT_REVOCATIONS_PER_MINUTE: '0',
    SALLYPORT_TRUSTED_PROXIES: '127.0.0.1',
    SALLYPORT_FRAMES_URL: `http://${framesHost}`,
    ...turns.env,
  };
  const fleet = await context.start({ nodes: 1, env });
  const clients = clientsOf(context, fleet);
  const client = new Client(fleet.at(0).url);
  context.defer(() => client.close());
  const judge = new Judge(turns, longestStall * context.sized(1, 3));
  await grammar(context, clients, client, await fleet.tenant(), judge);
  await worst(context, clients, client, await fleet.tenant(), judge);
  return {
    figures: {
      routes: allRoutes.length,
      requests: judge.requests,
      [`ms at most (${judge.longest.name})`]: Number(judge.longest.time.toFixed(1)),
    },
    failures: judge.failures,
  };
}

class Judge {
  requests = 0;
  longest = { name: 'none', time: 0 };
  readonly failures: string[] = [];
  readonly #turns: Turns;
  readonly #limit: number;
  readonly #culprits = new Map<string, number>();

  constructor(turns: Turns, limit: number) {
    this.#turns = turns;
    this.#limit = limit;
  }

  /** Whether enough requests of the place were too slow. */
  isKnown(place: string): boolean {
    return (this.#culprits.get(place) ?? 0) >= mostCulprits;
  }

  /** Sends the request, and after `renew` again if it takes too long. */
  async judge<T>(
    place: string,
    name: string,
    bodyLength: number,
    send: () => Promise<T>,
    renew = async () => {},
  ): Promise<T> {
    let answer: T | undefined;
    let shortest = Number.POSITIVE_INFINITY;
    this.requests++;
    for (
      let round = 0;
      round < (shortest > 10 * this.#limit ? 2 : repeats) && shortest > this.#limit;
      round++
    ) {
      if (round > 0) await renew();
      const time = await this.#turns.during(async () => {
        answer = await send();
      }, bodyLength);
      shortest = Math.min(shortest, time);
    }
    if (shortest > this.longest.time) this.longest = { name: `${place}: ${name}`, time: shortest };
    if (shortest > this.#limit) {
      this.#culprits.set(place, (this.#culprits.get(place) ?? 0) + 1);
      this.failures.push(`${place}: ${name}: others wait for ${shortest.toFixed(1)} ms`);
    }
    return answer as T;
  }
}

async function grammar(
  context: Context,
  clients: Clients,
  client: Client,
  tenant: Tenant,
  judge: Judge,
): Promise<void> {
  const { random } = context;
  const bases = new Bases(clients, tenant, await openDestination(context, clients, tenant));
  for (const route of [...allRoutes, ...framesRoutes]) {
    const part = context.sized(1, 0.1);
    const chosen = variationsOf(route, random).filter(({ isTelling }) => isTelling || random.chance(part));
    let base = await bases.of(route);
    for (const variation of chosen) {
      const place = `${route.name}, ${variation.name.split(': ')[0]}`;
      if (judge.isKnown(place)) continue;
      const answer = await attempt(route, variation, base, client, judge, place);
      if (answer && (await bases.isUsedUp(route, answer))) base = await bases.of(route, base);
    }
    await bases.remove(base.path);
  }
  await throughDestination(context, bases.destination, client, clients, tenant, judge);
}

/** Sends the variation. If other fields are wrong because of it, sends it without them, too. */
async function attempt(
  route: Route,
  variation: Variation,
  base: Base,
  client: Client,
  judge: Judge,
  place: string,
): Promise<ClientResponse | undefined> {
  const [, name = variation.name] = /: (.*)/s.exec(variation.name) ?? [];
  const once = async (from: Base) => {
    const request = variation.apply(from);
    const bytes = bytesOf(route.method, request);
    const length = request.body?.length ?? 0;
    const isAlone = request.inChunks || request.times !== undefined;
    // What follows a response would be taken for that of the next request of the connection.
    const send = () => (isAlone ? sendAlone(client.url, bytes) : client.send(bytes));
    return judge.judge(place, name, length, () => send().catch(() => undefined));
  };
  const answer = await once(base);
  const wrong = answer?.status === 400 && variation.field !== undefined ? wrongFields(answer) : [];
  const body = Object.entries(base.body ?? {});
  const kept = body.filter(([name]) => name === variation.field || !wrong.includes(name));
  if (kept.length === body.length) return answer;
  return once({ ...base, body: Object.fromEntries(kept) });
}

async function sendAlone(url: string, bytes: Buffer): Promise<ClientResponse> {
  const client = new Client(url);
  try {
    return await client.send(bytes);
  } finally {
    client.close();
  }
}

function wrongFields({ text }: ClientResponse): string[] {
  const { errors = {} } = JSON.parse(text) as { errors?: object };
  return Object.keys(errors).map((path) => path.split('.')[0] as string);
}

function bytesOf(method: string, { path, key, headers, body, inChunks, times = 1 }: Sent): Buffer {
  const whole = { key, headers, body };
  if (!inChunks) return Buffer.concat(Array<Buffer>(times).fill(written(method, path, whole)));
  const head = written(method, path, { key, headers: [...headers, 'Transfer-Encoding: chunked'] });
  return Buffer.concat([head, chunks(Buffer.from(body ?? ''))]);
}

const collections = /^\/(applications|sessions|tokens|destinations)\/([^/?]+)/;
/** A token with every field that refers to another. */
const token = {
  data: { number: '4929135724680135' },
  mask: '{{ data.number }}',
  search: { number: '{{ data.number }}' },
  metadata: { a: 'b' },
};

/** Valid requests, and the entities that they need. */
class Bases {
  readonly destination: Destination;
  readonly #clients: Clients;
  readonly #tenant: Tenant;
  readonly #caller;

  constructor(clients: Clients, tenant: Tenant, destination: Destination) {
    this.#clients = clients;
    this.#tenant = tenant;
    this.destination = destination;
    const call = async (method: string, path: string, options = {}) => {
      const { status, text } = await clients.call(0, method, path, options);
      return { status, body: text === '' ? undefined : JSON.parse(text) };
    };
    this.#caller = routeCaller(call, token);
  }

  async of(route: Route, before?: Base): Promise<Base> {
    if (before) await this.remove(before.path);
    if (route.path.startsWith('/proxy/')) return { ...this.destination, body: { note: 'x' } };
    const headers = [
      ...(route.servedTo === 'console' ? ['Sec-Fetch-Site: same-origin'] : []),
      ...(route.servedTo === 'frames' ? [`Host: ${framesHost}`] : []),
    ];
    const isOther = route.path.includes(':') && !collections.test(route.path);
    if (isOther || route.servedTo === 'console') {
      const path = route.path.replaceAll(/:\w+/g, 'x');
      return { path, key: undefined, body: route.bodyExample, headers };
    }
    return { headers, ...(await this.#caller.prepare(route, this.#tenant)) };
  }

  async remove(path: string): Promise<void> {
    const [entity] = collections.exec(path) ?? [];
    if (entity) await this.#clients.call(0, 'DELETE', entity, { key: this.#tenant.key });
  }

  /** Removes what the request has created. Returns whether the valid request must be made again. */
  async isUsedUp({ method, path, name }: Route, { status, text }: ClientResponse): Promise<boolean> {
    if (status >= 500) await this.destination.renew();
    if (method === 'GET' || status >= 300) return false;
    const { id } = text.startsWith('{') ? JSON.parse(text) : {};
    if (status === 201 && typeof id === 'string')
      await this.remove(`${path.startsWith('/delegations') ? '/sessions' : path}/${id}`);
    return path.includes(':') || name === 'authorizeSession';
  }
}

/** Bad texts in tokens that are used, and in replies of the destination. */
async function throughDestination(
  context: Context,
  destination: Destination,
  client: Client,
  clients: Clients,
  tenant: Tenant,
  judge: Judge,
): Promise<void> {
  for (const exchange of exchanges(context)) {
    const place = `proxyPost, ${exchange.name.split(': ')[0]}`;
    if (judge.isKnown(place)) continue;
    const prepared = await destination.prepare(exchange);
    if (!prepared) continue;
    const { path, key } = destination;
    const body = exchange.isForm
      ? new URLSearchParams(prepared.body as Record<string, string>)
      : prepared.body;
    const headers = exchange.isForm ? ['Content-Type: application/x-www-form-urlencoded'] : [];
    const bytes = written('POST', path, { key, headers, body: exchange.isForm ? String(body) : body });
    const answer = await judge.judge(place, exchange.name.replace(/^.*?: /s, ''), 0, () =>
      client.send(bytes).catch(() => undefined),
    );
    if (answer === undefined || answer.status >= 500) await destination.renew();
    await clients.call(0, 'DELETE', `/tokens/${prepared.token}`, { key: tenant.key });
  }
}

/** The requests of `torture/worst/routes.ts`, one at a time. */
async function worst(
  context: Context,
  clients: Clients,
  client: Client,
  tenant: Tenant,
  judge: Judge,
): Promise<void> {
  const world = await makeWorld(context, clients, tenant);
  for (const { name, method } of allRoutes) {
    const count = (await worstRequests[name]?.(world))?.length ?? 0;
    for (let index = 0; index < count; index++) {
      const next = async () => (await worstRequests[name]?.(world))?.[index] as WorstRequest;
      let request = await next();
      const { what, body, expected } = request;
      const text = typeof body === 'string' ? body : JSON.stringify(body ?? '');
      const send = () => client.call(method, request.path, request).catch(() => undefined);
      const answer = await judge.judge(`${name}, worst`, what, text.length, send, async () => {
        request = await next();
      });
      const status = answer?.status ?? 0;
      if (status === 0 || (status >= 400 && !expected?.includes(status)))
        judge.failures.push(`${name}: ${what}: ${status} ${answer?.text.slice(0, 300) ?? ''}`);
    }
  }
}
