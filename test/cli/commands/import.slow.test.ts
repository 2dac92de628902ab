import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { openCli } from '../../support/cli.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';
import { until } from '../../support/until.ts';

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const)('an import that gets %s prints what it has copied, and exits with %d', async (signal, code) => {
  const server = await openTestServer(sqlite);
  const { key } = await server.tenant();
  const cli = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
  const lines = Array.from({ length: 5000 }, (_, number) =>
    JSON.stringify({ id: `card-${number}`, data: 1 }),
  );
  writeFileSync(cli.path('export.jsonl'), lines.join('\n'));
  const child = cli.start('import', '--from-file', 'export.jsonl', '--yes', '--json');
  const count = async () => (await server.call('GET', '/tokens', { key })).body.pagination.total_items;
  await until('tokens are copied', async () => (await count()) > 0 || child.exitCode !== null);
  child.kill(signal);
  expect(await child.exited).toBe(code);
  const report = JSON.parse(await new Response(child.stdout).text());
  expect(report).toMatchObject({ complete: false, interrupted: true, failures: [] });
  expect(report.tokens.copied).toBeLessThan(lines.length);
  expect([report.tokens.copied, report.tokens.verified]).toEqual([await count(), await count()]);
});
