import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console rule editor:', (suite) => {
  const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] };
  /** Opens a page of the console in a new tenant, which has an application with the rule. */
  const open = async (hash: (id: string) => string) => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const { id } = await server.application(key, { name: 'reader', permissions: [], rules: [rule] });
    await tab.open();
    await tab.signIn(key);
    await tab.navigate(hash(id));
    return { key, id, page: tab.page };
  };
  const stored = async (key: string, id: string) =>
    (await suite.server.call('GET', `/applications/${id}`, { key })).body;
  const save = async () => {
    const { page } = suite.tab;
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  };

  test('a rule can have any permission and a description', async () => {
    const { key, id, page } = await open((id) => `#/applications/${id}/edit`);
    const add = page.getByRole('combobox', { name: 'Add permission to rule 1' });
    await add.fill('invoice:read');
    await page.getByRole('option', { name: 'invoice:read' }).click();
    await add.fill('session:read');
    await page.getByRole('option', { name: 'session:read' }).click();
    await add.fill('nonsense');
    await page.getByText('Custom permissions look like').waitFor();
    await page.keyboard.press('Escape');
    await page.getByLabel('Description').fill('cards of the shop');
    await save();
    expect((await stored(key, id)).rules).toEqual([
      {
        ...rule,
        description: 'cards of the shop',
        permissions: ['token:read', 'invoice:read', 'session:read'],
      },
    ]);
  });

  test('a rule that creates tokens can set their mask and search templates', async () => {
    const { key, id, page } = await open((id) => `#/applications/${id}/edit`);
    const field = page.getByLabel('Defaults for new tokens');
    expect(await field.count()).toBe(0);
    await page.getByRole('button', { name: 'token:create' }).click();
    await field.fill('{ "mask": ');
    await page.getByRole('button', { name: 'Review changes' }).click();
    await page.getByText('Enter a JSON object').waitFor();
    await field.fill('{ "mask": "{{ data.number | shout }}" }');
    await save();
    await page.getByRole('group', { name: 'Rule 1' }).getByText('unknown filter').waitFor();
    const defaults = { mask: { number: '{{ data.number | hide }}' }, search: { pan: '{{ data.number }}' } };
    await field.fill(JSON.stringify(defaults));
    await page.getByRole('button', { name: 'Review changes' }).click();
    expect(await page.getByRole('dialog').innerText()).toContain(`defaults ${JSON.stringify(defaults)}`);
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByText(`· defaults ${JSON.stringify(defaults)}`).waitFor();
    const permissions = ['token:read', 'token:create'];
    expect((await stored(key, id)).rules).toEqual([{ ...rule, permissions, defaults }]);

    await suite.tab.navigate(`#/applications/${id}/edit`);
    expect(JSON.parse(await field.inputValue())).toEqual(defaults);
    await page.getByRole('button', { name: 'token:create' }).click();
    await save();
    expect((await stored(key, id)).rules).toEqual([rule]);
  });

  test('a rule can end, and its end can be removed', async () => {
    const { key, id, page } = await open((id) => `#/applications/${id}/edit`);
    await page.getByRole('button', { name: 'Set an end' }).click();
    const field = page.getByLabel('Ends (');
    await field.fill('2031-05-06T07:08');
    const expires_at = new Date('2031-05-06T07:08').toISOString();
    await page.getByRole('button', { name: 'Review changes' }).click();
    expect(await page.getByRole('dialog').innerText()).toContain(', ends ');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByText('· ends in').waitFor();
    expect((await stored(key, id)).rules).toEqual([{ ...rule, expires_at }]);
    await suite.tab.navigate(`#/applications/${id}/edit`);
    expect(await field.inputValue()).toBe('2031-05-06T07:08');
    await field.fill('');
    await save();
    expect((await stored(key, id)).rules).toEqual([rule]);
  });

  test('the button that submits a new application is within 18 presses of Tab', async () => {
    const { page } = await open(() => '#/applications/new');
    await page.getByRole('button', { name: /^Backend reader/ }).click();
    await page.getByLabel('Name').focus();
    const focused = () => page.evaluate(() => document.activeElement?.textContent);
    let presses = 0;
    for (; (await focused()) !== 'Review and create' && presses < 60; presses++)
      await page.keyboard.press('Tab');
    expect(presses).toBeLessThanOrEqual(18);
    await page.getByText('Permissions in all containers').click();
    await page.getByLabel('application:read').waitFor();
    suite.tab.acceptDialogs(true);
  });

  test('a type change preserves what the new type allows, and asks before it removes grants', async () => {
    const { page } = await open(() => '#/applications/new');
    await page.getByRole('button', { name: /^Backend reader/ }).click();
    await page.getByLabel('Container', { exact: true }).fill('/orders/');
    await page.getByRole('radio', { name: /In an admin tool/ }).check();
    expect(await page.getByLabel('Container', { exact: true }).inputValue()).toBe('/orders/');
    await page.getByText('Permissions in all containers').click();
    await page.getByLabel('application:create').check();

    await page.getByRole('radio', { name: /In a browser/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Change the type to public?' });
    expect(await dialog.innerText()).toContain('permission application:create');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await page.getByLabel('application:create').isChecked()).toBe(true);
    expect(await page.getByRole('radio', { name: /In an admin tool/ }).isChecked()).toBe(true);
    await page.getByRole('radio', { name: /In a browser/ }).click();
    await dialog.getByRole('button', { name: 'Remove and continue' }).click();
    expect(await page.getByLabel('application:create').isChecked()).toBe(false);
    expect(await page.getByLabel('Container', { exact: true }).inputValue()).toBe('/orders/');
    suite.tab.acceptDialogs(true);
  });

  test('a draft of the access preview can be applied to the application', async () => {
    const { key, id, page } = await open((id) => `#/preview?application=${id}`);
    await page.getByLabel('Container', { exact: true }).fill('/pci/high/');
    await page.getByRole('button', { name: 'Apply draft…' }).click();
    await page.getByRole('heading', { name: 'Edit reader' }).waitFor();
    expect((await stored(key, id)).rules).toEqual([rule]);
    await save();
    expect((await stored(key, id)).rules).toEqual([{ ...rule, container: '/pci/high/' }]);
  });
});
