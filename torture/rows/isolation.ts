import type { KeyedRoute } from '../../src/http/pipeline/route.ts';
import {
  authenticatedRoutes,
  callers,
  collectionOf,
  type RouteResponse,
  routeCaller,
  routesWithId,
  statusesById,
  statusFor,
} from '../../test/support/route-access.ts';
import { clientsOf, forEachConcurrently, retry503 } from '../fleet-clients.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const isolation: Row = {
  name: 'isolation',
  requirement:
    'every route with every kind of key, and with ids of the own and of another tenant, unknown, deleted and malformed ids: every response has the expected status',
  databases: allDatabases,
  run,
};

const kinds = ['own', 'foreign', 'unknown', 'deleted', 'malformed'];

async function run(context: Context): Promise<Outcome> {
  const { fleet, call } = clientsOf(context, await context.fleet());
  const failures: string[] = [];
  let cells = 0;
  const check = (what: string, seen: unknown, expected: unknown) => {
    cells++;
    if (!Bun.deepEquals(seen, expected)) {
      failures.push(`${what}: ${JSON.stringify(seen)}, not ${JSON.stringify(expected)}`);
    }
  };

  /** Requests go to the nodes in turn. */
  let turn = 0;
  const { callRoute, keyOf, createEntity } = routeCaller(async (method, path, asked) => {
    const { status, text } = await retry503(() => call(turn++, method, path, asked));
    return { status, body: text === '' ? '' : JSON.parse(text) };
  });

  async function everyCaller(route: KeyedRoute): Promise<void> {
    const tenant = await fleet.tenant();
    for (const caller of callers) {
      const key = await keyOf(caller, tenant);
      const { status } = await callRoute(route, key, await createEntity(route, tenant), tenant);
      check(`${route.name} by ${caller}`, status, statusFor(route, caller));
    }
  }

  /** Calls the route with every kind of id, as every kind of caller that may use it. */
  async function everyId(route: KeyedRoute): Promise<void> {
    const expected = statusesById(route);
    const able = callers.filter((caller) => statusFor(route, caller) < 300);
    for (const caller of context.sized(able, able.slice(-1))) {
      const [mine, theirs] = [await fleet.tenant(), await fleet.tenant()];
      const [foreign, gone] = [await createEntity(route, theirs), await createEntity(route, mine)];
      const room = collectionOf(route);
      await call(turn++, 'DELETE', `${room}/${gone}`, { key: mine.key });
      const before = await stateOf(room, foreign, theirs.key);
      const key = await keyOf(caller, mine);
      const ids = [await createEntity(route, mine), foreign, crypto.randomUUID(), gone, '!'];
      const answers: RouteResponse[] = [];
      for (const id of ids)
        answers.push(await callRoute(route, key, id, mine, id === foreign ? theirs : mine));
      for (const [at, { status }] of answers.entries()) {
        check(`${route.name} by ${caller} with an id that is ${kinds[at]}`, status, expected[at]);
      }
      const [, ofForeign, ofUnknown, ofGone] = answers.map(faceless);
      check(`${route.name} by ${caller}: foreign as unknown`, ofForeign, ofUnknown);
      check(`${route.name} by ${caller}: deleted as unknown`, ofGone, ofUnknown);
      check(
        `${route.name} by ${caller}: state of the foreign entity`,
        await stateOf(room, foreign, theirs.key),
        before,
      );
    }
  }

  async function stateOf(room: string, id: string, key: string): Promise<string> {
    const { text } = await call(turn++, 'GET', `${room}?id=${id}`, { key });
    if (!text.includes(`"id":"${id}"`)) throw new Error(`${id} is missing for its own tenant: ${text}`);
    return text;
  }

  /** The short run covers some routes; test/http covers all of them. */
  const some = (all: readonly KeyedRoute[]) => context.sized(all, context.random.shuffled(all).slice(0, 6));
  for (let round = 0; round < context.sized(3, 1); round++) {
    const [called, found] = [some(authenticatedRoutes), some(routesWithId)];
    await forEachConcurrently(called.length, 4, (index) => everyCaller(called[index] as KeyedRoute));
    await forEachConcurrently(found.length, 4, (index) => everyId(found[index] as KeyedRoute));
  }
  return {
    figures: { routes: authenticatedRoutes.length, cells, differences: failures.length },
    failures,
  };
}

function faceless({ body }: RouteResponse): unknown {
  return { ...body, instance: undefined, request_id: undefined };
}
