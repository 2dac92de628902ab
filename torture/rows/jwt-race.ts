import { IssuerKey, openIssuer, tokenExchange } from '../../test/support/issuer.ts';
import { clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

const racers = 24;
/** Fewer than the keys that an application can have at a time. */
const roundsPerApplication = 400;

export const oneExchange: Row = {
  name: 'jwt-race',
  requirement:
    '24 concurrent exchanges of one JWT for keys of 2 applications over 3 nodes, 1,000 rounds, half on each database: exactly one key each, which is valid on every node; forged, changed and expired copies sent at the same time get none',
  databases: allDatabases,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(500, 6);
  const { fleet, call, must, application } = clientsOf(context, await context.fleet());
  const { key } = await fleet.tenant();
  const tag = key.slice(8, 14);
  const signer = new IssuerKey('torture');
  const stranger = new IssuerKey('torture');
  const issuer = openIssuer(signer);
  context.defer(() => issuer.close());
  const trusted_issuers = [{ issuer: issuer.url, audience: 'torture', claims: { sub: 'job' } }];
  const fields = { permissions: ['application:read'], trusted_issuers };
  const pairs = await Promise.all(
    Array.from({ length: Math.ceil(rounds / roundsPerApplication) }, async () => [
      await application(key, fields),
      await application(key, fields),
    ]),
  );
  const failures: string[] = [];
  const counts = new Map<number, number>();
  let forgedAccepted = 0;
  let odd = 0;

  const exchange = (node: number, clientId: string, jwt: string) =>
    call(node, 'POST', '/oauth/token', {
      body: new URLSearchParams({ ...tokenExchange, client_id: clientId, subject_token: jwt }).toString(),
      headers: ['Content-Type: application/x-www-form-urlencoded'],
    });

  await forEachConcurrently(rounds, 2, async (round) => {
    const pair = pairs[Math.floor(round / roundsPerApplication)] ?? [];
    const clientId = (racer: number) => `${tag}.${pair[racer % 2].id}`;
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: issuer.url, aud: 'torture', sub: 'job', jti: `${round}`, iat: now, exp: now + 600 };
    const jwt = signer.jwt(claims);
    const other = { ...claims, jti: `forged ${round}` };
    const [head, , signature] = jwt.split('.');
    const changed = [head, signer.jwt(other).split('.')[1], signature].join('.');
    const forged = [changed, stranger.jwt(other), signer.jwt({ ...other, exp: now - 3600 })];
    const [answers, refused] = await Promise.all([
      Promise.all(Array.from({ length: racers }, (_, racer) => exchange(racer, clientId(racer >> 1), jwt))),
      Promise.all(forged.map((copy, at) => exchange(at, clientId(at), copy))),
    ]);
    for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
    forgedAccepted += refused.filter(({ status }) => status === 200).length;
    const issued = answers.filter(({ status }) => status === 200);
    const keys = issued.map(({ text }) => context.secrets.add(JSON.parse(text).access_token));
    const seen = await Promise.all(
      fleet.nodes.map((_, node) => call(node, 'GET', '/applications/key', { key: keys[0] })),
    );
    if (issued.length === 1 && seen.every(({ status }) => status === 200)) return;
    odd++;
    failures.push(`round ${round}: ${issued.length} keys, then ${seen.map(({ status }) => status)}`);
  });

  for (const [first, second] of pairs)
    for (const { id } of [first, second])
      await must(0, 'PUT', `/applications/${id}`, {
        key,
        body: { name: 'done', permissions: ['application:read'], trusted_issuers: [] },
      });
  if (forgedAccepted > 0) failures.push(`${forgedAccepted} forged JWTs were accepted`);
  const unexpected = [...counts].filter(([status]) => ![200, 400, 503].includes(status));
  for (const [status, count] of unexpected) failures.push(`${count} exchanges returned ${status}`);
  return {
    figures: {
      rounds,
      keys: counts.get(200) ?? 0,
      'rejected as used': counts.get(400) ?? 0,
      'retried (503)': counts.get(503) ?? 0,
      'forged JWTs accepted': forgedAccepted,
      'rounds without exactly one key': odd,
    },
    failures: failures.slice(0, 10),
  };
}
