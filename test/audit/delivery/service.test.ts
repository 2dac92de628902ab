import { describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import {
  openOtlpReceiver,
  openS3Receiver,
  openWebhookReceiver,
  s3Credentials,
  webhookSecret,
} from '../../support/sink-receivers.ts';
import { operationsOf } from '../../support/test-delivery.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

interface Line {
  readonly type: string;
  readonly tenant_id?: string;
  readonly seq: number;
  readonly operation: string;
}

const parseLines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

describe.each(databases)('the service on %s', async (_, database) => {
  const folder = temporaryFolder();
  const [webhook, collector, storage] = [openWebhookReceiver(), openOtlpReceiver(), await openS3Receiver()];

  test('delivers the same entries to sinks of every kind, and no keys', async () => {
    const path = join(folder, 'audit.jsonl');
    const { endpoint, bucket } = storage;
    const sinks = [
      { name: 'webhook', type: 'webhook', url: webhook.url, secret: webhookSecret, allow_private: true },
      { name: 'otlp', type: 'otlp', url: collector.url, allow_private: ['127.0.0.0/8'] },
      { name: 's3', type: 's3', endpoint, bucket, ...s3Credentials, allow_private: true },
      { name: 'file', type: 'file', path },
    ];
    const sinksFile = join(folder, 'sinks.yaml');
    writeFileSync(sinksFile, JSON.stringify({ sinks }));
    const server = await openTestServer(database, { SALLYPORT_SINKS_FILE: sinksFile });
    const { id, key } = await server.tenant();
    const application = await server.application(key);
    expect((await server.call('GET', '/applications', { key: application.key })).status).toBe(403);
    await server.flush();
    await server.call('DELETE', `/applications/${application.id}`, { key });
    await server.flush();
    await server.close();

    const expected = ['1 application.create', '2 application.read', '3 application.delete'];
    const ofTenant = (lines: Line[]) =>
      lines
        .filter(({ type, tenant_id }) => type === 'entry' && tenant_id === id)
        .map(({ seq, operation }) => `${seq} ${operation}`);
    const objects = [...storage.objects().values()];
    const records = collector.records
      .filter(({ eventName }) => eventName !== 'audit.segment')
      .map(({ body }) => ({ type: 'entry', ...JSON.parse((body as { stringValue: string }).stringValue) }));
    expect(operationsOf(webhook, id)).toEqual(expected);
    expect(ofTenant(records)).toEqual(expected);
    expect(ofTenant(objects.flatMap(parseLines))).toEqual(expected);
    expect(ofTenant(parseLines(readFileSync(path, 'utf8')))).toEqual(expected);
    const everything = JSON.stringify([
      webhook.received,
      collector.records,
      objects,
      readFileSync(path, 'utf8'),
    ]);
    for (const secret of [key, application.key]) expect(everything).not.toContain(secret);
    expect(server.logged.join()).not.toContain(webhookSecret);
  });

  test('serves requests and stops while a sink does not answer, and delivers after the next start', async () => {
    const reached = Promise.withResolvers<void>();
    webhook.setAnswer(() => {
      reached.resolve();
      return new Promise(() => {});
    });
    const sink = {
      type: 'webhook',
      url: webhook.url,
      secret: webhookSecret,
      allow_private: true,
      timeout: 60,
    };
    const url = await database.createMigrated(folder);
    const open = () =>
      openTestServer(url, { SALLYPORT_SINK: JSON.stringify(sink), SALLYPORT_MASTER_KEY: testMasterKey });
    const server = await open();
    const { id, key } = await server.tenant();
    await server.application(key);
    const flushed = server.flush();
    await reached.promise;
    await server.application(key);
    expect((await server.call('GET', '/readyz')).status).toBe(200);
    await server.close();
    await flushed;
    webhook.setAnswer(undefined);
    const restarted = await open();
    await restarted.flush();
    expect(operationsOf(webhook, id)).toEqual(['1 application.create', '2 application.create']);
    await restarted.close();
  });

  test('deletes old entries after all sinks have received them', async () => {
    webhook.setAnswer(() => new Response(null, { status: 503 }));
    const sink = { type: 'webhook', url: webhook.url, secret: webhookSecret, allow_private: true };
    const server = await openTestServer(database, {
      SALLYPORT_SINK: JSON.stringify(sink),
      SALLYPORT_AUDIT_RETENTION: '90d',
    });
    const { id, key } = await server.tenant();
    await server.application(key);
    await server.flush();
    server.clock.advance(100 * day);
    await server.flush();
    const archivedUpTo = async () => {
      const sql = `select base_seq from audit_chains where tenant_id = '${id}'`;
      const [chain] = await runSql<{ base_seq: number }>(server.config.databaseUrl, sql);
      return Number(chain?.base_seq);
    };
    expect(await archivedUpTo()).toBe(0);
    webhook.setAnswer(undefined);
    server.clock.advance(day);
    await server.flush();
    await server.flush();
    expect(await archivedUpTo()).toBe(1);
    expect(operationsOf(webhook, id)[0]).toBe('1 application.create');
    await server.close();
  });
});

const day = 86_400_000;
