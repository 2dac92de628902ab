/** Clients for all nodes of a fleet. */
import { Client, type ClientResponse, type RequestOptions } from './client.ts';
import type { Fleet, FleetOptions } from './fleet.ts';
import { NotFinished } from './not-finished.ts';
import { maxAttempts } from './retry.ts';
import type { Context } from './row.ts';

// biome-ignore lint/suspicious/noExplicitAny: rows check the fields
export type Body = any;

export interface Clients {
  readonly fleet: Fleet;
  /** Calls the node with this number, modulo the number of nodes. */
  call(node: number, method: string, path: string, asked?: RequestOptions): Promise<ClientResponse>;
  /** Returns the response body. Throws unless the response is a success. */
  must(node: number, method: string, path: string, asked?: RequestOptions): Promise<Body>;
  application(key: string, fields?: object): Promise<Body>;
}

export function clientsOf(context: Context, fleet: Fleet): Clients {
  const clients = fleet.nodes.map(({ url }) => new Client(url));
  context.defer(() => clients.forEach((client) => void client.close()));

  async function call(
    node: number,
    method: string,
    path: string,
    asked?: RequestOptions,
  ): Promise<ClientResponse> {
    const answer = await (clients[node % clients.length] as Client).call(method, path, asked);
    if (answer.status === 201 || path.endsWith('/regenerate')) context.secrets.addFrom(answer.text);
    return answer;
  }

  async function must(node: number, method: string, path: string, asked?: RequestOptions): Promise<Body> {
    const { status, text } = await retry503(() => call(node, method, path, asked));
    if (status >= 300) throw new Error(`${method} ${path} returned ${status}: ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  return {
    fleet,
    call,
    must,
    application: (key, fields = {}) => {
      const body = { name: 'an application', type: 'private', permissions: ['token:read'], ...fields };
      return must(0, 'POST', '/applications', { key, body });
    },
  };
}

/** A separate node in the full run. The short run uses the shared nodes, because starting a node takes long. */
export function oneNode(context: Context, options: FleetOptions = {}): Promise<Fleet> {
  return context.size === 'full' ? context.start({ ...options, nodes: 1 }) : context.fleet();
}

/** Retries on 503. */
export async function retry503(ask: () => Promise<ClientResponse>): Promise<ClientResponse> {
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const answer = await ask();
    if (answer.status !== 503) return answer;
    await Bun.sleep(100);
  }
  throw new NotFinished(`a request was answered with 503 ${maxAttempts} times`);
}

/** Calls `work` for every number below `count`, with at most `concurrency` calls in parallel. */
export async function forEachConcurrently(
  count: number,
  concurrency: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, lane));
}
