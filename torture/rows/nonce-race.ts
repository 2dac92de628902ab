import { clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

const racers = 50;

export const oneNonce: Row = {
  name: 'nonce-race',
  requirement:
    '50 concurrent authorizations of one nonce over 3 nodes, 2,000 rounds, half on each database: exactly one success each',
  databases: allDatabases,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(1000, 6);
  const { fleet, call, must, application } = clientsOf(context, await context.fleet());
  const { key } = await fleet.tenant();
  const web = await application(key, { type: 'public' });
  const counts = new Map<number, number>();
  const failures: string[] = [];
  let odd = 0;

  await forEachConcurrently(rounds, 2, async (round) => {
    const { nonce, session_key } = await must(round, 'POST', '/sessions', { key: web.key });
    const answers = await Promise.all(
      Array.from({ length: racers }, (_, racer) => {
        // Even and odd requests grant different permissions, so the session shows which kind succeeded.
        const permissions = [racer % 2 === 0 ? 'application:read' : 'token:read'];
        return call(racer, 'POST', '/sessions/authorize', { key, body: { nonce, permissions } });
      }),
    );
    for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
    const winners = answers.flatMap(({ status }, racer) => (status === 204 ? [racer] : []));
    const seen = await call(round, 'GET', '/applications/key', { key: session_key });
    const expected = (winners[0] ?? 0) % 2 === 0 ? 200 : 403;
    if (winners.length === 1 && seen.status === expected) return;
    odd++;
    failures.push(`round ${round}: ${winners.length} successes, then the session got ${seen.status}`);
  });

  const expected = [204, 409, 503];
  const unexpected = [...counts].filter(([status]) => !expected.includes(status));
  for (const [status, count] of unexpected) failures.push(`${count} authorizations returned ${status}`);
  return {
    figures: {
      rounds,
      successes: counts.get(204) ?? 0,
      'rejected as used': counts.get(409) ?? 0,
      'retried (503)': counts.get(503) ?? 0,
      'rounds without exactly one success': odd,
    },
    failures: failures.slice(0, 10),
  };
}
