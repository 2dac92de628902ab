/** The CPU time of the same workloads with a thousand and with a million of each entity, on both databases. */
import { Database } from 'bun:sqlite';
import { type Candidate, compare, cpuTime, type Effort, seriesOf, underLoad } from '../compare.ts';
import {
  type CreatedApplication,
  type Environment,
  type PreparedService,
  prepareService,
} from '../environment.ts';
import { fill, type Samples } from '../fill.ts';
import { fillAudit } from '../fill-audit.ts';
import { costRow, type Row } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';
import { sweepRow } from './sweep.ts';

type DatabaseName = 'SQLite' | 'PostgreSQL';

interface FilledService {
  /** The number of rows, as text. */
  readonly name: string;
  readonly count: number;
  readonly service: PreparedService;
  readonly sampled: Samples;
  readonly tenant: string;
  /** The key of an application with fifty rules. */
  readonly fiftyRules: string;
}

/** Creates `count` of each entity and as many audit entries. */
async function fillService(
  environment: Environment,
  on: DatabaseName,
  count: number,
  samples: number,
): Promise<FilledService> {
  const url = on === 'SQLite' ? {} : { DATABASE_URL: await environment.database() };
  const database = on === 'SQLite' ? undefined : environment.postgres.pid;
  const env = { ...url, SALLYPORT_PROCESSING_PER_APPLICATION: '0' };
  const service = await prepareService(await startService(env), database);
  const { tenant_id: tenant } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
  const sampled = await fill(service.databaseUrl, { tenant, page: service.page.id }, count, samples);
  const rules = Array.from({ length: 50 }, (_, at) => ({
    priority: at + 1,
    container: `/customers/${at * 20}/`,
    transform: 'mask',
    permissions: ['token:read'],
  }));
  const { key: fiftyRules } = await service.call<CreatedApplication>('POST', '/applications', {
    name: 'fifty rules',
    type: 'private',
    rules,
  });
  for (const id of sampled.tokens.slice(0, 20))
    await service.call('PATCH', `/tokens/${id}`, { type: 'seen' });
  await fillAudit(service.databaseUrl, tenant, count);
  const name = `${count.toLocaleString('en-US')} of each`;
  return { name, count, service, sampled, tenant, fiftyRules };
}

const cursor = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

interface Workload {
  readonly requests: string[];
  readonly status: number;
}

function workloads({ service, sampled, fiftyRules }: FilledService): Record<string, Workload> {
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
    'search for a token by value': read(
      tokens.map((id) => requestBytes('POST', '/tokens/search', key, { equals: { id } })),
    ),
    'list applications after a cursor': read(
      applications.slice(50).map(({ id }) => requestBytes('GET', `/applications?start=${cursor(id)}`, key)),
    ),
    'list tokens with fifty rules': read(
      tokens.slice(50).map((id) => requestBytes('GET', `/tokens?start=${cursor(id)}`, fiftyRules)),
    ),
    'search the audit log for a token': read(
      tokens.slice(0, 20).map((id) => requestBytes('GET', `/logs?token=${id}`, key)),
    ),
    'search the audit log for an application': read(
      [service.page.id, service.backend.id].map((id) => requestBytes('GET', `/logs?actor=${id}`, key)),
    ),
    'search the audit log for an operation': read([
      requestBytes('GET', '/logs?operation=token.update&result=success', key),
    ]),
    'create an application': create('/applications', application),
    'create a session': { requests: [requestBytes('POST', '/sessions', service.page.key)], status: 201 },
    'create a token': create('/tokens', { container: '/customers/42/', data: 'x'.repeat(100) }),
  };
}

const whoWork = 'list who can read a container, per examined row';

export async function growthRows(
  environment: Environment,
  database: DatabaseName,
  effort: Effort,
): Promise<Row[]> {
  const short = effort.quick
    ? { ...effort, rounds: 2, seconds: 0.1, warmUp: 0 }
    : { ...effort, rounds: 3, seconds: 1, warmUp: 0.5 };
  const rows: Row[] = [];
  const samples = effort.quick ? 100 : 500;
  const small = await fillService(environment, database, 1000, samples);
  const large = await fillService(environment, database, effort.quick ? 5000 : 1_000_000, samples);
  // The first workload examines all rows, and later ones create more.
  for (const work of [whoWork, ...Object.keys(workloads(small))]) {
    const named = (filled: FilledService) => `${work}, ${filled.name}`;
    const pair = [small, large].map((filled) => ({ ...candidateFor(filled, work), name: named(filled) }));
    const series = await compare(pair, short);
    const spec = {
      group: 'growth',
      work: `${work}, ${database}, ${large.name}`,
      baseline: `Sallyport with ${small.name}`,
      unit: 'µs',
      maxRatio: 1.5,
    };
    rows.push(costRow(spec, seriesOf(series, named(large)), seriesOf(series, named(small)), cpuTime));
  }
  rows.push(await sweepRow(large, candidateFor(large, 'create a session'), database, short));
  await small.service.stop();
  await large.service.stop();
  return rows;
}

function candidateFor(filled: FilledService, work: string): Candidate {
  if (work === whoWork) return whoCandidate(filled);
  const { name, service } = filled;
  // At most 32 long requests of an application wait at a time.
  const plan = { port: service.port, ...(workloads(filled)[work] as Workload), connections: 16 };
  const loaded = underLoad(`${work}, ${name}`, service.pid, plan, service.database);
  const onSqlite = service.database === undefined;
  return onSqlite && work.startsWith('look') ? withConcurrentCommits(loaded, service.databaseUrl) : loaded;
}

/**
 * Commits on another connection during the measurement. On SQLite each commit invalidates the credential cache, so keys
 * are looked up in the database.
 */
function withConcurrentCommits(candidate: Candidate, databaseUrl: string): Candidate {
  return {
    name: candidate.name,
    measure: async (seconds) => {
      const db = new Database(databaseUrl.slice('sqlite:'.length));
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

/** A request examines at most this many applications and sessions. */
const maxExamined = 20_000;

function whoCandidate({ name, count, service }: FilledService): Candidate {
  const request = requestBytes('GET', '/access/who?container=/customers/42/&size=1', service.key);
  const requests = { port: service.port, requests: [request], status: 200, connections: 4 };
  const loaded = underLoad(name, service.pid, requests, service.database);
  const examined = Math.min(2 * count, maxExamined);
  return {
    name,
    measure: async (seconds) => {
      const { processor = 0, database = 0, rate } = await loaded.measure(seconds);
      return { rate: rate * examined, processor: processor / examined, database: database / examined };
    },
  };
}
