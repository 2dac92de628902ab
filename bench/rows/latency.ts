/**
 * Latency with requests that arrive at constant intervals: beside a bare server at half of each server's own maximum
 * rate, and beside another product at half of that product's maximum rate.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Candidate, compare, type Effort, type Requests, seriesOf, underLoad } from '../compare.ts';
import { type Environment, type PreparedService, sessionRules } from '../environment.ts';
import { startPeer } from '../peers.ts';
import { costRow, type Row } from '../report.ts';
import { requestBytes, startBareServer } from '../servers.ts';
import { handmade, ours as oursOf, tokenRequests } from './handmade.ts';

/** A server and what is sent to it. */
export interface Target {
  readonly name: string;
  readonly pid: number;
  readonly requests: Requests;
}

/** The rate that a server reaches when 64 connections send as fast as they can: the best round. */
export async function maxRate({ name, pid, requests }: Target, effort: Effort): Promise<number> {
  const rounds = effort.quick ? 1 : 2;
  const series = await compare([underLoad(name, pid, requests)], { ...effort, rounds });
  return Math.max(...seriesOf(series, name).samples.map(({ rate }) => rate));
}

/** Sends requests at a constant rate. A slow server is measured longer, to have enough samples for percentiles. */
export function atRate({ name, pid, requests }: Target, rate: number, effort: Effort): Candidate {
  const loaded = underLoad(name, pid, { ...requests, rate });
  const [arrivals, maxSeconds] = effort.quick ? [50, 1] : [1000, 6];
  const atLeast = Math.min(arrivals / rate, maxSeconds);
  return { name, measure: (seconds) => loaded.measure(Math.max(seconds, atLeast)) };
}

/** Warms up at the same rate: code that was compiled under full load may be compiled again below it. */
async function warmedUp(candidate: Candidate, effort: Effort): Promise<Candidate> {
  await candidate.measure(effort.quick ? effort.seconds : warmUpSeconds);
  return candidate;
}

const warmUpSeconds = 6;
/** In a shorter window, p99 is the duration of a single pause of a server. */
const windowSeconds = 3;
const databases = ['SQLite', 'PostgreSQL'] as const;
const unit = 'ms (p99)';
const group = 'latency';

export async function latencyRows(environment: Environment, effort: Effort): Promise<Row[]> {
  return [
    ...(await compareWithBare('GET /applications/key', environment, effort, (service) => ({
      port: service.port,
      requests: [requestBytes('GET', '/applications/key', service.backend.key)],
      status: 200,
    }))),
    ...(await decisionLatency(environment, effort)),
    ...(await maskedReadLatency(environment, effort)),
    ...(await pairLatency(environment, effort)),
  ];
}

const services = ({ onSqlite, onPostgres }: Environment) => ({ SQLite: onSqlite, PostgreSQL: onPostgres });

/** Compares the service on both databases with a bare server that sends the same bytes, then with the peers. */
async function compareWithBare(
  work: string,
  environment: Environment,
  effort: Effort,
  requestsOf: (service: PreparedService) => Requests,
  peers: readonly { target: Target; database: string; baseline: string; maxRatio: number }[] = [],
  target: 'three times' | 'none' = 'three times',
): Promise<Row[]> {
  const sent = requestsOf(environment.onSqlite);
  const bare = await startBareServer(await recordResponses(environment.onSqlite, sent));
  const own = databases.map((database) => {
    const service = services(environment)[database];
    return { name: database, pid: service.pid, requests: requestsOf(service) };
  });
  const candidates: Candidate[] = [];
  const add = async (target: Target, rate: number) =>
    candidates.push(await warmedUp(atRate(target, rate, effort), effort));
  for (const target of [{ name: 'bare', pid: bare.pid, requests: { ...sent, port: bare.port } }, ...own])
    await add(target, (await maxRate(target, effort)) / 2);
  for (const { target, database } of peers) {
    const rate = (await maxRate(target, effort)) / 2;
    await add(target, rate);
    const ours = own.find(({ name }) => name === database) as Target;
    await add({ ...ours, name: besidePeer(target) }, rate);
  }
  const seconds = effort.quick ? effort.seconds : windowSeconds;
  const series = await compare(candidates, { ...effort, seconds, warmUp: 0 });
  await bare.stop();
  const row = (database: string, ours: string, baseline: string, theirs: string, max?: number) =>
    costRow(
      {
        group,
        work: `${work}, ${database}`,
        baseline,
        unit,
        ...(max !== undefined && { maxRatio: max }),
      },
      seriesOf(series, ours),
      seriesOf(series, theirs),
      ({ p99 = 0 }) => p99,
    );
  return [
    ...databases.map((database) =>
      row(database, database, 'a bare server with the same bytes', 'bare', target === 'none' ? undefined : 3),
    ),
    ...peers.map(({ database, target, baseline, maxRatio }) =>
      row(database, besidePeer(target), baseline, target.name, maxRatio),
    ),
  ];
}

