/** Makes the 1st, 2nd, … nth database call of every operation fail. */
import { type Route, takesIdempotencyKey } from '../../src/http/pipeline/route.ts';
import { routes } from '../../src/http/routes.ts';
import { routeCaller, type Tenant } from '../../test/support/route-access.ts';
import { type ApiResponse, openTestServer, type TestServer } from '../../test/support/test-server.ts';
import { type FaultKind, Faults, faultKinds } from '../crash/faults.ts';
import { openSnapshots, type Snapshots } from '../crash/snapshot.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const storage: Row = {
  name: 'storage-faults',
  requirement:
    'the 1st, 2nd, … nth database call of every operation fails: 0 broken invariants, 0 secrets returned without an audit entry',
  databases: bothDatabases,
  run,
};

/** More calls than any operation makes. */
const mostCalls = 60;
/** In the short run only these first calls of an operation fail. */
const fewCalls = 2;
/** A read that has an entry even if it returns no data. */
const auditedRead = 'searchTokens';
const secret = /slp_[a-z]{3}_/;

interface Opened {
  readonly server: TestServer;
  readonly faults: Faults;
  readonly snapshots: Snapshots;
}

interface Bench extends Opened {
  readonly tenant: Tenant;
}

interface Tried {
  failed: number;
  readonly broken: string[];
  readonly secrets: string[];
}

async function run(context: Context): Promise<Outcome> {
  const opened = await openBench(context);
  const tried: Tried = { failed: 0, broken: [], secrets: [] };
  const kinds = context.sized<readonly FaultKind[]>(faultKinds, ['down']);
  const guarded = routes.filter(({ kind }) => kind !== 'open');
  const calls = context.sized(mostCalls, fewCalls);
  for (const route of guarded) {
    // The number of calls must not depend on what the operations before have stored.
    const bench = { ...opened, tenant: await tenantWithToken(opened.server) };
    for (const kind of kinds) await failEach(bench, route, kind, false, calls, tried);
    if (takesIdempotencyKey(route)) await failEach(bench, route, 'lost', true, calls, tried);
  }
  return {
    figures: {
      operations: guarded.length,
      'failed calls': tried.failed,
      'broken invariants': tried.broken.length,
      'secrets without audit': tried.secrets.length,
    },
    failures: [...tried.broken, ...tried.secrets].slice(0, 10),
  };
}

async function openBench(context: Context): Promise<Opened> {
  const faults = new Faults();
  const databaseUrl = await context.freshDatabase();
  const server = await openTestServer(databaseUrl, {}, faults.through);
  context.defer(() => server.close());
  const snapshots = openSnapshots(databaseUrl);
  context.defer(() => snapshots.close());
  return { server, faults, snapshots };
}

async function tenantWithToken(server: TestServer): Promise<Tenant> {
  const tenant = await server.tenant();
  await server.call('POST', '/tokens', { key: tenant.key, body: { data: 'x' } });
  return tenant;
}

async function failEach(
  bench: Bench,
  route: Route,
  kind: FaultKind,
  named: boolean,
  calls: number,
  tried: Tried,
): Promise<void> {
  for (let call = 1; call <= calls; call++) {
    const complain = (what: string) =>
      tried.broken.push(`${route.name}, call ${call} ${kind}${named ? ', named' : ''}: ${what}`);
    if (!(await failOne(bench, route, { kind, call, named }, tried, complain))) return;
    tried.failed++;
  }
  if (calls === mostCalls) tried.broken.push(`${route.name} makes more than ${mostCalls} calls`);
}

interface Case {
  readonly kind: FaultKind;
  readonly call: number;
  readonly named: boolean;
}

/** Makes one database call of the operation fail, by its number. Returns false if the operation made fewer calls. */
async function failOne(
  { server, faults, snapshots, tenant }: Bench,
  route: Route,
  { kind, call, named }: Case,
  tried: Tried,
  complain: (what: string) => void,
): Promise<boolean> {
  const name = crypto.randomUUID();
  const send = await prepared(server, route, tenant, named ? { 'Idempotency-Key': name } : {});
  await server.flush();
  const before = await snapshots.take();
  faults.arm(kind, call);
  const first = `first-${name}`;
  const answer = await send(first).catch((error: Error) => ({ status: 500, body: error.message }));
  const { hit, committed } = faults.disarm();
  const failed = answer.status >= 300;
  const shown = secret.test(JSON.stringify(answer.body));
  const entries = await snapshots.entriesOf(first);
  const isChange = route.kind === 'change';

  if (failed && answer.status !== 503) complain(`returned ${answer.status}: ${JSON.stringify(answer.body)}`);
  if (shown && entries === 0)
    tried.secrets.push(`${route.name}, call ${call} ${kind}: a secret without an entry`);
  if (!hit) {
    if (failed) complain('failed without an injected fault');
    if (entries !== (isChange || route.name === auditedRead ? 1 : 0))
      complain(`has ${entries} audit entries`);
    return false;
  }
  if (!failed && isChange && entries !== 1) complain(`succeeded with ${entries} audit entries`);
  const changed = (await snapshots.take()) !== before;
  if (failed && changed !== (entries === 1))
    complain(changed ? 'a change without an entry' : 'an entry without a change');
  if (failed && changed && !committed) complain('failed but changed data');
  if (failed) await again(send, `again-${name}`, { committed, named }, complain);
  return true;
}

/** Retrying must succeed. A committed change with an idempotency key must be replayed. */
async function again(
  send: (id: string) => Promise<ApiResponse>,
  id: string,
  { committed, named }: { committed: boolean; named: boolean },
  complain: (what: string) => void,
): Promise<void> {
  const { status, headers, body } = await send(id);
  const replayed = headers.get('idempotency-replayed') === 'true';
  if (named && replayed !== committed) complain(replayed ? 'replayed but not committed' : 'done twice');
  if (status >= 300 && !(committed && (status === 404 || status === 409)))
    complain(`the retry returned ${status}: ${JSON.stringify(body)}`);
}

/** Returns a function that sends a valid request with a request id. */
async function prepared(
  server: TestServer,
  route: Route,
  tenant: Tenant,
  headers: Record<string, string>,
): Promise<(requestId: string) => Promise<ApiResponse>> {
  const { path, key, body } = await routeCaller(server.call).prepare(route, tenant);
  return (requestId) =>
    server.call(route.method, path, { key, body, headers: { ...headers, 'SVC-REQUEST-ID': requestId } });
}
