/** The same work with a thousand and with a million of everything, and with ten million Sessions, beside itself. */
import { Database } from 'bun:sqlite';
import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { newId } from '../../src/domain/key.ts';
import {
  type Contestant,
  contest,
  type Effort,
  figure,
  named,
  ratio,
  type Sample,
  underLoad,
} from '../contest.ts';
import { fill, fillSessions, openFilled, roomOfMany, type Sampled } from '../fill.ts';
import type { Row } from '../report.ts';
import { startService, wire } from '../servers.ts';
import { type Furnished, furnish } from '../stage.ts';

interface Grown {
  /** How many of what. */
  readonly name: string;
  readonly service: Furnished;
  readonly sampled: Sampled;
  readonly tenant: string;
}

/** So many of each, but of Sessions as many as that. */
async function grow(count: number, sessions = count): Promise<Grown> {
  const service = await furnish(await startService());
  const { tenant_id: tenant } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
  const owner = { tenant, page: service.page.id };
  const sampled = await fill(service.databaseUrl, owner, count);
  if (sessions > count) fillSessions(service.databaseUrl, owner, sessions - count);
  const name = sessions > count ? `${inWords(sessions)} Sessions` : `${inWords(count)} of each`;
  return { name, service, sampled, tenant };
}

const inWords = (count: number) => count.toLocaleString('en-US');

const cursor = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

/** What is asked of a service, and what it should answer. */
function works({ service, sampled }: Grown): Record<string, { requests: string[]; status: number }> {
  const { key } = service;
  const read = (requests: string[]) => ({ requests, status: 200 });
  const create = (path: string, body: object) => ({
    requests: [wire('POST', path, key, body)],
    status: 201,
  });
  const application = { name: 'grown', type: 'private', permissions: ['application:read'] };
  const { applications, sessions, tokens } = sampled;
  return {
    'look up the key of an Application': read(
      applications.map((each) => wire('GET', '/applications/key', each.key)),
    ),
    'look up the key of a Session': read(sessions.map((each) => wire('GET', '/applications/key', each))),
    'get an Application': read(applications.map(({ id }) => wire('GET', `/applications/${id}`, key))),
    'get a Token': read(tokens.map((id) => wire('GET', `/tokens/${id}`, key))),
    'a page of Applications behind a cursor': read(
      applications.slice(50).map(({ id }) => wire('GET', `/applications?start=${cursor(id)}`, key)),
    ),
    'create an Application': create('/applications', application),
    'create a Session': { requests: [wire('POST', '/sessions', service.page.key)], status: 201 },
    'create a Token': create('/tokens', { container: '/customers/42/', data: 'x'.repeat(100) }),
  };
}

/**
 * With somebody else committing all the time, so that no key is remembered from one request to the next and every
 * one of them is looked up in the tables.
 */
function amongCommits(contestant: Contestant, path: string): Contestant {
  return {
    name: contestant.name,
    measure: async (seconds) => {
      const db = new Database(path);
      db.run('pragma synchronous = off');
      db.run('pragma busy_timeout = 5000');
      db.run('create table if not exists bench (one integer primary key, at integer)');
      const commit = db.prepare('insert or replace into bench values (1, ?1)');
      const timer = setInterval(() => commit.run(performance.now()), 1);
      const sample = await contestant.measure(seconds);
      clearInterval(timer);
      commit.finalize();
      db.close();
      return sample;
    },
  };
}

/** Processor time for each of many expired Sessions that are swept away. */
function sweeps({ name, service, tenant }: Grown): Contestant {
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
      const { maintenance, close } = await openFilled(service.databaseUrl);
      const used = process.cpuUsage();
      let removed = 0;
      for (let last = 500; last >= 500; removed += last) last = await maintenance.sweep(500);
      const { user, system } = process.cpuUsage(used);
      await close();
      return { rate: (removed * 1e6) / (user + system), processor: (user + system) / removed };
    },
  };
}

const sweeping = 'sweep a Session';
const ofSessions = ['look up the key of a Session', 'create a Session', sweeping];

export async function growthRows(_: unknown, effort: Effort): Promise<Row[]> {
  const short = effort.quick ? { ...effort, rounds: 1 } : { ...effort, rounds: 3, seconds: 1 };
  const small = await grow(1000);
  const all = [...Object.keys(works(small)), sweeping];
  const rows = await beside(small, await grow(effort.quick ? 20_000 : 1_000_000), all, short);
  if (!effort.quick && hasRoomForMany())
    rows.push(...(await beside(small, await grow(1000, 10_000_000), ofSessions, short)));
  await small.service.stop();
  return rows;
}

function hasRoomForMany(): boolean {
  const { bavail, bsize } = statfsSync(tmpdir());
  if (bavail * bsize > roomOfMany) return true;
  console.warn('too little room on the disk for ten million Sessions: their rows are left out');
  return false;
}

/** The larger one is stopped when it is done. */
async function beside(small: Grown, large: Grown, which: readonly string[], effort: Effort): Promise<Row[]> {
  const rows: Row[] = [];
  for (const work of which) {
    const pair = [small, large].map((grown) => (work === sweeping ? sweeps(grown) : asked(grown, work)));
    rows.push(growthRow(work, small.name, large.name, await contest(pair, effort)));
  }
  await large.service.stop();
  return rows;
}

function asked(grown: Grown, work: string): Contestant {
  const { name, service } = grown;
  const plan = { port: service.port, ...(works(grown)[work] as { requests: string[]; status: number }) };
  const loaded = underLoad(name, service.pid, plan);
  return work.startsWith('look') ? amongCommits(loaded, service.databaseUrl.slice(7)) : loaded;
}

/** By processor time, since what grows is work. */
function growthRow(
  work: string,
  few: string,
  many: string,
  series: Awaited<ReturnType<typeof contest>>,
): Row {
  const of = ({ processor = 0 }: Sample) => processor;
  const [less, more] = [named(series, few), named(series, many)];
  const growth = ratio(more, less, of);
  return {
    group: 'growth',
    work: `${work}, ${many}`,
    beside: `itself, with ${few}`,
    unit: 'µs',
    ours: figure(more.samples.map(of)),
    theirs: figure(less.samples.map(of)),
    ratio: growth,
    most: 1.25,
    reached: growth.median <= 1.25,
  };
}
