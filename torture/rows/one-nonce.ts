import { clientsOf, each } from '../clients.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

const racers = 50;

export const oneNonce: Row = {
  name: 'one-nonce',
  must: '50 concurrent authorizes of one nonce over 3 nodes, 2,000 rounds, half on each database: exactly one success each',
  databases: bothDatabases,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(1000, 6);
  const { fleet, call, must, application } = clientsOf(context, await context.fleet());
  const { key } = await fleet.tenant();
  const web = await application(key, { type: 'public' });
  const counts = new Map<number, number>();
  const shortfalls: string[] = [];
  let odd = 0;

  /** Even racers grant one thing, odd ones another, so that the Session shows whose grant counts. */
  await each(rounds, 2, async (round) => {
    const { nonce, session_key } = await must(round, 'POST', '/sessions', { key: web.key });
    const answers = await Promise.all(
      Array.from({ length: racers }, (_, racer) => {
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
    shortfalls.push(`round ${round}: ${winners.length} successes, then the Session got ${seen.status}`);
  });

  const expected = [204, 409, 503];
  const unexpected = [...counts].filter(([status]) => !expected.includes(status));
  for (const [status, count] of unexpected)
    shortfalls.push(`${count} authorizes were answered with ${status}`);
  return {
    figures: {
      rounds,
      successes: counts.get(204) ?? 0,
      'refused as used': counts.get(409) ?? 0,
      'told to try again (503)': counts.get(503) ?? 0,
      'rounds without exactly one success': odd,
    },
    shortfalls: shortfalls.slice(0, 10),
  };
}
