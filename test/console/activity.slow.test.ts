/** The activity page in a browser. */
import { expect, test } from 'bun:test';
import { describeConsole } from '../support/console-suite.ts';
import { ada, signInAs } from '../support/people.ts';

describeConsole('console activity:', (suite) => {
  const rule = { priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] };
  const card = { id: 'card-1', container: '/pci/high/', data: '4242' };
  const open = async (key: string, hash: string) => {
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate(hash);
  };
  const entry = (text: string) => suite.tab.page.locator('.entry').filter({ hasText: text });
  const details = async (text: string) => {
    await entry(text).first().getByRole('button', { name: 'Details' }).click();
    return entry(text).first().locator('.entry-details');
  };

  test('a denied entry shows the recorded decision next to the current one', async () => {
    const { key } = await suite.server.tenant();
    const desk = await suite.server.application(key, { name: 'help desk', permissions: [], rules: [rule] });
    await suite.server.call('POST', '/tokens', { key, body: card });
    expect((await suite.server.call('DELETE', '/tokens/card-1', { key: desk.key })).status).toBe(403);
    await suite.server.flush();
    const now = { name: 'help desk', permissions: ['token:delete'], rules: [] };
    expect((await suite.server.call('PUT', `/applications/${desk.id}`, { key, body: now })).status).toBe(200);
    await open(key, '#/activity');
    const found = await details('was denied');
    const recorded = found.getByRole('region', { name: 'Decision at that time' });
    const text = (await recorded.innerText()).replace(/\s+/g, ' ');
    expect(text).toContain('Requested token:delete on card-1');
    expect(text).toContain('Missing grant token:delete');
    expect(text).toMatch(/denied this application does not have token:delete/);
    expect(await found.locator('.facts').innerText()).toContain('card-1');
    await recorded.getByRole('button', { name: 'Compare with current rules' }).click();
    const current = recorded.getByRole('region', { name: 'Decision with current rules' });
    expect(await current.innerText()).toContain('grants token:delete');
  });

  test('a disclosure shows who read which tokens, the authorizer and the purpose', async () => {
    const { key } = await suite.server.tenant();
    const backend = await suite.server.application(key, { name: 'backend', rules: [rule] });
    const page = await suite.server.application(key, { name: 'shop page', type: 'public' });
    await suite.server.call('POST', '/tokens', { key, body: card });
    await suite.server.call('POST', '/tokens', { key, body: { ...card, id: 'card-2' } });
    const { session_key, nonce } = (await suite.server.call('POST', '/sessions', { key: page.key })).body;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/pci/' }];
    const { container: _, ...ofSession } = { ...rule, description: 'own cards', conditions };
    const grant = { nonce, rules: [ofSession] };
    const authorized = await suite.server.call('POST', '/sessions/authorize', {
      key: backend.key,
      body: grant,
    });
    expect(authorized.status).toBe(204);
    const headers = { 'SVC-PURPOSE': 'refund 7' };
    await suite.server.call('GET', '/tokens', { key: session_key, headers });
    await open(key, '#/activity');
    const found = await details('token.read');
    expect(await entry('token.read').first().innerText()).toMatch(/Session of\s+shop page/);
    const facts = (await found.locator('.facts').innerText()).replace(/\s+/g, ' ');
    expect(facts).toContain('Authorized by backend');
    expect(facts).toContain('2 tokens card-2 card-1');
    expect(facts).toContain('Purpose refund 7');
    const decision = await found.getByRole('region', { name: 'Decision at that time' }).innerText();
    expect(decision).toContain('Rule 1 of the session');
    expect(decision).toContain('own cards');
    expect(decision).toContain('reveal');
  });

  test('the chart counts the whole period, while entries are loaded page by page', async () => {
    const { key } = await suite.server.tenant();
    const { id, key: writer } = await suite.server.application(key, {
      name: 'writer',
      permissions: ['token:create'],
    });
    for (let number = 0; number < 120; number++)
      await suite.server.call('POST', '/tokens', { key: writer, body: { ...card, id: `card-${number}` } });
    await suite.server.call('GET', '/tokens/card-1', { key: writer });
    await suite.server.flush();
    await open(key, `#/activity?application=${id}`);
    const { page } = suite.tab;
    await page.getByText('121 entries, with 1 denial', { exact: true }).waitFor();
    const chart = page.getByRole('slider', { name: 'Entries over time' });
    expect(await chart.getAttribute('aria-valuetext')).toBe('120 successful entries, 1 denied entries');
    expect(await page.locator('.entry').count()).toBe(100);
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.locator('.entry').nth(120).waitFor();
    expect(await page.getByRole('button', { name: 'Load more' }).count()).toBe(0);
    await page.getByText('Show as table').click();
    expect(await page.getByRole('row').nth(1).innerText()).toMatch(/120\s+1/);
    await chart.focus();
    await page.keyboard.press('End');
    expect(await chart.getAttribute('aria-valuetext')).toContain('120 successful entries, 1 denied entries');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => location.hash.includes('period=custom&from='));
    await page.getByText('121 entries, with 1 denial', { exact: true }).waitFor();
  });

  test('a failed request of an application in quarantine is counted', async () => {
    const { key } = await suite.server.tenant();
    const { id, key: reader } = await suite.server.application(key, { name: 'reader' });
    await suite.server.call('POST', `/applications/${id}/quarantine`, { key });
    expect((await suite.server.call('GET', '/tokens/none', { key: reader })).status).toBe(404);
    await suite.server.flush();
    await open(key, `#/activity?application=${id}`);
    const { page } = suite.tab;
    await page.getByText('1 entry', { exact: true }).waitFor();
    const chart = page.getByRole('slider', { name: 'Entries over time' });
    expect(await chart.getAttribute('aria-valuetext')).toBe(
      '0 successful entries, 0 denied entries, 1 failed entries',
    );
  });

  test('about a subject: what it has seen and who has seen its data, with links and CSV', async () => {
    const { key } = await suite.server.tenant();
    const backend = await suite.server.application(key, {
      name: 'backend',
      rules: [{ ...rule, container: '/' }],
    });
    const page = await suite.server.application(key, { name: 'shop page', type: 'public' });
    for (const customer of ['41', '42'])
      await suite.server.call('POST', '/tokens', {
        key,
        body: { id: `card-${customer}`, container: `/customers/${customer}/`, data: '4242' },
      });
    const { session_key, nonce } = (await suite.server.call('POST', '/sessions', { key: page.key })).body;
    const conditions = [{ attribute: 'id', operator: 'equals', value: 'card-41' }];
    const { container: _, ...revealing } = { ...rule, conditions };
    const grant = { nonce, subject: 'user:42', rules: [revealing] };
    await suite.server.call('POST', '/sessions/authorize', { key: backend.key, body: grant });
    await suite.server.call('GET', '/tokens/card-41', { key: session_key });
    await suite.server.call('GET', '/tokens', { key: backend.key });
    await open(key, '#/activity');
    const tab = suite.tab.page;
    await tab.getByRole('button', { name: 'About a subject' }).click();
    await tab.getByLabel('Subject').fill('user:42');
    await tab.getByLabel('Container with its data').fill('/customers/42/');
    await tab.getByRole('button', { name: 'Find' }).click();
    const seen = tab.getByRole('region', { name: '1 token seen by user:42' });
    await seen.getByRole('link', { name: 'card-41' }).waitFor();
    const readers = tab.getByRole('region', { name: '1 reader of /customers/42/' });
    expect(await readers.getByRole('row').nth(1).innerText()).toMatch(/^backend\s+1\s/);
    const downloading = tab.waitForEvent('download');
    await readers.getByRole('button', { name: 'CSV' }).click();
    const csv = await Bun.file(await (await downloading).path()).text();
    expect(csv).toContain(`"${backend.id}","${backend.id}","","1",`);
    await seen.getByRole('link', { name: 'card-41' }).click();
    await entry('token.read').first().waitFor();
  });

  test('filters are stored in the URL, and back restores them', async () => {
    const { key } = await suite.server.tenant();
    const desk = await suite.server.application(key, { name: 'desk', permissions: ['token:create'] });
    await suite.server.call('POST', '/tokens', { key: desk.key, body: card });
    await suite.server.call('GET', '/tokens/card-1', { key: desk.key });
    await suite.server.flush();
    await open(key, '#/activity');
    const { page } = suite.tab;
    await page.getByRole('combobox', { name: 'Operation' }).fill('token.cr');
    await page.getByRole('option', { name: 'token.create' }).click();
    await page.getByText('1 entry', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Denied' }).click();
    await page.getByRole('heading', { name: 'No activity' }).waitFor();
    expect(new URL(page.url()).hash).toBe('#/activity?result=denied&operation=token.create');
    await page.goBack();
    await page.getByText('1 entry', { exact: true }).waitFor();
    await suite.tab.navigate('#/activity?q=card-1&result=denied');
    await entry('was denied').waitFor();
    expect(await page.getByLabel('Search', { exact: true }).inputValue()).toBe('card-1');
    expect(await page.locator('.entry').count()).toBe(1);
    await page.getByRole('combobox', { name: 'Application' }).fill('nobody');
    await page.getByText('Nothing found').waitFor();
  });

  test('the name of a person opens what they changed, for any period', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const desk = await server.application(key, {
      type: 'management',
      permissions: ['token:create'],
      name: 'desk',
    });
    const signOut = signInAs(server, desk.key, ada);
    await server.call('POST', '/tokens', { key: desk.key, body: card });
    await server.call('GET', '/tokens/card-1', { key: desk.key });
    signOut();
    await server.call('POST', '/tokens', { key: desk.key, body: { ...card, id: 'card-2' } });
    await server.flush();
    await open(key, '#/activity?result=denied');
    const found = await details('Ada Lovelace as desk was denied token.read');
    expect(await found.locator('.facts').innerText()).toContain('ada@example.com');
    await entry('was denied').getByRole('link', { name: 'Ada Lovelace' }).first().click();
    await tab.page.getByText('1 entry', { exact: true }).waitFor();
    await entry('Ada Lovelace as desk token.create').waitFor();
    const at = (days: number) => new Date(server.clock.now() + days * 86_400_000).toISOString();
    const period = (from: string, to: string) =>
      new URLSearchParams({ person: ada.email, period: 'custom', from, to });
    await tab.navigate(`#/activity?result=changes&${period(at(-1), at(1))}`);
    await tab.page.getByText('1 entry', { exact: true }).waitFor();
    expect(await tab.page.getByLabel('Person', { exact: true }).inputValue()).toBe(ada.email);
    await tab.navigate(`#/activity?result=changes&${period(at(1), at(2))}`);
    await tab.page.getByRole('heading', { name: 'No activity' }).waitFor();
  });

  test('the pages Activity and Who has access load only the applications that they show', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const desk = await server.application(key, { name: 'help desk', permissions: [], rules: [rule] });
    await server.application(key, { name: 'other' });
    await server.call('POST', '/tokens', { key, body: card });
    await server.call('DELETE', '/tokens/card-1', { key: desk.key });
    await server.flush();
    const lists: string[] = [];
    const listen = (request: { url(): string }) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/applications' && !searchParams.has('id')) lists.push(request.url());
    };
    tab.page.on('request', listen);
    await tab.open(`${server.url}/console#/activity?result=denied`);
    await tab.signIn(key);
    const found = await details('was denied');
    await found.getByRole('button', { name: 'Compare with current rules' }).click();
    await found.getByRole('region', { name: 'Decision with current rules' }).waitFor();
    await tab.navigate('#/who?q=/pci/');
    await tab.page.getByRole('link', { name: 'help desk' }).waitFor();
    tab.page.off('request', listen);
    // Only the filter loads a list of applications, for its choices.
    expect(lists).toEqual([expect.stringContaining('?size=50')]);
  });
});
