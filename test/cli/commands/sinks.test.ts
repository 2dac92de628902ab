import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openCli } from '../../support/cli.ts';
import { formatProblems, runDoctor } from '../../support/doctor.ts';
import { openWebhookReceiver, webhookSecret } from '../../support/sink-receivers.ts';
import { openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const databaseUrl = () => `sqlite:${cli.path('live.db')}`;
const receiver = openWebhookReceiver();
const cli = openCli((folder) => ({
  DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
  SALLYPORT_MASTER_KEY: testMasterKey,
  SALLYPORT_SINKS_FILE: join(folder, 'sinks.yaml'),
  SIEM_SECRET: webhookSecret,
}));
const siem = { name: 'siem', type: 'webhook', url: receiver.url, allow_private: true };
const local = { name: 'local', type: 'file', path: cli.path('audit.jsonl') };
writeFileSync(
  cli.path('sinks.yaml'),
  JSON.stringify({ sinks: [{ ...siem, secret: { env: 'SIEM_SECRET' } }, local] }),
);
writeFileSync(
  cli.path('service.yaml'),
  JSON.stringify({ sinks: [{ ...siem, secret: webhookSecret }, local] }),
);
const server = await openTestServer(databaseUrl(), {
  SALLYPORT_MASTER_KEY: testMasterKey,
  SALLYPORT_SINKS_FILE: cli.path('service.yaml'),
  SALLYPORT_METRICS_PORT: '0',
});

describe('sinks', () => {
  test('are listed with their state, lag and last error, without secrets', async () => {
    const { key } = await server.tenant();
    await server.flush();
    expect((await cli.json('sinks')).body).toMatchObject([
      {
        name: 'siem',
        type: 'webhook',
        target: new URL(receiver.url).origin,
        state: 'ok',
        lag: { entries: 0 },
      },
      { name: 'local', type: 'file', target: cli.path('audit.jsonl'), state: 'ok', last_error: null },
    ]);
    receiver.setAnswer(() => new Response(null, { status: 502 }));
    await server.application(key);
    await server.flush();
    const { body } = await cli.json('sinks', 'list');
    expect(body[0]).toMatchObject({
      state: 'failing',
      failures: 1,
      last_error: 'the receiver answered with status 502',
      truncated_chains: 0,
    });
    expect(body[0].lag.entries).toBeGreaterThan(0);
    expect(body[0].next_attempt_at > '2026-11-15T12:00:00.000Z').toBe(true);
    expect(body[1]).toMatchObject({ state: 'ok', failures: 0 });
    const { out } = await cli.run('sinks');
    expect(out).toMatch(
      /^siem +webhook +http:\/\/127\.0\.0\.1:\d+ +failing +\d \(\d+ s\) .* the receiver answered with status 502$/m,
    );
    expect(out + JSON.stringify(body)).not.toContain(webhookSecret);
  });

  test('that fail or end after the log are reported by doctor', async () => {
    const { checks } = await runDoctor(cli);
    expect(formatProblems(checks).filter((line) => line.includes('sinks'))).toEqual([
      'warn sinks: siem: 1 failed attempt since the last delivery: the receiver answered with status 502',
    ]);
    await runSql(databaseUrl(), "update audit_deliveries set number = number + 100 where sink = 'local'");
    const truncated = await runDoctor(cli);
    expect(truncated.code).toBe(1);
    expect(formatProblems(truncated.checks).join('\n')).toMatch(
      /fail sinks: local has received later entries than this database has, in \d chains?/,
    );
    expect(formatProblems(truncated.checks).join('\n')).toMatch(
      /warn sinks: the position of local was changed in \d chains?, which are not delivered/,
    );
    expect((await cli.json('sinks')).body[1]).toMatchObject({ state: 'changed' });
    await runSql(databaseUrl(), "update audit_deliveries set number = number - 100 where sink = 'local'");
  });

  test('have metrics for lag, deliveries and failures', async () => {
    const text = await (await fetch(server.app.metricsUrl as string)).text();
    expect(text).toMatch(/\nsallyport_sink_lag_entries\{sink="siem"\} [1-9]\n/);
    expect(text).toContain('\nsallyport_sink_lag_entries{sink="local"} 0\n');
    expect(text).toContain('\nsallyport_sink_lag_seconds{sink="siem"} 0\n');
    expect(text).toContain('\nsallyport_sink_failures_total{sink="siem"} 1\n');
    expect(text).toMatch(/\nsallyport_sink_deliveries_total\{sink="local"\} \d+\n/);
  });

  test('hold back the archive until they have received its entries, unless they are skipped', async () => {
    const archive = ['audit', 'archive', cli.path('archive'), '--older-than', '0'];
    const { code, out } = await cli.run(...archive);
    expect(code).toBe(1);
    expect(out).toMatch(
      /^not archived:\n {2}chain \S+: \d+ entr(y|ies), because siem has received segments up to \d+\n/m,
    );
    expect((await cli.json('sinks')).body[0]).toMatchObject({ skipped_entries: 0 });
    expect((await cli.run(...archive, '--skip-undelivered')).code).toBe(0);
    expect((await cli.json('sinks')).body[0].skipped_entries).toBeGreaterThan(0);
    receiver.setAnswer(undefined);
    server.clock.advance(60_000);
    await server.flush();
    await server.flush();
    const listed = await cli.json('sinks');
    expect(listed.body[0]).toMatchObject({ state: 'gap', lag: { entries: 0 } });
    expect(formatProblems((await runDoctor(cli)).checks).join('\n')).toMatch(
      /^warn sinks: siem has never received \d+ entr(y|ies) that were archived and deleted$/m,
    );
  });

  test('receive a test event, which is not in the audit log', async () => {
    receiver.setAnswer(undefined);
    const { code, out } = await cli.run('sinks', 'test', 'siem');
    expect({ code, out }).toEqual({
      code: 0,
      out: expect.stringMatching(/^sent test_[0-9a-f-]+ to siem \(http/),
    });
    expect(receiver.received.at(-1)).toMatchObject({ type: 'sink.test' });
    receiver.setAnswer(() => new Response(null, { status: 404 }));
    expect(await cli.run('sinks', 'test', 'siem')).toMatchObject({
      code: 1,
      err: expect.stringContaining('siem: the receiver answered with status 404'),
    });
    expect(await cli.run('sinks', 'test', 'nobody')).toMatchObject({
      code: 2,
      err: expect.stringContaining('no sink is named "nobody"'),
    });
  });

  test('with an invalid configuration stop the start, with the name of the field', async () => {
    const start = openTestServer(databaseUrl(), {
      SALLYPORT_MASTER_KEY: testMasterKey,
      SALLYPORT_SINK: '{type: webhook, url: "http://siem.example", secret: hunter2}',
    });
    await expect(start).rejects.toThrow('sink "default": url must use https://, unless allow_private is set');
  });
});
