/** Reports, explanations of denials, history, bulk changes, the live log and actions of the search, in a browser. */
import { expect, test } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { openCli } from '../support/cli.ts';
import { describeConsole } from '../support/console-suite.ts';

/** The files of a ZIP archive without compression, by its local headers. */
function unzip(archive: Buffer): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (let at = 0; archive.readUInt32LE(at) === 0x04034b50; ) {
    const [crc, size, length] = [
      archive.readUInt32LE(at + 14),
      archive.readUInt32LE(at + 18),
      archive.readUInt16LE(at + 26),
    ];
    const start = at + 30 + length;
    const data = archive.subarray(start, start + size);
    expect(Bun.hash.crc32(data)).toBe(crc);
    files.set(archive.toString('utf8', at + 30, start), data);
    at = start + size;
  }
  return files;
}

describeConsole('console reports and history:', (suite) => {
  const open = async (key: string, at: string) => {
    await suite.tab.open(`${suite.server.url}${at}`);
    await suite.tab.signIn(key);
  };
  const dialog = () => suite.tab.page.getByRole('dialog');

  test('the report is an archive that audit verify accepts', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await server.application(key, { name: 'help desk' });
    await open(key, '/console#/who?view=report');
    const downloading = tab.page.waitForEvent('download');
    await tab.page.getByRole('button', { name: 'Create report' }).click();
    const download = await downloading;
    expect(download.suggestedFilename()).toMatch(/^access-report-\d{4}-\d\d-\d\d\.zip$/);
    const { databaseUrl: DATABASE_URL, dataDir: SALLYPORT_DATA_DIR } = server.config;
    const cli = openCli(() => ({ DATABASE_URL, SALLYPORT_DATA_DIR }));
    const files = unzip(readFileSync(await download.path()));
    for (const [name, data] of files) {
      mkdirSync(dirname(cli.path(name)), { recursive: true });
      writeFileSync(cli.path(name), data);
    }
    const folder = dirname([...files.keys()][0] as string);
    expect(files.get(`${folder}/access.csv`)?.toString()).toContain('"help desk"');
    expect(await cli.run('audit', 'verify', cli.path(folder))).toMatchObject({ code: 0 });
  });

  test('a 403 links to its recorded decision, and the missing grant is reviewed and saved', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const desk = await server.application(key, { name: 'help desk', permissions: [], rules });
    await server.call('POST', '/tokens', { key, body: { id: 'card-9', container: '/pci/', data: 'x' } });
    const denied = await server.call('DELETE', '/tokens/card-9', { key: desk.key });
    expect(denied.body.explanation).toBe(`/console#/activity?q=${denied.body.request_id}`);
    await server.flush();
    await open(key, denied.body.explanation);
    const decision = tab.page.getByRole('region', { name: 'Decision at that time' });
    await decision.getByText('token:delete').first().waitFor();
    await decision.getByRole('button', { name: 'Review this grant…' }).click();
    await dialog().getByText('Review changes').waitFor();
    expect(await dialog().locator('.changes').innerText()).toContain('token:delete');
    await dialog().getByRole('button', { name: 'Save' }).click();
    await tab.page.getByRole('heading', { name: 'help desk' }).waitFor();
    expect((await server.call('DELETE', '/tokens/card-9', { key: desk.key })).status).toBe(204);
  });

  test('a key without log:read does not see the explanation of a 403', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const own = await server.application(key, { name: 'curious', permissions: ['application:read'] });
    const denied = await server.call('GET', '/logs', { key: own.key });
    await server.flush();
    await open(own.key, denied.body.explanation);
    await tab.page.getByText('log:read').first().waitFor();
    expect(await tab.page.locator('.entry').count()).toBe(0);
  });

  test('an earlier state of an application is restored through the review', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const app = await server.application(key, { name: 'first', permissions: ['invoice:read'] });
    const put = (body: object) => server.call('PUT', `/applications/${app.id}`, { key, body });
    await put({ name: 'second', permissions: ['invoice:read', 'invoice:pay'] });
    await put({ name: 'third', permissions: ['invoice:pay'] });
    await open(key, `/console#/applications/${app.id}`);
    const history = tab.page.getByRole('region', { name: 'History' });
    await history.getByText('name “second” → “third”').waitFor();
    expect(await history.getByRole('button', { name: /^Restore/ }).count()).toBe(2);
    await history
      .getByRole('button', { name: /^Restore/ })
      .last()
      .click();
    const changes = dialog().locator('.changes');
    expect((await changes.innerText()).replace(/\s+/g, ' ')).toContain('name “third” → “first”');
    await dialog().getByRole('button', { name: 'Save' }).click();
    await tab.page.getByRole('heading', { name: 'first' }).waitFor();
    const { body } = await server.call('GET', `/applications/${app.id}`, { key });
    expect(body).toMatchObject({ name: 'first', permissions: ['invoice:read'] });
  });

  test('the page of an application shows the requests with each key', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const worker = await server.application(key, { name: 'worker', permissions: ['application:read'] });
    const { body: second } = await server.call('POST', `/applications/${worker.id}/keys`, { key });
    for (const used of [worker.key, second.key, worker.key])
      await server.call('GET', '/applications/key', { key: used });
    await server.flush();
    await open(key, `/console#/applications/${worker.id}`);
    const chart = tab.page.getByRole('slider', { name: 'Requests by key' });
    await chart.focus();
    await tab.page.keyboard.press('End');
    const [newer, older] = [second, worker].map((each) => each.key.slice(-4));
    expect(await chart.getAttribute('aria-valuetext')).toEndWith(`: 1 with …${newer}, 2 with …${older}`);
  });

  test('the page of an application lists the latest uses, and all on request', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    const writer = await server.application(key, { permissions: ['token:create'] });
    for (let number = 0; number < 8; number++)
      await server.call('POST', '/tokens', {
        key: writer.key,
        body: { container: `/c${number}/`, data: 'x' },
      });
    await server.flush();
    await open(key, `/console#/applications/${writer.id}`);
    await tab.page.getByText('The latest 6 of 8 uses').waitFor();
    expect(await tab.page.locator('.uses li').count()).toBe(6);
    await tab.page.getByRole('button', { name: 'Show all' }).click();
    await tab.page.locator('.uses li').nth(7).waitFor();
  });

  test('a label is set on all applications that the list shows, and the list is a CSV file', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    for (const name of ['shop api', 'shop page', '=other']) await server.application(key, { name });
    await open(key, '/console#/applications?q=shop');
    await tab.page.getByRole('button', { name: 'Change 2 shown' }).click();
    await tab.page.getByRole('menuitem', { name: 'Set a label…' }).click();
    await dialog().getByRole('textbox').fill('team=shop');
    await dialog().getByRole('button', { name: 'Set label' }).click();
    await tab.page.getByRole('link', { name: 'team=shop' }).nth(1).waitFor();
    const labelled = await server.call('GET', '/applications?label[team]=shop', { key });
    const names = labelled.body.data.map(({ name }: { name: string }) => name);
    expect(names.sort()).toEqual(['shop api', 'shop page']);
    await tab.navigate('#/applications?q=other');
    await tab.page.getByRole('button', { name: 'Change 1 shown' }).waitFor();
    const downloading = tab.page.waitForEvent('download');
    await tab.page.getByRole('button', { name: 'CSV' }).click();
    const csv = readFileSync(await (await downloading).path(), 'utf8').split('\r\n');
    expect([csv.length, csv[1]]).toEqual([3, expect.stringMatching(/^"'=other",/)]);
  });

  test('the live log shows entries that are written while it is open', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await server.application(key, { name: 'before' });
    await open(key, '/console#/activity');
    await tab.page.getByRole('button', { name: 'Live' }).click();
    await tab.page.locator('.entry').first().waitFor();
    const { id } = await server.application(key, { name: 'meanwhile' });
    await server.call('DELETE', `/applications/${id}`, { key });
    await tab.page.locator('.entry').filter({ hasText: 'application.delete' }).waitFor();
    expect(tab.page.url()).toContain('live=on');
  });

  test('the search runs actions on applications', async () => {
    const { server, tab } = suite;
    const { key } = await server.tenant();
    await server.application(key, { name: 'web shop' });
    await open(key, '/console#/overview');
    const run = async (text: string, name: string) => {
      await tab.page.keyboard.press('ControlOrMeta+k');
      await tab.page.getByRole('combobox', { name: 'Search' }).fill(text);
      await tab.page.getByRole('option', { name }).click();
    };
    await run('rotate web', 'Rotate key of web shop');
    await dialog().getByText('Keep old keys').waitFor();
    await dialog().getByRole('button', { name: 'Cancel' }).click();
    await run('quarantine web', 'Quarantine or release web shop');
    await dialog().getByRole('button', { name: 'Quarantine' }).click();
    await tab.page.getByText('In quarantine since').waitFor();
  });
});
