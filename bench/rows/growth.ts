/** The same workloads with a thousand and a million of each entity, and with ten million sessions. */
import { Database } from 'bun:sqlite';
import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { newId } from '../../src/domain/key.ts';
import {
  type Candidate,
  compare,
  type Effort,
  figure,
  ratio,
  type Sample,
  seriesOf,
  underLoad,
} from '../compare.ts';
import { type PreparedService, prepareService } from '../environment.ts';
import { diskForManySessions, fill, fillSessions, openFilledStore, type Samples } from '../fill.ts';
import type { Row } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';

interface FilledService {
  /** The number of rows, as text. */
  readonly name: string;
  readonly service: PreparedService;
  readonly sampled: Samples;
  readonly tenant: string;
}

/** Creates `count` of each entity, but `sessions` sessions. */
async function fillService(count: number, sessions = count): Promise<FilledService> {
  const service = await prepareService(await startService());
  const { tenant_id: tenant } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
  const owner = { tenant, page: service.page.id };
  const sampled = await fill(service.databaseUrl, owner, count);
  if (sessions > count) fillSessions(service.databaseUrl, owner, sessions - count);
  const name = sessions > count ? `${formatCount(sessions)} sessions` : `${formatCount(count)} of each`;
  return { name, service, sampled, tenant };
}

const formatCount = (count: number) => count.toLocaleString('en-US');

const cursor = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

/** Requests and expected status by workload. */
function workloads({
  service,
  sampled,
}: FilledService): Record<string, { requests: string[]; status: number }> {
  const { key } = service;
  const read = (requests: string[]) => ({ requests, status: 200 });
  const create = (path: string, body: object) => ({
    requests: [requestBytes('POST', path, key, body)],
    status: 201,
  });
  const application = { name: 'grown', type: 'private', permissions: ['application:read'] };
  const { applications, sessions, tokens } = sampled;
  return {
    'look up an application key': read(
      applications.map((each) => requestBytes('GET', '/applications/key', each.key)),
    ),
    'look up a session key': read(sessions.map((each) => requestBytes('GET', '/applications/key', each))),
    'get an application': read(applications.map(({ id }) => requestBytes('GET', `/applications/${id}`, key))),
    'get a token': read(tokens.map((id) => requestBytes('GET', `/tokens/${id}`, key))),
    'list applications after a cursor': read(
      applications.slice(50).map(({ id }) => requestBytes('GET', `/applications?start=${cursor(id)}`, key)),
    ),
    'create an application': create('/applications', application),
    'create a session': { requests: [requestBytes('POST', '/sessions', service.page.key)], status: 201 },
    'create a token': create('/tokens', { container: '/customers/42/', data: 'x'.repeat(100) }),
  };
}

/**
 * Commits from another connection during the measurement, which invalidates the credential cache, so that every key
 * is looked up in the database.
 */
function withConcurrentCommits(candidate: Candidate, path: string): Candidate {
  return {
    name: candidate.name,
    measure: async (seconds) => {
      const db = new Database(path);
      db.run('pragma synchronous = off');
      db.run('pragma busy_timeout = 5000');
      db.run('create table if not exists bench (one integer primary key, at integer)');
      const commit = db.prepare('insert or replace into bench values (1, ?1)');
      const timer = setInterval(() => commit.run(performance.now()), 1);
      const sample = await candidate.measure(seconds);
      clearInterval(timer);
      commit.finalize();
      db.close();
      return sample;
    },
  };
}

/** CPU time per expired session that the sweep removes. */
function sweepCandidate({ name, service, tenant }: FilledService): Candidate {
  const path = service.databaseUrl.slice('sqlite:'.length);
  return {
    name,
    measure: async () => {
      const db = new Database(path);
      db.run('pragma busy_timeout = 5000');
      const insert = db.prepare(
        `insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules,
           created_at, expires_at) values (?1, ?2, ?3, randomblob(32), randomblob(32), '[]', '[]', 1, 2)`,
      );
      db.transaction(() => {
        for (let row = 0; row < 3000; row++) insert.run(tenant, service.page.id, newId(Date.now()));
      })();
      db.close();
      const { maintenance, close } = await openFilledStore(service.databaseUrl);
      const used = process.cpuUsage();
      let removed = 0;
      for (let last = 500; last >= 500; removed += last) last = await maintenance.sweep(500);
      const { user, system } = process.cpuUsage(used);
      await close();
      return { rate: (removed * 1e6) / (user + system), processor: (user + system) / removed };
    },
  };
}

const sweepWork = 'sweep a session';
const sessionWorks = ['look up a session key', 'create a session', sweepWork];

export async function growthRows(_: unknown, effort: Effort): Promise<Row[]> {
  const short = effort.quick ? { ...effort, rounds: 1 } : { ...effort, rounds: 3, seconds: 1 };
  const small = await fillService(1000);
  const all = [...Object.keys(workloads(small)), sweepWork];
  const rows = await compareGrowth(small, await fillService(effort.quick ? 20_000 : 1_000_000), all, short);
  if (!effort.quick && hasDiskForManySessions())
    rows.push(...(await compareGrowth(small, await fillService(1000, 10_000_000), sessionWorks, short)));
  await small.service.stop();
  return rows;
}

function hasDiskForManySessions(): boolean {
  const { bavail, bsize } = statfsSync(tmpdir());
  if (bavail * bsize > diskForManySessions) return true;
  console.warn('not enough disk space for ten million sessions: skipping those rows');
  return false;
}

/** Stops the larger service afterwards. */
async function compareGrowth(
  small: FilledService,
  large: FilledService,
  which: readonly string[],
  effort: Effort,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const work of which) {
    const pair = [small, large].map((grown) =>
      work === sweepWork ? sweepCandidate(grown) : loadCandidate(grown, work),
    );
    rows.push(growthRow(work, small.name, large.name, await compare(pair, effort)));
  }
  await large.service.stop();
  return rows;
}

function loadCandidate(grown: FilledService, work: string): Candidate {
  const { name, service } = grown;
  const plan = { port: service.port, ...(workloads(grown)[work] as { requests: string[]; status: number }) };
  const loaded = underLoad(name, service.pid, plan);
  return work.startsWith('look') ? withConcurrentCommits(loaded, service.databaseUrl.slice(7)) : loaded;
}

/** Compares CPU time. */
function growthRow(
  work: string,
  few: string,
  many: string,
  series: Awaited<ReturnType<typeof compare>>,
): Row {
  const of = ({ processor = 0 }: Sample) => processor;
  const [less, more] = [seriesOf(series, few), seriesOf(series, many)];
  const growth = ratio(more, less, of);
  return {
    group: 'growth',
    work: `${work}, ${many}`,
    baseline: `Sallyport with ${few}`,
    unit: 'µs',
    ours: figure(more.samples.map(of)),
    theirs: figure(less.samples.map(of)),
    ratio: growth,
    max: 1.25,
    reached: growth.median <= 1.25,
  };
}
