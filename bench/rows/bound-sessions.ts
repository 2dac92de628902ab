/** Requests of bound sessions and of many sessions, compared with the same request of one session. */
import { Prover } from '../../test/support/dpop.ts';
import { type Candidate, compare, type Effort, seriesOf, underLoad } from '../compare.ts';
import type { Environment, PreparedService } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
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
  return Object.keys(services).flatMap((database) => {
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
}
