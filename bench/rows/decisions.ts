/** Decisions about a credential, compared with Better Auth's API keys and an OpenID provider's token introspection. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, type Effort, seriesOf, underLoad } from '../compare.ts';
import type { Environment, PreparedService } from '../environment.ts';
import { type Peer, startPeer } from '../peers.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes } from '../servers.ts';

function decideCandidate(name: string, service: PreparedService, credential: string) {
  const body = { credential, permission: 'invoice:read', resource: { container: '/customers/42/' } };
  const requests = [requestBytes('POST', '/decisions', service.backend.key, body)];
  return underLoad(name, service.pid, { port: service.port, requests, status: 200 }, service.database);
}

function verifyCandidate(name: string, peer: Peer) {
  const body = { credential: peer.key, permissions: { invoice: ['read'] } };
  return underLoad(name, peer.pid, {
    port: peer.port,
    requests: [requestBytes('POST', '/', '', body)],
    status: 200,
  });
}

export async function decisionRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const { onSqlite, onPostgres } = environment;
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-peer-'));
  const peers = [
    await startPeer('better-auth', { DATABASE: `sqlite:${join(folder, 'auth.db')}` }),
    await startPeer('better-auth', { DATABASE: await environment.database() }),
  ] as const;
  const series = await compare(
    [
      decideCandidate('ours, SQLite', onSqlite, onSqlite.backend.key),
      verifyCandidate('theirs, SQLite', peers[0]),
      decideCandidate('ours, PostgreSQL', onPostgres, onPostgres.backend.key),
      verifyCandidate('theirs, PostgreSQL', peers[1]),
    ],
    effort,
  );
  for (const each of peers) await each.stop();
  rmSync(folder, { recursive: true });
  const baseline = 'Better Auth, verifyApiKey on the same database';
  return ['SQLite', 'PostgreSQL'].map((database) =>
    rowOf(
      { group: 'decisions', work: `POST /decisions, ${database}`, baseline, unit: '/s', min: 30 },
      seriesOf(series, `ours, ${database}`),
      seriesOf(series, `theirs, ${database}`),
    ),
  );
}

export async function introspectionRows(
  { onSqlite, onPostgres }: Environment,
  effort: Effort,
): Promise<Row[]> {
  const provider = await startPeer('oidc');
  const basic = `Authorization: Basic ${btoa('bench:bench-secret-that-is-long-enough')}\r\n`;
  const introspect = requestBytes('POST', '/token/introspection', '', `token=${provider.key}`, basic);
  const series = await compare(
    [
      decideCandidate('SQLite', onSqlite, onSqlite.session),
      underLoad('provider', provider.pid, { port: provider.port, requests: [introspect], status: 200 }),
      decideCandidate('PostgreSQL', onPostgres, onPostgres.session),
    ],
    effort,
  );
  await provider.stop();
  const baseline = 'oidc-provider, introspection in memory';
  return ['SQLite', 'PostgreSQL'].map((database) =>
    rowOf(
      {
        group: 'decisions',
        work: `introspect a session, ${database}`,
        baseline,
        unit: '/s',
        min: database === 'SQLite' ? 5 : 4,
      },
      seriesOf(series, database),
      seriesOf(series, 'provider'),
    ),
  );
}
