/** Clients for all nodes of a fleet, for rows that speak to them in turn. */
import { type Answer, type Asked, Client } from './client.ts';
import type { Fleet, FleetOptions } from './fleet.ts';
import type { Context } from './row.ts';

// biome-ignore lint/suspicious/noExplicitAny: a row looks into whatever came back
export type Body = any;

export interface Clients {
  readonly fleet: Fleet;
  /** Asks the node of this number, counted round. */
  call(node: number, method: string, path: string, asked?: Asked): Promise<Answer>;
  /** The same, with what the answer holds; anything but a success ends the row. */
  must(node: number, method: string, path: string, asked?: Asked): Promise<Body>;
  application(key: string, fields?: object): Promise<Body>;
}

export function clientsOf(context: Context, fleet: Fleet): Clients {
  const clients = fleet.nodes.map(({ url }) => new Client(url));
  context.defer(() => clients.forEach((client) => void client.close()));

  async function call(node: number, method: string, path: string, asked?: Asked): Promise<Answer> {
    const answer = await (clients[node % clients.length] as Client).call(method, path, asked);
    if (answer.status === 201 || path.endsWith('/regenerate')) context.secrets.addFrom(answer.text);
    return answer;
  }

  async function must(node: number, method: string, path: string, asked?: Asked): Promise<Body> {
    const { status, text } = await patient(() => call(node, method, path, asked));
    if (status >= 300) throw new Error(`${method} ${path} was answered with ${status}: ${text}`);
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

/** A node for the row alone in the full run; in the short one, where starting takes longest, the shared ones. */
export function oneNode(context: Context, options: FleetOptions = {}): Promise<Fleet> {
  return context.size === 'full' ? context.start({ ...options, nodes: 1 }) : context.fleet();
}

/** A database that does not answer in time is asked again, as every client is told to. */
export async function patient(ask: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 0; tries < 20; tries++) {
    const answer = await ask();
    if (answer.status !== 503) return answer;
    await Bun.sleep(100);
  }
  return ask();
}

/** Does `work` for every number below `count`, at most `atOnce` of them at once. */
export async function each(
  count: number,
  atOnce: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane));
}
