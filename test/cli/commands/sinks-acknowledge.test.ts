import { describe, expect, test } from 'bun:test';
import { openCli } from '../../support/cli.ts';
import { auditEntries } from '../../support/database.ts';
import { formatProblems, runDoctor } from '../../support/doctor.ts';
import { openOtlpReceiver } from '../../support/sink-receivers.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

describe.each(databases)('a sink that has rejected entries, on %s', async (_, database) => {
  const collector = openOtlpReceiver();
  const sink = { name: 'collector', type: 'otlp', url: collector.url, allow_private: true };
  const settings = { SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_SINK: JSON.stringify(sink) };
  const server = await openTestServer(database, { ...settings, SALLYPORT_METRICS_PORT: '0' });
  const cli = openCli(() => ({ ...settings, DATABASE_URL: server.config.databaseUrl }));

  const state = async () => (await cli.json('sinks')).body[0];
  const metric = async () => {
    const text = await (await fetch(server.app.metricsUrl as string)).text();
    return /^sallyport_sink_rejected_chains\{sink="collector"\} (\d+)$/m.exec(text)?.[1];
  };
  const acknowledge = () => cli.run('sinks', 'acknowledge', 'collector', '--yes');
  const problems = async () => formatProblems((await runDoctor(cli)).checks).join('\n');

  test('is reported until it is acknowledged, which is recorded in the audit log', async () => {
    const { key } = await server.tenant();
    await server.flush();
    expect([(await state()).state, await metric()]).toEqual(['ok', '0']);
    expect(await cli.run('sinks', 'acknowledge', 'collector')).toMatchObject({
      code: 0,
      out: 'collector has no rejected entries and no changed positions\n',
    });

    collector.setAnswer(() =>
      Response.json({ partialSuccess: { rejectedLogRecords: '1', errorMessage: 'too large' } }),
    );
    await server.application(key);
    await server.flush();
    collector.setAnswer(undefined);
    const rejected = await state();
    expect(rejected).toMatchObject({ state: 'rejected', lag: { entries: 0 }, failures: 0 });
    const chains = rejected.chains_with_rejected_entries;
    expect(await metric()).toBe(String(chains));
    expect(await problems()).toContain('warn sinks: collector has rejected entries in');

    expect(await cli.run('sinks', 'acknowledge', 'collector')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--yes'),
    });
    expect((await state()).state).toBe('rejected');
    expect((await acknowledge()).code).toBe(0);
    await server.flush();
    expect([(await state()).state, await metric()]).toEqual(['ok', '0']);
    expect(await problems()).not.toContain('rejected');
    const entries = await auditEntries(server.config.databaseUrl);
    expect(entries.find(({ operation }) => operation === 'sink.acknowledge')).toMatchObject({
      actor: { kind: 'operator' },
      entity: { kind: 'sink', id: 'collector' },
      difference: { chains_with_rejected_entries: { from: chains, to: 0 } },
    });
  });

  test('or whose position was changed, is delivered again from the start', async () => {
    const { databaseUrl } = server.config;
    await runSql(databaseUrl, 'update audit_deliveries set skipped = 1');
    const changed = await state();
    expect(changed).toMatchObject({ state: 'changed' });
    await server.flush();
    expect(await metric()).toBe(String(changed.changed_positions));
    const { out } = await acknowledge();
    expect(out).toMatch(/^acknowledged for collector: the changed positions of \d chains\n$/);
    await server.flush();
    expect([(await state()).state, await metric()]).toEqual(['ok', '0']);
  });
});
