/** The torture row `stalls` measures the most expensive requests of every route, so every route must declare some. */
import { expect, test } from 'bun:test';
import { allRoutes } from '../src/http/routes.ts';
import { worstRequests } from '../torture/worst/routes.ts';

test('every route has its most expensive requests in torture/worst/routes.ts, and no other route', () => {
  const [declared, existing] = [Object.keys(worstRequests), allRoutes.map(({ name }) => name)];
  expect({
    missing: existing.filter((name) => !declared.includes(name)),
    unknown: declared.filter((name) => !existing.includes(name)),
  }).toEqual({ missing: [], unknown: [] });
});
