import { clientId, TestBrowser, TestProvider } from '../../test/support/sign-in.ts';
import { clientsOf } from '../fleet-clients.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

const people = 4;

export const consoleSessions: Row = {
  name: 'console-sessions',
  requirement:
    'people who sign in and work in the console on 3 nodes while their entry is removed, 300 rounds, half on each database: after the removal, no session works on any node, also none of a sign-in that was under way',
  databases: bothDatabases,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(150, 3);
  const provider = new TestProvider();
  context.defer(() => provider.close());
  const env = { ...TestProvider.settings(provider), SALLYPORT_EXCHANGES_PER_MINUTE: '0' };
  const { fleet, must, application } = clientsOf(context, await context.start({ env }));
  const { key } = await fleet.tenant();
  const query = `provider=1&tenant=${key.slice(8, 14)}`;
  const entry = { issuer: provider.url, audience: clientId, claims: { groups: 'a' }, sign_in_priority: 1 };
  const grants = { name: 'people', permissions: ['application:read'] };
  const { id } = await application(key, { ...grants, type: 'management' });
  const update = (trusted_issuers: object[]) =>
    must(0, 'PUT', `/applications/${id}`, { key, body: { ...grants, trusted_issuers } });
  const node = (at: number) => fleet.nodes[at % fleet.nodes.length] as (typeof fleet.nodes)[number];
  const signIn = async (at: number) => {
    const browser = new TestBrowser();
    const { to } = await browser.signIn(node(at), provider, { sub: `person ${at}`, groups: ['a'] }, query);
    if (browser.session) context.secrets.add(browser.session);
    return { browser, to };
  };
  const read = async ({ browser }: { browser: TestBrowser }, at: number) =>
    (await browser.send(node(at), '/console/api/applications/key')).status;
  const failures: string[] = [];
  const figures = {
    rounds,
    sessions: 0,
    'sign-ins under way': 0,
    'that were refused': 0,
    'used afterwards': 0,
  };

  for (let round = 0; round < rounds; round++) {
    await update([entry]);
    const open = await Promise.all(Array.from({ length: people }, (_, at) => signIn(at)));
    const wrong = open.filter(({ to }) => to !== '/console').map(({ to }) => to);
    if (wrong.length > 0) failures.push(`round ${round}: sign-ins led to ${wrong}`);
    const working = open.map((each, at) => read(each, at + 1));
    const underWay = Promise.all(Array.from({ length: people }, (_, at) => signIn(people + at)));
    // The sign-ins take several milliseconds. The removal arrives at another time in every round.
    await Bun.sleep(context.random.below(12));
    await update([]);
    const late = await underWay;
    await Promise.all(working);
    figures.sessions += open.length;
    figures['sign-ins under way'] += late.length;
    figures['that were refused'] += late.filter(({ to }) => to !== '/console').length;
    for (const [at, each] of [...open, ...late].entries()) {
      const statuses = await Promise.all(fleet.nodes.map((_, number) => read(each, number)));
      if (statuses.every((status) => status === 401)) continue;
      figures['used afterwards']++;
      failures.push(`round ${round}: the session ${at} got ${statuses} after the entry was removed`);
    }
  }
  return { figures, failures: failures.slice(0, 10) };
}
