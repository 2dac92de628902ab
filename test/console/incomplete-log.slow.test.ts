/** How the console shows aggregated, overflow and missing entries of the audit log, in a browser. */

import { expect, test } from 'bun:test';
import { rmSync } from 'node:fs';
import { maxGroups, maxIds } from '../../src/audit/log/collector.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console activity, incomplete:', (suite) => {
  const open = async (key: string, hash: string) => {
    await suite.tab.open();
    await suite.tab.signIn(key);
    await suite.tab.navigate(hash);
  };
  const details = async (text: string) => {
    const entry = suite.tab.page.locator('.entry').filter({ hasText: text }).first();
    await entry.getByRole('button', { name: 'Details' }).click();
    return (await entry.innerText()).replace(/\s+/g, ' ');
  };

  test('an aggregated entry says how many tokens it does not list', async () => {
    const { server } = suite;
    const { key } = await server.tenant();
    const idle = await server.application(key, { permissions: ['token:create'] });
    for (let number = 0; number < maxIds + 7; number++)
      await server.call('GET', `/tokens/none-${number}`, { key: idle.key });
    await server.flush();
    await open(key, '#/activity?result=denied');
    const text = await details(`${maxIds + 7} times`);
    expect(text).toContain(`more than ${maxIds} tokens`);
    expect(text).toContain('Not listed 7 more token IDs');
  });

  test('an entry that combines different events is marked and explained', async () => {
    const { server } = suite;
    const { key } = await server.tenant();
    const idle = await server.application(key, { permissions: ['token:read'] });
    for (let number = 0; number < maxGroups + 3; number++)
      await server.call('POST', '/tokens', {
        key: idle.key,
        body: { container: `/c-${number}/`, data: 'x' },
      });
    await server.flush();
    await open(key, '#/activity?result=denied');
    const text = await details('combined');
    expect(text).toContain('too many different entries in this minute');
  });

  test('the page says which reads are not recorded, unless the filters exclude reads', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await open(key, '#/activity');
    const missing = tab.page.getByRole('region', { name: 'Missing entries' });
    await missing.getByText('Reads with redact or mask have not been recorded since').waitFor();
    await tab.navigate('#/activity?result=denied');
    await tab.page.getByRole('heading', { name: 'No activity' }).waitFor();
    expect(await missing.count()).toBe(0);
  });

  test('charts and numbers say that archived entries are not counted', async () => {
    const { server, tab } = suite;
    const { id: tenantId, key } = await server.tenant();
    const idle = await server.application(key, { permissions: ['token:create'] });
    await server.call('GET', '/tokens/none', { key: idle.key });
    await server.flush();
    const folder = temporaryFolder();
    const { audit } = server.app.maintenance;
    await audit.seal();
    await audit.archive({ folder, now: server.clock.now(), before: server.clock.now() + 1, tenantId });
    rmSync(folder, { recursive: true });
    await open(key, '#/overview');
    const { page } = tab;
    for (const name of ['Denials', 'Most denied', 'Authorizations of sessions'])
      await page
        .getByRole('region', { name, exact: true })
        .getByText(/moved to an archive/)
        .waitFor();
    await page.getByText('No denials are recorded in this period.').waitFor();
    await page.getByRole('link', { name: 'Denials 0 requests, not all counted' }).waitFor();
    expect(await page.getByText('have not been recorded').count()).toBe(0);
    expect(await page.getByRole('region', { name: 'First steps' }).count()).toBe(0);
    await tab.navigate(`#/applications/${idle.id}`);
    const activity = page.locator('section').filter({ hasText: 'Recorded activity, 30 days' });
    await activity.getByText(/moved to an archive/).waitFor();
    await activity.getByText(/have not been recorded/).waitFor();
  });
});
