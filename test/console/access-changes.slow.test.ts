/** Who gained and lost access between two times, in a browser. */
import { beforeAll, expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console access changes:', (suite) => {
  let key: string;
  let from: string;
  const reader = (name: string, transform: string) => ({
    name,
    permissions: [],
    rules: [{ priority: 1, container: '/pci/', transform, permissions: ['token:read'] }],
  });
  beforeAll(async () => {
    const { server } = suite;
    ({ key } = await server.tenant());
    const desk = await server.application(key, reader('help desk', 'mask'));
    const report = await server.application(key, reader('report', 'reveal'));
    server.clock.advance(3_600_000);
    from = new Date(server.clock.now() - 60_000).toISOString();
    const update = { body: reader('help desk', 'reveal'), key };
    expect((await server.call('PUT', `/applications/${desk.id}`, update)).status).toBe(200);
    expect((await server.call('DELETE', `/applications/${report.id}`, { key })).status).toBe(204);
    server.clock.advance(60_000);
  });
  const open = async (query: string) => {
    await suite.tab.open(`${suite.server.url}/console#/who?view=changes&${query}`);
    await suite.tab.signIn(key);
  };
  const textOf = async (name: string) => {
    const region = suite.tab.page.getByRole('region', { name });
    return (await region.innerText()).replace(/\s+/g, ' ');
  };

  test('lists applications that gained and lost access, and what changed them', async () => {
    await open(`period=custom&from=${from}`);
    const gained = suite.tab.page.getByRole('region', { name: 'Gained access' });
    await suite.tab.page.getByRole('region', { name: 'Lost access' }).waitFor();
    // The names of actors are loaded after the lists.
    await gained.getByText('by test').first().waitFor();
    expect(await textOf('Gained access')).toMatch(
      /help desk token:read in \/pci\/ .*mask to reveal application.update .* by test/,
    );
    expect(await textOf('Lost access')).toMatch(
      /report token:read in \/pci\/ reveal to denied application.delete/,
    );
  });

  test('container, permission and period are chosen in the form and are in the URL', async () => {
    await open(`period=custom&from=${from}`);
    const { page } = suite.tab;
    await page.getByRole('region', { name: 'Gained access' }).waitFor();
    await page.getByLabel('Container').fill('/mail/');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByRole('heading', { name: 'No access changed' }).waitFor();
    expect(new URL(page.url()).hash).toContain('q=%2Fmail%2F');
    await page.getByRole('button', { name: '30 days' }).click();
    await page.getByRole('button', { name: 'Now', exact: true }).click();
    await page.getByRole('heading', { name: 'Nobody has access' }).or(page.getByRole('table')).waitFor();
    await page.goBack();
    await page.getByRole('button', { name: 'Compare' }).waitFor();
    expect(new URL(page.url()).hash).toContain('period=30d');
  });

  test('a custom period without a start asks for it, and an invalid one shows the error', async () => {
    await open('period=custom');
    const { page } = suite.tab;
    await page.getByText('Enter the time with which to compare.').waitFor();
    await page.getByLabel('Container').fill('card-1');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByText('Enter a container, such as /customers/42/.').waitFor();
    await page.getByLabel('Container').fill('');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByLabel('From').fill('2100-01-01T00:00');
    await page.getByRole('group', { name: 'Error' }).getByText('must be before').waitFor();
  });
});
