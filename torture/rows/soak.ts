import { readdirSync } from 'node:fs';
import { mint, newTag } from '../../src/domain/key.ts';
import { runSql } from '../../test/support/test-store.ts';
import type { Fleet, Tenant } from '../fleet.ts';
import { type Body, type Clients, clientsOf, forEachConcurrently, oneNode } from '../fleet-clients.ts';
import { residentMegabytes } from '../process-usage.ts';
import { retryUnavailable } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const soak: Row = {
  name: 'soak',
  requirement:
    '1,200,000 mixed requests, 900,000 on SQLite and 300,000 on PostgreSQL: memory and handles flat after warm-up, expired rows back to none',
  databases: bothDatabases,
  run,
};

const atOnce = 32;
const samples = 50;
/** Parts of the run whose memory is compared, after a warm-up. */
const [early, late] = [
  [0.4, 0.6],
  [0.8, 1],
] as const;
/** Maximum memory growth in megabytes. */
const allowance = 12;
/** Half seconds in which the sweep of the node usually finishes. It starts every 30 s. */
const usualPolls = 80;
/** Sweeps after which no expired row may be left. One skips the rows that the node is removing. */
const maxSweeps = 10;
const batchSize = 1000;

async function run(context: Context): Promise<Outcome> {
  const count = context.sized(context.database.name === 'SQLite' ? 900_000 : 300_000, 500);
  const fleet = await oneNode(context, { env: { SALLYPORT_SESSION_TTL: '2' } });
  const clients = clientsOf(context, fleet);
  const traffic = await trafficOn(context, clients, await fleet.tenant());
  const { pid } = fleet.at(0);
  const [memory, handles]: [number[], number[]] = [[], []];
  const statuses = new Map<number, number>();
  const began = performance.now();

  await forEachConcurrently(count, atOnce, async (index) => {
    if (index % Math.floor(count / samples) === 0) {
      memory.push(residentMegabytes(pid));
      handles.push(openHandles(pid));
    }
    const status = await traffic();
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  });
  const rate = Math.round(count / ((performance.now() - began) / 1000));

  const growth = median(part(memory, late)) - median(part(memory, early));
  const moreHandles = median(part(handles, late)) - median(part(handles, early));
  const left = context.size === 'full' ? await expiredLeft(fleet) : 0;
  const failures: string[] = [];
  if (context.size === 'full' && growth > allowance) failures.push(`memory grew by ${growth.toFixed(1)} MB`);
  if (moreHandles > 2) failures.push(`${moreHandles} more handles were open`);
  if (left > 0) failures.push(`the sweep left ${left} expired rows`);
  for (const [status, times] of statuses) {
    if (status >= 500) failures.push(`${times} requests were answered with ${status}`);
  }
  return {
    figures: {
      requests: count,
      'a second': rate,
      'MB in the middle': Math.round(median(part(memory, early))),
      'MB more at the end': Number(growth.toFixed(1)) + 0,
      'more handles': moreHandles,
      'expired rows left': left,
    },
    failures,
  };
}

/** The mix of requests: mostly reads, and writes whose rows expire or are deleted. */
async function trafficOn({ random, secrets }: Context, clients: Clients, { key }: Tenant) {
  const { call, must, application } = clients;
  const backend = await application(key, {
    permissions: ['application:read', 'token:read', 'session:authorize'],
  });
  const web = await application(key, { type: 'public' });
  const data = secrets.plaintext('soak');
  const token = await must(0, 'POST', '/tokens', { key, body: { data, mask: 'masked' } });
  const unknown = Array.from({ length: 100 }, () => mint('pvt', newTag()).secret.reveal());
  const nonces: string[] = [];
  let fresh: Body[] = [];
  const status = async (...asked: Parameters<Clients['call']>) => (await call(...asked)).status;
  const soon = () => new Date(Date.now() + 2000).toISOString();

  const kinds: [weight: number, work: () => Promise<number>][] = [
    [120, () => status(0, 'GET', '/applications/key', { key: backend.key })],
    [36, () => status(0, 'GET', `/tokens/${token.id}`, { key: backend.key })],
    [20, () => status(0, 'GET', '/applications/key', { key: random.one(unknown) })],
    [
      8,
      () =>
        status(0, 'POST', '/decisions', { key, body: { credential: backend.key, permission: 'token:read' } }),
    ],
    [4, () => status(0, 'GET', '/applications?size=5', { key })],
    [4, () => status(0, 'POST', '/applications', { key, body: { name: '', type: 'x' } })],
    [3, createSession],
    [3, authorize],
    [2, () => status(0, 'POST', '/tokens', { key, body: { data: 'x', mask: 'm', expires_at: soon() } })],
    [1, create],
    [1, remove],
  ];
  const all = kinds.flatMap(([weight, work]) => Array<() => Promise<number>>(weight).fill(work));

  async function createSession(): Promise<number> {
    const made = await call(0, 'POST', '/sessions', { key: web.key });
    if (made.status === 201 && nonces.length < 1000) nonces.push((JSON.parse(made.text) as Body).nonce);
    return made.status;
  }

  async function authorize(): Promise<number> {
    const nonce = nonces.shift() ?? mint('non', newTag()).secret.reveal();
    return status(0, 'POST', '/sessions/authorize', {
      key: backend.key,
      body: { nonce, permissions: ['mine:x'] },
    });
  }

  async function create(): Promise<number> {
    const body = { name: 'x', type: 'private', permissions: ['mine:x'], expires_at: soon() };
    const made = await call(0, 'POST', '/applications', { key, body });
    if (made.status === 201) fresh = [...fresh.slice(-50), JSON.parse(made.text)];
    return made.status;
  }

  async function remove(): Promise<number> {
    return status(0, 'DELETE', `/applications/${fresh.shift()?.id ?? crypto.randomUUID()}`, { key });
  }

  return () => random.one(all)();
}

const expiring = ['applications', 'sessions', 'tokens', 'idempotency'];

/** Number of expired rows after a sweep. The node sweeps; if it is slow, this function does it, too. */
async function expiredLeft({ databaseUrl, maintenance }: Fleet): Promise<number> {
  const counts = expiring
    .map((table) => `(select count(*) from ${table} where expires_at <= MOMENT)`)
    .join(' + ');
  const count = async (moment: number) => {
    const sql = `select ${counts.replaceAll('MOMENT', String(moment))} as "left"`;
    const [row] = await runSql<{ left: unknown }>(databaseUrl, sql);
    return Number(row?.left);
  };
  for (let poll = 0; poll < usualPolls && (await count(Date.now() - 100)) > 0; poll++) await Bun.sleep(500);
  const ended = Date.now() - 100;
  for (let sweep = 0; sweep < maxSweeps && (await count(ended)) > 0; sweep++)
    while ((await retryUnavailable(() => maintenance.sweep(batchSize))) >= batchSize);
  return count(ended);
}

function openHandles(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return Number.NaN;
  }
}

function part(values: readonly number[], [from, to]: readonly [number, number]): number[] {
  return values.slice(Math.floor(values.length * from), Math.ceil(values.length * to));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
