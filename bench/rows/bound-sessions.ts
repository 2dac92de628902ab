/** Requests of bound sessions and of many sessions, compared with the same request of one session. */
import { createPublicKey, verify } from 'node:crypto';
import { Prover } from '../../test/support/dpop.ts';
import { type Candidate, compare, type Effort, figure, seriesOf, underLoad } from '../compare.ts';
import type { Environment, PreparedService } from '../environment.ts';
import { maxRow, type Row, rowOf } from '../report.ts';
import { requestBytes } from '../servers.ts';

const path = '/applications/key';
/** The URL of the requests that `requestBytes` makes. */
const origin = 'http://127.0.0.1';
/** How many proofs are signed in advance for each second of a run. Each proof is accepted once. */
const maxRate = 12_000;
const manySessions = 500;

async function authorizedSession(
  { url, page, backend }: PreparedService,
  proof?: string,
): Promise<{ key: string; dpopNonce: string | null }> {
  const headers = { 'SVC-API-KEY': page.key, ...(proof !== undefined && { DPoP: proof, Host: '127.0.0.1' }) };
  const created = await fetch(`${url}/sessions`, { method: 'POST', headers });
  const { session_key, nonce } = (await created.json()) as { session_key: string; nonce: string };
  const expires_at = new Date(Date.now() + 86_400_000).toISOString();
  const authorized = await fetch(`${url}/sessions/authorize`, {
    method: 'POST',
    headers: { 'SVC-API-KEY': backend.key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ nonce, permissions: ['application:read'], expires_at }),
  });
  if (authorized.status !== 204) throw new Error(await authorized.text());
  return { key: session_key, dpopNonce: created.headers.get('dpop-nonce') };
}

/** Signs the proofs before each measurement, with a nonce that is valid during it. */
function boundCandidate(name: string, service: PreparedService): Candidate {
  const prover = new Prover();
  return {
    name,
    measure: async (seconds) => {
      const create = prover.proof({ method: 'POST', url: `${origin}/sessions` });
      const { key, dpopNonce } = await authorizedSession(service, create);
      const requests = Array.from({ length: Math.ceil(maxRate * seconds) + 1000 }, () => {
        const proof = prover.proof({ url: origin + path, key, nonce: dpopNonce ?? undefined });
        return requestBytes('GET', path, key, undefined, `DPoP: ${proof}\r\n`);
      });
      const plan = { port: service.port, requests, status: 200 };
      return underLoad(name, service.pid, plan, service.database).measure(seconds);
    },
  };
}

/** Requests of `count` sessions in turn. */
async function unboundCandidate(name: string, service: PreparedService, count: number): Promise<Candidate> {
  const requests: string[] = [];
  while (requests.length < count)
    requests.push(requestBytes('GET', path, (await authorizedSession(service)).key));
  return underLoad(name, service.pid, { port: service.port, requests, status: 200 }, service.database);
}

/** The CPU time of one verification by the runtime, without HTTP, which no request of a bound session can do without. */
function floorRow(): Row {
  const prover = new Prover();
  const [signed, signature] = [
    Buffer.from('x'.repeat(400)),
    Buffer.from(prover.sign('x'.repeat(400)), 'base64url'),
  ];
  const key = { key: createPublicKey(prover.privateKey), dsaEncoding: 'ieee-p1363' } as const;
  const times = Array.from({ length: 6 }, () => {
    const before = process.cpuUsage();
    for (let at = 0; at < 1000; at++) verify('sha256', signed, key, signature);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  const spec = { group: 'reads', work: 'verifying one ES256 signature', baseline: 'nothing' };
  return maxRow({ ...spec, unit: 'µs of CPU time' }, figure(times.slice(1)), figure([1]));
}

export async function boundSessionRows(
  { onSqlite, onPostgres }: Environment,
  effort: Effort,
): Promise<Row[]> {
  const services = { SQLite: onSqlite, PostgreSQL: onPostgres };
  const candidates: Candidate[] = [];
  for (const [database, service] of Object.entries(services))
    candidates.push(
      boundCandidate(`bound, ${database}`, service),
      await unboundCandidate(`one, ${database}`, service, 1),
      await unboundCandidate(`many, ${database}`, service, manySessions),
    );
  const series = await compare(candidates, effort);
  const rows = Object.keys(services).flatMap((database) => {
    const spec = { group: 'reads', baseline: 'the same with one session that is not bound', unit: '/s' };
    const one = seriesOf(series, `one, ${database}`);
    return [
      rowOf(
        { ...spec, work: `GET ${path} with a bound session, ${database}`, min: 0.45 },
        seriesOf(series, `bound, ${database}`),
        one,
      ),
      rowOf(
        {
          ...spec,
          work: `GET ${path} with ${manySessions} sessions in turn, ${database}`,
          ...(database === 'SQLite' && { min: 0.8 }),
        },
        seriesOf(series, `many, ${database}`),
        one,
      ),
    ];
  });
  return [...rows, floorRow()];
}
