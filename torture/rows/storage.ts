/** The first, the second, … call to the database fails, for every operation. */
import { type Route, takesIdempotencyKey } from '../../src/http/pipeline/route.ts';
import { routes } from '../../src/http/routes.ts';
import { type ChangeRequest, changeRequests, createToken } from '../../test/support/change-requests.ts';
import { type ApiResponse, openTestServer, type TestServer } from '../../test/support/test-server.ts';
import { type FaultKind, Faults, faultKinds } from '../crash/faults.ts';
import { openSnapshots, type Snapshots } from '../crash/snapshot.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const storage: Row = {
  name: 'storage',
  must: 'the 1st, 2nd, … nth storage call of every operation fails: 0 broken invariants, 0 secrets without audit',
  databases: bothDatabases,
  run,
};

/** No operation makes as many calls. */
const mostCalls = 60;
/** Those of the short run. */
const few = ['createApplication', 'authorizeSession', 'listApplications'];
const secret = /slp_[a-z]{3}_/;

interface Bench {
  readonly world: TestServer;
  readonly faults: Faults;
  readonly snapshots: Snapshots;
  readonly key: string;
}

interface Tried {
  failed: number;
  readonly broken: string[];
  readonly secrets: string[];
}

async function run(context: Context): Promise<Outcome> {
  const bench = await openBench(context);
  const tried: Tried = { failed: 0, broken: [], secrets: [] };
  const kinds = context.sized<readonly FaultKind[]>(faultKinds, ['down']);
  const guarded = routes.filter(
    ({ kind, name }) => kind !== 'open' && (context.size === 'full' || few.includes(name)),
  );
  for (const route of guarded) {
    for (const kind of kinds) await failEach(bench, route, kind, false, tried);
    if (takesIdempotencyKey(route)) await failEach(bench, route, 'lost', true, tried);
  }
  return {
    figures: {
      operations: guarded.length,
      'failed calls': tried.failed,
      'broken invariants': tried.broken.length,
      'secrets without audit': tried.secrets.length,
    },
    shortfalls: [...tried.broken, ...tried.secrets].slice(0, 10),
  };
}

async function openBench(context: Context): Promise<Bench> {
  const faults = new Faults();
  const databaseUrl = await context.freshDatabase();
  const world = await openTestServer(databaseUrl, {}, faults.through);
  context.defer(() => world.close());
  const snapshots = openSnapshots(databaseUrl);
  context.defer(() => snapshots.close());
  const { key } = await world.tenant();
  await createToken(world, key);
  return { world, faults, snapshots, key };
}

async function failEach(
  bench: Bench,
  route: Route,
  kind: FaultKind,
  named: boolean,
  tried: Tried,
): Promise<void> {
  for (let call = 1; call <= mostCalls; call++) {
    const complain = (what: string) =>
      tried.broken.push(`${route.name}, call ${call} ${kind}${named ? ', named' : ''}: ${what}`);
    if (!(await failOne(bench, route, { kind, call, named }, tried, complain))) return;
    tried.failed++;
  }
  tried.broken.push(`${route.name} makes more than ${mostCalls} calls`);
}

interface Case {
  readonly kind: FaultKind;
  readonly call: number;
  readonly named: boolean;
}

/** False if the operation was over before the call came. */
async function failOne(
  { world, faults, snapshots, key }: Bench,
  route: Route,
  { kind, call, named }: Case,
  tried: Tried,
  complain: (what: string) => void,
): Promise<boolean> {
  const name = crypto.randomUUID();
  const send = await prepared(world, route, key, named ? { 'Idempotency-Key': name } : {});
  await world.flush();
  const before = await snapshots.take();
  faults.arm(kind, call);
  const first = `first-${name}`;
  const answer = await send(first).catch((error: Error) => ({ status: 500, body: error.message }));
  const { hit, committed } = faults.disarm();
  const failed = answer.status >= 300;
  const shown = secret.test(JSON.stringify(answer.body));
  const entries = await snapshots.entriesOf(first);
  const isChange = route.kind === 'change';

  if (failed && answer.status !== 503)
    complain(`it was answered with ${answer.status}: ${JSON.stringify(answer.body)}`);
  if (shown && entries === 0)
    tried.secrets.push(`${route.name}, call ${call} ${kind}: a secret without an entry`);
  if (!hit) {
    if (failed) complain('it failed without a reason');
    if (entries !== (isChange ? 1 : 0)) complain(`it has ${entries} entries`);
    return false;
  }
  if (!failed && isChange && entries !== 1) complain(`it succeeded, and has ${entries} entries`);
  const changed = (await snapshots.take()) !== before;
  if (failed && changed !== (entries === 1))
    complain(changed ? 'a change without an entry' : 'an entry without a change');
  if (failed && changed && !committed) complain('it failed, and something has changed');
  if (failed) await again(send, `again-${name}`, { committed, named }, complain);
  return true;
}

/** The same once more must succeed; one that happened already, and was named, is only told again. */
async function again(
  send: (id: string) => Promise<ApiResponse>,
  id: string,
  { committed, named }: { committed: boolean; named: boolean },
  complain: (what: string) => void,
): Promise<void> {
  const { status, headers, body } = await send(id);
  const replayed = headers.get('idempotency-replayed') === 'true';
  if (named && replayed !== committed) complain(replayed ? 'told again, but had not happened' : 'done twice');
  if (status >= 300 && !(committed && (status === 404 || status === 409)))
    complain(`once more, it was answered with ${status}: ${JSON.stringify(body)}`);
}

/** A request that would succeed, to be sent under an id. */
async function prepared(
  world: TestServer,
  route: Route,
  key: string,
  headers: Record<string, string>,
): Promise<(id: string) => Promise<ApiResponse>> {
  const make = changeRequests[route.name];
  const { path = '', key_id = '', options } = await (make ? make(world, key) : reading(world, key, route));
  const at = route.path.replace(':id', path).replace(':key_id', key_id);
  return (id) => world.call(route.method, at, { ...options, headers: { ...headers, 'SVC-REQUEST-ID': id } });
}

/** What a route that only reads is asked for. */
async function reading(world: TestServer, key: string, { path: at }: Route): Promise<ChangeRequest> {
  if (at === '/decisions') return { options: { key, body: { credential: key, permission: 'token:read' } } };
  if (!at.includes(':id')) return { options: { key } };
  const path = at.startsWith('/tokens') ? await createToken(world, key) : (await world.application(key)).id;
  return { path, options: { key } };
}
