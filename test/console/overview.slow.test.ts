/** The overview page in a browser. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console overview:', (suite) => {
  const open = async (key: string) => {
    await suite.tab.open(`${suite.server.url}/console`);
    await suite.tab.signIn(key);
    await suite.tab.page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  };
  const panel = (name: string) => suite.tab.page.getByRole('region', { name, exact: true });
  const textOf = async (name: string) => (await panel(name).innerText()).replace(/\s+/g, ' ');
  const rule = (container: string, transform: string) => ({
    priority: 1,
    container,
    transform,
    permissions: ['token:read'],
  });

  test('the first page shows activity, denials, expiries and unused grants', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const expires_at = new Date(server.clock.now() + 3 * 86_400_000).toISOString();
    const desk = await server.application(key, {
      name: 'help desk',
      permissions: [],
      rules: [rule('/pci/', 'reveal')],
    });
    const worker = await server.application(key, {
      name: 'worker',
      permissions: ['token:create'],
      expires_at,
    });
    await server.call('POST', '/tokens', {
      key: worker.key,
      body: { id: 'card-1', container: '/pci/', data: 'x' },
    });
    for (let number = 0; number < 3; number++)
      await server.call('GET', '/tokens/card-1', { key: worker.key });
    await server.call('DELETE', '/tokens/card-1', { key: desk.key });
    await server.flush();
    const { totals } = (await server.call('GET', '/requests/counts', { key })).body;
    await open(key);
    const { page } = tab;
    for (const name of ['worker', 'help desk'])
      await panel('Most denied').getByRole('link', { name }).waitFor();
    expect(await textOf('Most denied')).toMatch(/worker 3 help desk 1/);
    expect(totals).toMatchObject({ requests: 7, denied: 4 });
    await panel('Requests').getByText('7 requests').waitFor();
    const [p50, p99] = [totals.p50_ms, totals.p99_ms].map((time: number) => time.toLocaleString('en-US'));
    expect(await textOf('Response time')).toContain(`${p50} ms p50 ${p99} ms p99`);
    await panel('Response time').getByText('Show as table').click();
    expect(await panel('Response time').getByRole('row').last().innerText()).toMatch(
      /[\d.,]+ ms\s+[\d.,]+ ms$/,
    );
    expect(await textOf('Denials')).toContain('4 denials');
    expect(await textOf('Expiries')).toMatch(/Next 7 days 1 .*worker/);
    await page.getByText(`median; 99 % within ${p99} ms`).waitFor();
    await panel('Unused grants').getByText('help desk').waitFor();
    expect(await textOf('Unused grants')).toMatch(/help desk reveal token:read/);
    await panel('Denials').getByRole('slider').focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Activity', exact: true }).waitFor();
    expect(new URL(page.url()).hash).toContain('#/activity?period=custom&from=');
  });

  test('the access map shows the connections of the chosen node, and the same as a table', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await server.application(key, { name: 'help desk', permissions: [], rules: [rule('/pci/', 'reveal')] });
    await server.application(key, { name: 'report', permissions: [], rules: [rule('/staff/', 'mask')] });
    const { id } = await server.application(key, {
      name: 'auditor',
      permissions: [],
      rules: [rule('/pci/', 'mask')],
    });
    await server.call('POST', `/applications/${id}/quarantine`, { key });
    await open(key);
    const map = panel('Access map');
    const node = (name: string) => map.getByRole('button', { name, exact: true });
    await node('help desk').waitFor();
    expect(await node('/staff/').count()).toBe(1);
    await node('/pci/').focus();
    await tab.page.keyboard.press('Enter');
    expect(await node('/staff/').count()).toBe(0);
    expect(await node('report').count()).toBe(0);
    await map.getByText('Show as table').click();
    const rows = map.getByRole('row');
    expect(
      await rows.allInnerTexts().then((texts) => texts.map((text) => text.replace(/\s+/g, ' '))),
    ).toEqual(['Application Container Transform', 'auditor /pci/ redact', 'help desk /pci/ reveal']);
    await map.getByRole('link', { name: 'Who has access?' }).click();
    await tab.page.getByText('with access').waitFor();
    expect(new URL(tab.page.url()).hash).toBe('#/who?q=%2Fpci%2F');
  });

  test('each command of the checklist works with the keys of the steps before, and completes its step', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await open(key);
    for (const name of ['Requests', 'Response time'])
      await panel(name).getByText('No requests are recorded in this period. New ones').waitFor();
    const steps = panel('First steps');
    const variables: Record<string, string> = { SALLYPORT_KEY: key };
    /** Runs the command of a step as printed, in a new page. Returns the JSON that it prints last. */
    const follow = async (title: string) => {
      const step = steps.getByRole('listitem').filter({ hasText: title });
      const command = await step.locator('pre').innerText();
      const env = { PATH: String(process.env.PATH), ...variables };
      const shell = Bun.spawn(['sh', '-c', command], { env, stdio: ['ignore', 'pipe', 'ignore'] });
      const output = await new Response(shell.stdout).text();
      const printed = JSON.parse(output.trim().split('\n').at(-1) as string);
      await tab.reset();
      await open(key);
      return printed;
    };
    variables.BACKEND_KEY = (await follow('Create a private application')).key;
    await steps.getByText('Create a private application for your backend (done)').waitFor();
    variables.PUBLIC_KEY = (await follow('Create a public application')).key;
    await steps.getByText('Create a public application for your web page (done)').waitFor();
    const { id } = await follow('Store a token');
    await steps.getByText('Store a token (done)').waitFor();
    const session = await follow('Start a session');
    await steps.getByText('Start a session in the browser (done)').waitFor();
    Object.assign(variables, { SESSION_KEY: session.session_key, NONCE: session.nonce });
    const { data } = await follow('Authorize the session');
    expect(data).toMatchObject([{ id, data: 'XXXXXXXXXXXX4242' }]);
    await panel('Authorizations of sessions').getByText('1 authorized').waitFor();
    expect(await steps.count()).toBe(0);
  });

  test('the button of a step opens the form with the application of this step', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await server.application(key, { name: 'backend' });
    await open(key);
    await panel('First steps').getByRole('button', { name: 'Create' }).click();
    await tab.page.getByRole('radio', { name: /^In a browser or app/ }).waitFor();
    expect(await tab.page.getByRole('radio', { name: /^In a browser or app/ }).isChecked()).toBe(true);
    expect(await tab.page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('shop page');
  });

  test('more applications than the page loads: older ones count, or the page says that they do not', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const inDays = (days: number) => new Date(server.clock.now() + days * 86_400_000).toISOString();
    await server.application(key, { name: 'old worker', expires_at: inDays(2) });
    for (let number = 0; number < 1010; number += 10)
      await Promise.all(
        Array.from({ length: 10 }, () => server.application(key, { expires_at: inDays(60) })),
      );
    await open(key);
    await tab.page.getByRole('link', { name: /^Expire within 7 days 1 applications/ }).waitFor();
    await panel('Expiries').getByRole('link', { name: 'old worker' }).waitFor();
    expect(await textOf('Expiries')).toMatch(/Next 7 days 1 Next 30 days 0 Later 1,010 /);
    const steps = panel('First steps');
    await steps.getByText('Create a private application for your backend (done)').waitFor();
    await steps.getByRole('button', { name: 'Create' }).waitFor();
    await panel('Access map').getByRole('combobox', { name: 'Permission' }).click();
    await tab.page.getByRole('option', { name: 'token:delete' }).click();
    await panel('Access map').getByText('None of the newest 1,000 applications has token:delete.').waitFor();
  });

  test('a key with few permissions sees which ones are missing', async () => {
    const { server } = suite;
    const { key } = await server.tenant();
    const { key: few } = await server.application(key, { permissions: ['token:read'] });
    await open(few);
    for (const name of ['Requests', 'Response time', 'Denials'])
      await panel(name).getByText('This key lacks log:read').waitFor();
    for (const name of ['Expiries', 'Access map'])
      await panel(name).getByText('This key lacks application:read').waitFor();
    await panel('Unused grants').getByText('This key lacks access:review').waitFor();
    const tile = suite.tab.page.getByRole('link', { name: /^Applications –/ });
    expect(await tile.count()).toBe(1);
  });
});
