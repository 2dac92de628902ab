/** The tokens page imports a file, and deletes the tokens below a container. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { describeConsole } from '../support/console-suite.ts';

describeConsole('console tokens in bulk:', (suite) => {
  const open = async (hash: string) => {
    const { key } = await suite.server.tenant();
    return {
      key,
      show: async (as = key) => {
        await suite.tab.open();
        await suite.tab.signIn(as);
        await suite.tab.navigate(hash);
      },
      total: async (query = '') =>
        (await suite.server.call('GET', `/tokens?size=1${query}`, { key })).body.pagination.total_items,
    };
  };
  const lineOf = (id: string, fields = {}) =>
    JSON.stringify({ id, container: '/cards/', data: 'secret 42', ...fields });

  test('a file is imported with the same results as by the CLI, and shows none of its data', async () => {
    const { key, show, total } = await open('#/tokens');
    await suite.server.call('POST', '/tokens', { key, body: JSON.parse(lineOf('card-3')) });
    await show();
    const { page } = suite.tab;
    const lines: (string | Uint8Array)[] = Array.from({ length: 150 }, (_, at) => lineOf(`card-${at}`));
    lines[7] = lineOf('card-7', { mask: '{{ data.no }}' });
    lines[8] = '';
    lines[120] = '{"id": "broken", "data": "secret 43"';
    lines[121] = Buffer.concat([
      Buffer.from('{"id":"bytes","data":"'),
      Uint8Array.of(0xff),
      Buffer.from('"}'),
    ]);
    lines[122] = '{"id": "long", "data": 12345678901234567890}';
    lines[123] = '{"data": "secret 44"}';
    const buffer = Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')]));
    const file = (buffer: Buffer) => ({ name: 'cards.jsonl', mimeType: 'application/jsonl', buffer });
    await page.getByRole('button', { name: 'Import…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Import tokens' });
    await dialog.locator('input[type=file]').setInputFiles(file(buffer));
    await dialog.getByText('Finished: 149 lines read, 143 created, 1 existing, 5 refused').waitFor();
    expect(await dialog.getByRole('listitem').allInnerTexts()).toEqual([
      'Line 8: validation_failed',
      'Line 121: invalid_json',
      'Line 122: invalid_json',
      'Line 123: inexact_number',
      'Line 124: id_missing',
    ]);
    expect(await dialog.innerText()).not.toContain('secret');
    const downloading = page.waitForEvent('download');
    await dialog.getByRole('button', { name: 'Download refused lines' }).click();
    const path = await (await downloading).path();
    const rejected = readFileSync(path, 'utf8').trim().split('\n');
    expect(rejected.map((line) => JSON.parse(line).line)).toEqual([8, 121, 122, 123, 124]);
    expect(await total()).toBe(144);

    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await page.getByText('144 tokens visible to this key').waitFor();
    await page.getByRole('button', { name: 'Import…' }).click();
    const corrected = Buffer.from(rejected[0]!.replaceAll('data.no', 'data | hide'));
    const dropped = await page.evaluateHandle((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], 'corrected.jsonl'));
      return transfer;
    }, corrected.toString());
    await dialog.getByText('Drop a file here').dispatchEvent('drop', { dataTransfer: dropped });
    await dialog.getByText('Finished: 1 line read, 1 created, 0 existing, 0 refused').waitFor();
    expect(await total()).toBe(145);
  });

  test('a stopped import keeps the batches that were sent', async () => {
    const { show, total } = await open('#/tokens');
    await show();
    const { page, context } = suite.tab;
    const all = Buffer.from(Array.from({ length: 1000 }, (_, at) => `${lineOf(`card-${at}`)}\n`).join(''));
    let batches = 0;
    const dialog = page.getByRole('dialog', { name: 'Import tokens' });
    await context.route('**/tokens/batch', async (route) => {
      // The second batch is answered after the import was stopped.
      if (++batches === 2) {
        await dialog.getByRole('button', { name: 'Stop' }).click();
        await dialog.getByText('Stopping').waitFor();
      }
      await route.continue();
    });
    await page.getByRole('button', { name: 'Import…' }).click();
    await dialog
      .locator('input[type=file]')
      .setInputFiles({ name: 'a', mimeType: 'text/plain', buffer: all });
    await dialog.getByText('Stopped: ').waitFor();
    await dialog.getByText('200 created, 0 existing, 0 refused').waitFor();
    expect([batches, await total()]).toEqual([2, 200]);
    await context.unroute('**/tokens/batch');
  });

  test('the tokens below a container are deleted after its name was typed', async () => {
    const { key, show, total } = await open('#/tokens?container=/old/');
    for (const [at, container] of ['/old/', '/old/deep/', '/old/deep/', '/kept/'].entries())
      await suite.server.call('POST', '/tokens', { key, body: JSON.parse(lineOf(`t-${at}`, { container })) });
    await show();
    const { page } = suite.tab;
    await page.getByRole('button', { name: 'Delete all in container…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete all tokens in /old/' });
    await dialog.getByText('3 tokens in this container and below').waitFor();
    const remove = dialog.getByRole('button', { name: 'Delete', exact: true });
    const field = dialog.getByLabel('Type the container to confirm');
    await field.fill('/old/deep/');
    expect(await remove.isDisabled()).toBe(true);
    await field.fill('/old/');
    await remove.click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('No matching tokens').waitFor();
    expect([await total(), await total('&container=/kept/')]).toEqual([1, 1]);
  });

  test('a key without the permissions gets no buttons', async () => {
    const { key, show } = await open('#/tokens?container=/old/');
    await show((await suite.server.application(key, { permissions: ['token:read'] })).key);
    const { page } = suite.tab;
    await page.getByRole('heading', { name: 'Tokens', exact: true }).waitFor();
    await page.getByText('visible to this key').first().waitFor();
    expect(await page.getByRole('button', { name: /Import|Delete/ }).count()).toBe(0);
  });
});
