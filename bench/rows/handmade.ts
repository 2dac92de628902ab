/** Tokens of 1 KB, compared with a custom service (bench/peers/handmade.mjs) on the same database. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Candidate, compare, type Effort, type Requests, seriesOf, underLoad } from '../compare.ts';
import type { CreatedApplication, Environment, PreparedService } from '../environment.ts';
import { type Peer, startPeer } from '../peers.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes } from '../servers.ts';

/** The peer masks in the same way, but with a fixed expression instead of a template. */
const mask = '************{{ data.last4 }}';
const token = { container: '/customers/42/', data: { note: 'x'.repeat(980), last4: '4242' }, mask };
const tokens = 100;

/** A server with two keys: `key` creates tokens and reads their plaintext, `maskedKey` reads them masked. */
interface Contestant {
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  readonly database: number | undefined;
  readonly url: string;
  readonly key: string;
  readonly maskedKey: string;
}

const works = {
  masked: 'read a masked token',
  plaintext: 'read the plaintext of a token, with a durable audit entry',
  create: 'create a token, with an audit entry',
} as const;
type Work = keyof typeof works;

/** The requests of a workload. Reads rotate over stored tokens, which this creates. */
export async function tokenRequests(contestant: Contestant, work: Work): Promise<Requests> {
  const { port, url, key, maskedKey } = contestant;
  if (work === 'create')
    return { port, requests: [requestBytes('POST', '/tokens', key, token)], status: 201 };
  const ids = await Promise.all(Array.from({ length: tokens }, () => createToken(url, key)));
  const as = work === 'masked' ? maskedKey : key;
  return { port, requests: ids.map((id) => requestBytes('GET', `/tokens/${id}`, as)), status: 200 };
}

async function loadOf(contestant: Contestant, work: Work): Promise<Candidate> {
  const { name, pid, database } = contestant;
  return underLoad(name, pid, await tokenRequests(contestant, work), database);
}

async function createToken(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/tokens`, {
    method: 'POST',
    headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(token),
  });
  if (response.status !== 201) throw new Error(`POST /tokens: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { id: string }).id;
}

export async function ours(name: string, service: PreparedService): Promise<Contestant> {
  const support = { name: 'bench support', type: 'private', permissions: ['token:read'] };
  const { key } = await service.call<CreatedApplication>('POST', '/applications', support);
  const { pid, port, database, url, backend } = service;
  return { name, pid, port, database, url, key: backend.key, maskedKey: key };
}

export function handmade(name: string, { pid, port, url, key, printed }: Peer): Contestant {
  const maskedKey = /^masked (\S+)$/m.exec(printed)?.[1] ?? '';
  return { name, pid, port, database: undefined, url, key, maskedKey };
}

export async function handmadeRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-peer-'));
  const peers = {
    SQLite: await startPeer('handmade', { DATABASE: `sqlite:${join(folder, 'tokens.db')}` }),
    PostgreSQL: await startPeer('handmade', { DATABASE: await environment.database() }),
  };
  const services = { SQLite: environment.onSqlite, PostgreSQL: environment.onPostgres };
  const rows: Row[] = [];
  for (const database of ['SQLite', 'PostgreSQL'] as const) {
    const mine = await ours('ours', services[database]);
    const theirs = handmade('by hand', peers[database]);
    for (const work of Object.keys(works) as Work[]) {
      const series = await compare([await loadOf(mine, work), await loadOf(theirs, work)], effort);
      const baseline = 'a custom service: Fastify, node:crypto and SQL';
      rows.push(
        rowOf(
          { group: 'handmade', work: `${works[work]}, ${database}`, baseline, unit: '/s', min: 2 },
          seriesOf(series, 'ours'),
          seriesOf(series, 'by hand'),
        ),
      );
    }
    await peers[database].stop();
  }
  rmSync(folder, { recursive: true });
  return rows;
}
