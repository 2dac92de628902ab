/** Is this credential valid, and may it do that? Beside Better Auth's api keys, and an OpenID provider's introspection. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { contest, type Effort, named, underLoad } from '../contest.ts';
import { type Peer, startPeer } from '../peers.ts';
import { type Row, rowOf } from '../report.ts';
import { wire } from '../servers.ts';
import type { Furnished, Stage } from '../stage.ts';

/** Ours: with the key of whoever asks, about another one. */
function decides(name: string, service: Furnished, credential: string) {
  const body = { credential, permission: 'invoice:read', resource: { container: '/customers/42/' } };
  const requests = [wire('POST', '/decisions', service.backend.key, body)];
  return underLoad(name, service.pid, { port: service.port, requests, status: 200 }, service.database);
}

function verifies(name: string, peer: Peer) {
  const body = { credential: peer.key, permissions: { invoice: ['read'] } };
  return underLoad(name, peer.pid, { port: peer.port, requests: [wire('POST', '/', '', body)], status: 200 });
}

export async function decisionRows(stage: Stage, effort: Effort): Promise<Row[]> {
  const { onSqlite, onPostgres } = stage;
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-peer-'));
  const peers = [
    await startPeer('better-auth', { DATABASE: `sqlite:${join(folder, 'auth.db')}` }),
    await startPeer('better-auth', { DATABASE: await stage.database() }),
  ] as const;
  const series = await contest(
    [
      decides('ours, SQLite', onSqlite, onSqlite.backend.key),
      verifies('theirs, SQLite', peers[0]),
      decides('ours, PostgreSQL', onPostgres, onPostgres.backend.key),
      verifies('theirs, PostgreSQL', peers[1]),
    ],
    effort,
  );
  for (const each of peers) await each.stop();
  rmSync(folder, { recursive: true });
  const beside = 'Better Auth, verifyApiKey on the same database';
  return ['SQLite', 'PostgreSQL'].map((database) =>
    rowOf(
      { group: 'decisions', work: `POST /decisions, ${database}`, beside, unit: '/s', least: 25 },
      named(series, `ours, ${database}`),
      named(series, `theirs, ${database}`),
    ),
  );
}

export async function introspectionRows({ onSqlite, onPostgres }: Stage, effort: Effort): Promise<Row[]> {
  const provider = await startPeer('oidc');
  const basic = `Authorization: Basic ${btoa('bench:bench-secret-that-is-long-enough')}\r\n`;
  const introspect = wire('POST', '/token/introspection', '', `token=${provider.key}`, basic);
  const series = await contest(
    [
      decides('SQLite', onSqlite, onSqlite.session),
      underLoad('provider', provider.pid, { port: provider.port, requests: [introspect], status: 200 }),
      decides('PostgreSQL', onPostgres, onPostgres.session),
    ],
    effort,
  );
  await provider.stop();
  const beside = 'oidc-provider, introspection in memory';
  return ['SQLite', 'PostgreSQL'].map((database) =>
    rowOf(
      { group: 'decisions', work: `introspect a Session, ${database}`, beside, unit: '/s', least: 3 },
      named(series, database),
      named(series, 'provider'),
    ),
  );
}