const besidePeer = ({ name }: Target) => `ours beside ${name}`;

/** Sends each of `requests` once, and returns the responses by method and path. Does not send `second`. */
async function recordResponses(service: PreparedService, { requests, second }: Requests) {
  const responses: Parameters<typeof startBareServer>[0] = {};
  for (const text of requests) {
    const [, method = '', path = ''] = /^(\S+) (\S+)/.exec(text) ?? [];
    const key = /^SVC-API-KEY: (\S+)/m.exec(text)?.[1];
    const body = text.split('\r\n\r\n')[1];
    responses[`${method} ${path}`] = await service.response(
      method,
      path,
      body ? JSON.parse(body) : undefined,
      key,
    );
  }
  if (second) responses['POST /sessions/authorize'] = { status: second.status, headers: {}, body: '' };
  return responses;
}

async function decisionLatency(environment: Environment, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-peer-'));
  const peers = {
    SQLite: await startPeer('better-auth', { DATABASE: `sqlite:${join(folder, 'auth.db')}` }),
    PostgreSQL: await startPeer('better-auth', { DATABASE: await environment.database() }),
  };
  const rows = await compareWithBare(
    'POST /decisions',
    environment,
    effort,
    ({ port, backend }) => {
      const resource = { container: '/customers/42/' };
      const body = { credential: backend.key, permission: 'invoice:read', resource };
      return { port, requests: [requestBytes('POST', '/decisions', backend.key, body)], status: 200 };
    },
    databases.map((database) => {
      const { pid, port, key } = peers[database];
      const body = { credential: key, permissions: { invoice: ['read'] } };
      const requests = { port, requests: [requestBytes('POST', '/', '', body)], status: 200 };
      const target = { name: `Better Auth, ${database}`, pid, requests };
      return {
        target,
        database,
        baseline: 'Better Auth on the same database, at half of its rate',
        maxRatio: 0.1,
      };
    }),
  );
  for (const database of databases) await peers[database].stop();
  rmSync(folder, { recursive: true });
  return rows;
}

async function maskedReadLatency(environment: Environment, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-peer-'));
  const peers = {
    SQLite: await startPeer('handmade', { DATABASE: `sqlite:${join(folder, 'tokens.db')}` }),
    PostgreSQL: await startPeer('handmade', { DATABASE: await environment.database() }),
  };
  const sent = new Map<unknown, Requests>();
  for (const service of [environment.onSqlite, environment.onPostgres])
    sent.set(service, await tokenRequests(await oursOf('ours', service), 'masked'));
  const targets = [];
  for (const database of databases) {
    const requests = await tokenRequests(handmade('by hand', peers[database]), 'masked');
    const target = { name: `by hand, ${database}`, pid: peers[database].pid, requests };
    const baseline = 'a custom service on the same database, at half of its rate';
    targets.push({ target, database, baseline, maxRatio: 0.5 });
  }
  const rows = await compareWithBare(
    'read a masked 1 KB token',
    environment,
    effort,
    (service) => sent.get(service) as Requests,
    targets,
  );
  for (const database of databases) await peers[database].stop();
  rmSync(folder, { recursive: true });
  return rows;
}

/** Published without a target, because a bare server does not write. */
function pairLatency(environment: Environment, effort: Effort): Promise<Row[]> {
  return compareWithBare('create and authorize a session', environment, effort, pairRequests, [], 'none');
}

export function pairRequests({ port, page, backend }: PreparedService): Requests {
  const nonce = 'NONCE'.padEnd(63, ' ');
  const grant = requestBytes('POST', '/sessions/authorize', backend.key, { nonce, rules: sessionRules });
  return {
    port,
    requests: [requestBytes('POST', '/sessions', page.key)],
    status: 201,
    second: { request: grant.replace(nonce, 'NONCE'), status: 204 },
  };
}
