/** The impact of a changed rule in the review dialog. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console impact:', (suite) => {
  const rule = { priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] };

  const openReview = async (key: string, id: string) => {
    const { tab } = suite;
    await tab.open(`${suite.server.url}/console#/applications/${id}/edit`);
    await tab.signIn(key);
    await tab.page.getByText('Mask', { exact: true }).click();
    await tab.page.getByRole('button', { name: 'Review changes' }).click();
    return tab.page.getByRole('dialog').getByRole('region', { name: 'Impact' });
  };

  test('shows the recorded reads and stored tokens that change, before the application is saved', async () => {
    const { server } = suite;
    const { key } = await server.tenant();
    const desk = await server.application(key, { name: 'help desk', permissions: [], rules: [rule] });
    for (const id of ['card-1', 'card-2'])
      await server.call('POST', '/tokens', { key, body: { id, container: '/pci/', data: 'x' } });
    for (let number = 0; number < 3; number++) await server.call('GET', '/tokens/card-1', { key: desk.key });
    const impact = await openReview(key, desk.id);
    await impact.getByText('3 reads').waitFor();
    const text = (await impact.innerText()).replace(/\s+/g, ' ');
    expect(text).toMatch(/3 reads by 1 application change from reveal to .*mask/);
    expect(text).toMatch(/2 stored tokens in \/pci\/ \(token:read\) change from reveal to .*mask/);
    const { body } = await server.call('GET', `/applications/${desk.id}`, { key });
    expect(body.rules[0].transform).toBe('reveal');
  });

  test('a key without access:review can save without a preview', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const desk = await server.application(key, { name: 'help desk', permissions: [], rules: [rule] });
    const permissions = ['application:read', 'application:update'];
    const editor = await server.application(key, { type: 'management', permissions });
    const impact = await openReview(editor.key, desk.id);
    await impact.getByText('No preview: your key lacks access:review').waitFor();
    await tab.page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await tab.page.getByRole('heading', { name: 'help desk', exact: true }).waitFor();
    const { body } = await server.call('GET', `/applications/${desk.id}`, { key });
    expect(body.rules[0].transform).toBe('mask');
  });
});
