import { describe, expect, test } from 'bun:test';
import { readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Batch, testBatch } from '../../../src/audit/delivery/batch.ts';
import { readSinks, type Sink } from '../../../src/audit/delivery/config.ts';
import { Secret } from '../../../src/domain/key.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import {
  type OtlpReceiver,
  openOtlpReceiver,
  openS3Receiver,
  openWebhookReceiver,
  s3Credentials,
  webhookSecret,
} from '../../support/sink-receivers.ts';

const tenantId = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';

function open(config: object): Sink {
  const sink = new Secret(JSON.stringify({ allow_private: true, ...config }));
  return readSinks({ sinksFile: undefined, sink }, { env: {}, now: Date.now })[0] as Sink;
}

const send = (sink: Sink, batch: Batch) => sink.sender.send(batch, new AbortController().signal);

const at = '2026-11-15T12:00:00.000Z';

/** A segment with the entries from `first` to `last`. Its number is that of the first entry. */
function batchOf(first: number, last: number): Batch {
  const entries = Array.from({ length: last - first + 1 }, (_, index) => ({
    seq: first + index,
    id: `0197f3c2-5a1e-7c40-9d2b-${String(first + index).padStart(12, '0')}`,
    tenant_id: tenantId,
    at,
    actor: { kind: 'application' as const, person: { subject: '00u1ada' } },
    operation: index === 0 ? 'application.create' : 'token.read',
    result: index === 0 ? ('success' as const) : ('denied' as const),
    from: {},
    trace_id: 'ab'.repeat(16),
  }));
  const hash = 'cd'.repeat(32);
  const segment = {
    format: 1,
    number: first,
    hash,
    previous: '00'.repeat(32),
    sealed_at: at,
    key: 'ab'.repeat(8),
    content: hash,
    signature: 'ef'.repeat(64),
    anchor: `${tenantId}:${first}:${hash}`,
  };
  const id = `audit_${tenantId}_${first}_${hash}`;
  return { id, type: 'audit.entries', tenantId, first, last, entries, segment };
}

describe('a webhook', async () => {
  const receiver = openWebhookReceiver();

  test('carries entries and their segment with a valid signature, and the same id when repeated', async () => {
    const sink = open({ type: 'webhook', url: receiver.url, secret: webhookSecret });
    const batch = batchOf(1, 3);
    await send(sink, batch);
    await send(sink, batch);
    await send(sink, testBatch(Date.now()));
    const [first, second, last] = receiver.received;
    expect(first).toMatchObject({
      type: 'audit.entries',
      timestamp: '2026-11-15T12:00:00.000Z',
      data: {
        tenant_id: tenantId,
        first: 1,
        last: 3,
        entries: batch.entries,
        segment: batch.segment,
      },
    });
    expect(second?.id).toBe(first?.id as string);
    expect(last).toMatchObject({ type: 'sink.test', data: { entries: [{ operation: 'sink.test' }] } });
    expect(receiver.invalid).toEqual([]);
  });

  test('is signed with every secret, so that the receiver can change to the next one', async () => {
    const next = `whsec_${Buffer.alloc(24, 9).toString('base64')}`;
    const before = receiver.received.length;
    await send(open({ type: 'webhook', url: receiver.url, secret: [next, webhookSecret] }), batchOf(4, 4));
    expect(receiver.received).toHaveLength(before + 1);
    const wrong = open({ type: 'webhook', url: receiver.url, secret: next });
    await expect(send(wrong, batchOf(5, 5))).rejects.toThrow('the receiver answered with status 401');
  });

  test('is not accepted with a redirect, and reports when the receiver asks to wait', async () => {
    const sink = open({ type: 'webhook', url: receiver.url, secret: webhookSecret });
    receiver.setAnswer(() => Response.redirect('http://169.254.169.254/', 307));
    await expect(send(sink, batchOf(1, 1))).rejects.toThrow('status 307');
    receiver.setAnswer(() => new Response(null, { status: 429, headers: { 'retry-after': '7' } }));
    await expect(send(sink, batchOf(1, 1))).rejects.toMatchObject({ retryAfter: 7000 });
    receiver.setAnswer(undefined);
  });
});

