/**
 * The numbers of the console are those of the API, and opening its pages causes no denials. With CONSOLE_NUMBERS=full, the
 * tenant has 2,500 applications, 5,000 sessions, 20,000 tokens and about 51,600 log entries of 30 days.
 */
import { beforeAll, expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';
import { type ApiResponse, databases, startTime } from '../support/test-server.ts';

const times = <T>(count: number, make: (at: number) => T) =>
  Array.from({ length: count }, (_, at) => make(at));
const isFull = process.env.CONSOLE_NUMBERS === 'full';
const size = isFull
  ? { applications: 2500, sessions: 5000, tokens: 20_000, reads: 18_990 }
  : { applications: 120, sessions: 110, tokens: 130, reads: 30 };
const day = 86_400_000;

/** Ten at a time. */
async function repeat<T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> {
  const done: T[] = [];
  while (done.length < count) {
    const some = Math.min(10, count - done.length);
    done.push(...(await Promise.all(times(some, (at) => work(done.length + at)))));
  }
  return done;
}

const risks = ['management', 'reveal', 'change', 'mask', 'redact'];
const format = (value: number) => value.toLocaleString('en-US');

for (const [name, database] of databases)
  describeConsole(
    `console numbers on ${name}:`,
    (suite) => {
      let key: string;
      const get = async (path: string): Promise<ApiResponse['body']> =>
        (await suite.server.call('GET', path, { key })).body;
      const total = async (path: string) => (await get(path)).pagination.total_items;
      const denials = async (query = '') => (await get(`/logs/counts?denials=true${query}`)).denials;

      /** More than one page of everything. Denials are aggregated: their entries are far fewer than their events. */
      beforeAll(async () => {
        const { server } = suite;
        server.clock.jump(-30 * day);
        ({ key } = await server.tenant());
        const rule = (at: number) => ({
          priority: 1,
          container: `/p${at % 30}/c${at}/`,
          transform: ['redact', 'mask', 'reveal'][at % 3],
          permissions: at % 7 === 0 ? ['token:create'] : ['token:read'],
        });
        const applications = await repeat(size.applications, (at) =>
          server.application(key, {
            name: `application ${at}`,
            permissions: at % 40 === 0 ? ['log:read'] : [],
            rules: [rule(at), { ...rule(at + 1), priority: 2 }],
          }),
        );
        const reveal = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
        const reader = await server.application(key, { name: 'reader', permissions: [], rules: [reveal] });
        await repeat(size.tokens, (at) =>
          server.call('POST', '/tokens', { key, body: { container: `/p${at % 30}/`, data: at } }),
        );
        const [{ id: token }] = (await server.call('GET', '/tokens?size=1', { key })).body.data;
        for (let at = 0; at < 30; at++) {
          await repeat(size.reads / 30, () => server.call('GET', `/tokens/${token}`, { key: reader.key }));
          server.clock.jump(day);
        }
        const web = await server.application(key, { name: 'web', type: 'public' });
        await repeat(size.sessions, async (at) => {
          const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
          const body = { nonce, permissions: ['token:read'] };
          // An application may have a limited number of pending sessions.
          if (at % 2 === 0 || isFull) await server.call('POST', '/sessions/authorize', { key, body });
        });
        for (const [at, { key: denied }] of applications.slice(0, 9).entries())
          for (let count = 0; count <= 2 * at; count++)
            await server.call('GET', '/sessions', { key: denied });
        await server.flush();
      });

      const open = async (hash: string, heading: string, as = key) => {
        await suite.tab.open(`${suite.server.url}/console${hash}`);
        await suite.tab.signIn(as);
        await suite.tab.page.getByRole('heading', { name: heading, exact: true }).waitFor();
      };
      const tile = (label: string) => suite.tab.page.locator('.tile').filter({ hasText: label });

      test('Overview', async () => {
        const { page } = suite.tab;
        const { total: denied, applications } = await denials(
          `&from=${new Date(startTime - 7 * 86_400_000).toISOString()}`,
        );
        expect(denied).toBe(81);
        await open('', 'Overview');
        await tile('Denials').getByText(format(denied), { exact: true }).waitFor();
        await tile('Applications')
          .getByText(format(await total('/applications')), { exact: true })
          .waitFor();
        const active = await total('/sessions?state=active&size=1');
        await tile('Active sessions').getByText(format(active), { exact: true }).waitFor();
        const region = (label: string) => page.getByRole('region', { name: label, exact: true });
        await region('Denials')
          .getByText(`${format(denied)} denials`)
          .waitFor();
        const most = region('Most denied').getByRole('listitem');
        await most.getByText('application 8').waitFor();
        const counts = await most.getByRole('link', { name: /denial/ }).allInnerTexts();
        expect(counts).toEqual(
          applications.slice(0, 6).map((each: { denials: number }) => format(each.denials)),
        );
        const grants: object[] = [];
        for (let start: string | undefined = ''; start !== undefined; ) {
          const { data, pagination } = await get(`/access/advice?size=100${start && `&start=${start}`}`);
          grants.push(...data.flatMap(({ unused }: { unused: object[] }) => unused));
          start = pagination.next;
        }
        await region('Unused grants')
          .getByText(`${format(grants.length)} grants of`)
          .waitFor();
        const shown = await region('Unused grants')
          .getByRole('list', { name: 'Unused grants by risk' })
          .innerText();
        const expected = risks
          .map(
            (risk) => [grants.filter((each) => 'risk' in each && each.risk === risk).length, risk] as const,
          )
          .filter(([count]) => count > 0);
        const pattern = expected.map(([count, risk]) => `${format(count)} (\\S+ )?${risk}`).join(' ');
        expect(shown.replace(/\s+/g, ' ')).toMatch(new RegExp(pattern));
        expect(expected.map(([, risk]) => risk)).toEqual([
          'management',
          'reveal',
          'change',
          'mask',
          'redact',
        ]);
      });

      test.each([
        [
          '#/applications',
          'Applications',
          async () => `${format(await total('/applications'))} applications`,
        ],
        ['#/sessions', 'Sessions', async () => `${format(await total('/sessions'))} sessions`],
        [
          '#/tokens',
          'Tokens',
          async () => {
            const all = await total('/tokens');
            if (all === undefined) return 'Newest 1,000 tokens visible to this key. There are more';
            return `${format(all)} tokens visible to this key${all > 1000 ? '. The newest 1,000 are listed' : ''}`;
          },
        ],
        [
          '#/activity?period=all',
          'Activity',
          async () => {
            const { totals } = await get('/logs/counts');
            const { total: denied } = await denials();
            return `${format(totals.success + totals.denied + totals.failed)} entries, with ${format(denied)} denials`;
          },
        ],
      ])('%s', async (hash, heading, expected) => {
        await open(hash, heading);
        await suite.tab.page.getByText(await expected(), { exact: true }).waitFor();
      });

      test('select all says how many of all sessions it selects', async () => {
        await open('#/sessions', 'Sessions');
        await suite.tab.page
          .getByRole('checkbox', { name: `Select the 100 shown of ${format(await total('/sessions'))}` })
          .check();
        await suite.tab.page.getByRole('button', { name: 'End 100 sessions…' }).waitFor();
      });

      test('the list of applications shows the riskiest read of each, if it has one', async () => {
        const { page } = suite.tab;
        await open('#/applications?q=application&sort=name', 'Applications');
        const access = (label: string) =>
          page
            .getByRole('row')
            .filter({ has: page.getByRole('link', { name: label, exact: true }) })
            .locator('.cell-access');
        expect(await access('application 1').innerText()).toMatch(/^reveal \/p2\/c2\/ \+1/);
        expect(await access('application 2').innerText()).toMatch(/^reveal \/p2\/c2\/ \+1/);
        expect(await access('application 6').innerText()).toMatch(/redact/);
      });

      test('pages and search that the key may not use cause no denials', async () => {
        const { server, tab } = suite;
        const { key: few } = await server.application(key, { permissions: ['token:create'] });
        const before = (await denials()).total;
        await open('', 'Overview', few);
        await tab.page.getByText('This key lacks log:read').first().waitFor();
        for (const [hash, missing] of [
          ['#/applications', 'application:read'],
          ['#/preview', 'application:read'],
          ['#/who?q=/pci/', 'access:review'],
          ['#/who?view=unused', 'access:review'],
          ['#/sessions', 'session:read'],
          ['#/tokens', 'token:read'],
          ['#/activity?q=some-id', 'log:read'],
        ] as const) {
          await tab.navigate(hash);
          await tab.page.getByRole('group', { name: 'Error' }).getByText(missing).waitFor();
        }
        await tab.page.keyboard.press('Control+k');
        await tab.page.getByRole('combobox', { name: 'Search' }).fill('card-42');
        await tab.page.getByText('Nothing found.').waitFor();
        await server.flush();
        expect((await denials()).total).toBe(before);
      });
    },
    database,
  );
