/** Unused grants and proposals of smaller grants in a browser. */
import { beforeAll, expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console advice:', (suite) => {
  let key: string;
  let desk: { id: string; key: string };
  const rule = (container: string, transform: string) => ({
    priority: 1,
    container,
    transform,
    permissions: ['token:read'],
  });
  beforeAll(async () => {
    const { server } = suite;
    ({ key } = await server.tenant());
    desk = await server.application(key, {
      name: 'help desk',
      permissions: ['log:read'],
      rules: [rule('/pci/', 'reveal'), rule('/staff/', 'mask')],
    });
    await server.application(key, { name: 'mailer', permissions: [], rules: [rule('/mail/', 'mask')] });
    await server.call('POST', '/tokens', { key, body: { id: 'card-1', container: '/pci/high/', data: 'x' } });
    expect((await server.call('GET', '/tokens/card-1', { key: desk.key })).status).toBe(200);
    await server.flush();
  });
  const panel = () => suite.tab.page.getByRole('region', { name: 'Unused grants' });
  const textOf = async () => (await panel().innerText()).replace(/\s+/g, ' ');

  test('the page of an application ranks unused grants and opens the proposal in the editor', async () => {
    const { server, tab } = suite;
    await tab.open();
    await tab.signIn(key);
    await tab.navigate(`#/applications/${desk.id}`);
    await panel().getByRole('heading', { name: 'Proposal' }).waitFor();
    const text = await textOf();
    expect(text).toMatch(/2 grants without recorded use/);
    expect(text).toMatch(/log:read in all containers management token:read in \/staff\/ \(rule 2\) .*mask/);
    expect(text).toMatch(/removed: permission log:read/);
    await panel().getByRole('button', { name: 'Open in editor' }).click();
    const { page } = tab;
    await page.getByRole('heading', { name: 'Edit help desk' }).waitFor();
    expect(await page.getByLabel('Container', { exact: true }).inputValue()).toBe('/pci/high/');
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await panel().getByText('Every grant was used').waitFor();
    const { body } = await server.call('GET', `/applications/${desk.id}`, { key });
    expect(body).toMatchObject({ permissions: [], rules: [rule('/pci/high/', 'reveal')] });
  });

  test('an application without recorded use gets no proposal', async () => {
    const { server, tab } = suite;
    const { body } = await server.call('GET', '/applications?name=mailer', { key });
    await tab.open();
    await tab.signIn(key);
    await tab.navigate(`#/applications/${body.data[0].id}`);
    await panel().getByText('no recorded use in this period').waitFor();
    expect(await panel().getByRole('button', { name: 'Open in editor' }).count()).toBe(0);
  });

  test('the overview has the totals of the tenant, with links to all unused grants of a risk', async () => {
    const { server, tab } = suite;
    const worker = await server.application(key, { name: 'worker', permissions: ['token:read', 'log:read'] });
    expect((await server.call('GET', '/tokens/card-1', { key: worker.key })).status).toBe(200);
    await server.flush();
    await tab.open(`${server.url}/console`);
    await tab.signIn(key);
    await panel().getByText('without recorded use').waitFor();
    expect(await textOf()).toMatch(/worker management log:read/);
    await panel()
      .getByRole('link', { name: /management$/ })
      .click();
    const rows = tab.page.getByRole('table', { name: 'Unused grants' }).getByRole('row');
    await rows.getByRole('link', { name: 'worker' }).waitFor();
    const { body } = await server.call('GET', '/access/advice?size=100', { key });
    const risky = body.data.filter(({ counts }: { counts: { management: number } }) => counts.management > 0);
    expect(await rows.count()).toBe(1 + risky.length);
    await rows.getByRole('link', { name: 'worker' }).click();
    await panel().getByRole('heading', { name: 'Proposal' }).waitFor();
  });

  test('a key without access:review sees which permission is missing', async () => {
    const { server, tab } = suite;
    const { key: few } = await server.application(key, { permissions: ['application:read'] });
    await tab.open();
    await tab.signIn(few);
    await tab.navigate(`#/applications/${desk.id}`);
    await panel().getByText('This key lacks access:review').waitFor();
  });
});