describe('OTLP', async () => {
  const receiver = openOtlpReceiver();
  const sink: Sink = open({ type: 'otlp', url: receiver.url, headers: { authorization: 'Bearer x' } });

  const bodyOf = (record: OtlpReceiver['records'][number] | undefined) =>
    JSON.parse((record as { body: { stringValue: string } }).body.stringValue);

  test('carries one log record per entry, and one for the segment, in order', async () => {
    const batch = batchOf(1, 2);
    expect(await send(sink, batch)).toEqual({});
    const [created, denied, segment] = receiver.records;
    expect(created).toMatchObject({
      timeUnixNano: '1794744000000000000',
      severityText: 'INFO',
      eventName: 'application.create',
      traceId: 'ab'.repeat(16),
    });
    expect(bodyOf(created)).toEqual(batch.entries[0]);
    expect(created?.attributes).toContainEqual({ key: 'sallyport.seq', value: { intValue: '1' } });
    const person = { key: 'sallyport.actor.person', value: { stringValue: '00u1ada' } };
    expect(created?.attributes).toContainEqual(person);
    expect(denied).toMatchObject({ severityNumber: 13, eventName: 'token.read' });
    expect(segment?.eventName).toBe('audit.segment');
    expect(bodyOf(segment)).toEqual({
      tenant_id: tenantId,
      ...batch.segment,
    });
  });

  test('reports the records that the collector rejects', async () => {
    receiver.setAnswer(() =>
      Response.json({ partialSuccess: { rejectedLogRecords: '2', errorMessage: 'too\u0007 old' } }),
    );
    expect(await send(sink, batchOf(1, 3))).toEqual({ rejected: { count: 2, reason: 'too\\u{7} old' } });
    receiver.setAnswer(() => Response.json({ partialSuccess: { errorMessage: 'only a warning' } }));
    expect(await send(sink, batchOf(1, 3))).toEqual({});
  });

  test.each([
    ['a page of HTML', () => new Response('<html>Sign in</html>'), 'is not an OTLP response'],
    ['JSON of another kind', () => Response.json({ partialSuccess: 'yes' }), 'is not an OTLP response'],
    [
      'an error with a message',
      () => Response.json({ message: 'no such tenant' }, { status: 400 }),
      'no such tenant',
    ],
    ['no OTLP at all', () => new Response('nope', { status: 503 }), 'status 503'],
  ])('fails if the collector answers with %s', async (_, answer, message) => {
    receiver.setAnswer(answer);
    await expect(send(sink, batchOf(1, 1))).rejects.toThrow(message);
  });

  test('accepts an empty response', async () => {
    receiver.setAnswer(() => new Response(null, { status: 204 }));
    expect(await send(sink, batchOf(1, 1))).toEqual({});
  });
});

describe('S3', async () => {
  const receiver = await openS3Receiver();
  const config = () => ({
    type: 's3',
    endpoint: receiver.endpoint,
    bucket: receiver.bucket,
    ...s3Credentials,
  });

  test('stores one object per segment, and a repeated delivery overwrites it', async () => {
    const sink = open({ ...config(), prefix: 'logs/' });
    await send(sink, batchOf(1, 2));
    await send(sink, batchOf(1, 2));
    await send(sink, batchOf(3, 3));
    const names = [...receiver.objects().keys()];
    expect(names).toHaveLength(2);
    expect(names[0]).toMatch(new RegExp(`^logs/${tenantId}/000000000001-[0-9a-f]{12}\\.jsonl$`));
    expect(names[1]).toStartWith(`logs/${tenantId}/000000000003-`);
    const lines = (receiver.objects().get(names[0] as string) as string).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).type)).toEqual(['entry', 'entry', 'segment']);
    expect(JSON.parse(lines[0] as string)).toMatchObject({ seq: 1, operation: 'application.create' });
  });

  test('fails with a wrong secret, and the secret is not in the message', async () => {
    const sink = open({ ...config(), secret_access_key: 'a-wrong-secret' });
    const error = await send(sink, batchOf(9, 9)).catch((caught) => caught);
    expect(error.message).toBe('the storage answered with status 403 (SignatureDoesNotMatch)');
    expect([...receiver.objects().keys()].join()).not.toContain('000000000009');
  });

  test('fails if the answer is not from S3', async () => {
    const portal = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('Welcome') });
    const sink = open({ ...config(), endpoint: `http://127.0.0.1:${portal.port}` });
    await expect(send(sink, batchOf(1, 1))).rejects.toThrow('has no ETag');
    await portal.stop(true);
  });
});

describe('a file', async () => {
  const folder = temporaryFolder();
  const linesIn = (path: string) => readFileSync(path, 'utf8').trimEnd().split('\n');
  const openFile = (path: string) => {
    const sink = new Secret(JSON.stringify({ type: 'file', path }));
    return readSinks({ sinksFile: undefined, sink }, { env: {}, now: Date.now })[0] as Sink;
  };

  test('grows by one line per entry, and continues in a new file after it was moved', async () => {
    const path = join(folder, 'audit.jsonl');
    const sink = openFile(path);
    await send(sink, batchOf(1, 2));
    renameSync(path, `${path}.1`);
    await send(sink, batchOf(3, 3));
    await send(sink, batchOf(4, 4));
    expect(linesIn(`${path}.1`)).toHaveLength(3);
    expect(linesIn(path).map((line) => JSON.parse(line).seq ?? JSON.parse(line).type)).toEqual([
      3,
      'segment',
      4,
      'segment',
    ]);
  });

  test('starts a new line after an incomplete one', async () => {
    const path = join(folder, 'torn.jsonl');
    writeFileSync(path, '{"type":"ent');
    await send(openFile(path), batchOf(1, 1));
    expect(
      linesIn(path)
        .slice(1)
        .map((line) => JSON.parse(line).seq ?? JSON.parse(line).type),
    ).toEqual([1, 'segment']);
  });

  test('must be a regular file in an existing folder', async () => {
    const path = join(folder, 'replaced.jsonl');
    const file = openFile(path);
    symlinkSync('/dev/null', path);
    await expect(send(file, batchOf(1, 1))).rejects.toThrow(`${path} is not a regular file`);
    await expect(send(openFile(join(folder, 'none/x')), batchOf(1, 1))).rejects.toThrow('ENOENT');
  });
});
