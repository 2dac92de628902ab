/** Receivers on the loopback interface for tests of sinks. */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver from '@20minutes/s3rver';
import { Webhook } from 'standardwebhooks';
import { z } from 'zod';
import { closeLater } from './cleanup.ts';

export const webhookSecret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

/** Returns a response that does not accept the request, or undefined to accept it. */
export type Answer = (request: Request) => Response | undefined | Promise<Response | undefined>;

export interface ReceivedBatch {
  readonly id: string;
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests check the fields
  readonly data: any;
}

export interface WebhookReceiver {
  readonly url: string;
  readonly received: ReceivedBatch[];
  /** Requests whose signature was not valid. */
  readonly invalid: string[];
  setAnswer(answer: Answer | undefined): void;
  close(): Promise<void>;
}

/** Verifies every message with the `standardwebhooks` package. */
export function openWebhookReceiver(secret = webhookSecret): WebhookReceiver {
  const webhook = new Webhook(secret);
  const received: ReceivedBatch[] = [];
  const invalid: string[] = [];
  let answer: Answer | undefined;
  const server = serve(async (request) => {
    const body = await request.clone().text();
    const special = await answer?.(request);
    if (special) return special;
    try {
      const message = webhook.verify(body, Object.fromEntries(request.headers)) as {
        type: string;
        data: unknown;
      };
      received.push({ id: request.headers.get('webhook-id') as string, ...message });
      return new Response(null, { status: 204 });
    } catch (error) {
      invalid.push((error as Error).message);
      return new Response(null, { status: 401 });
    }
  });
  return {
    url: `http://127.0.0.1:${server.port}/hooks`,
    received,
    invalid,
    setAnswer: (next) => {
      answer = next;
    },
    close: closeLater(() => server.stop(true)),
  };
}

function serve(fetch: (request: Request) => Promise<Response>) {
  return Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 0, fetch });
}

const anyValue = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
]);
const attributes = z.array(z.strictObject({ key: z.string().min(1), value: anyValue }));
const nanoseconds = z.string().regex(/^\d{19}$/);

const LogRecord = z.strictObject({
  timeUnixNano: nanoseconds,
  observedTimeUnixNano: nanoseconds,
  severityNumber: z.int().min(1).max(24),
  severityText: z.string(),
  eventName: z.string(),
  body: anyValue,
  attributes,
  traceId: z
    .string()
    .regex(/^[0-9a-f]{32}$/)
    .optional(),
});
type LogRecord = z.infer<typeof LogRecord>;

/** The fields of opentelemetry.proto.collector.logs.v1 that are used, in JSON. Unknown fields are errors. */
const ExportLogsServiceRequest = z.strictObject({
  resourceLogs: z
    .array(
      z.strictObject({
        resource: z.strictObject({ attributes }),
        scopeLogs: z
          .array(
            z.strictObject({
              scope: z.strictObject({ name: z.string(), version: z.string() }),
              logRecords: z.array(LogRecord).min(1),
            }),
          )
          .length(1),
      }),
    )
    .length(1),
});

export interface OtlpReceiver {
  readonly url: string;
  readonly records: LogRecord[];
  setAnswer(answer: Answer | undefined): void;
  close(): Promise<void>;
}

/** Rejects every request that is not a valid export request with 400. */
export function openOtlpReceiver(): OtlpReceiver {
  const records: LogRecord[] = [];
  let answer: Answer | undefined;
  const server = serve(async (request) => {
    const body: unknown = await request.clone().json();
    const special = await answer?.(request);
    if (special) return special;
    const parsed = ExportLogsServiceRequest.safeParse(body);
    const isPost = request.method === 'POST' && new URL(request.url).pathname === '/v1/logs';
    const isJson = request.headers.get('content-type') === 'application/json';
    if (!parsed.success || !isPost || !isJson)
      return Response.json({ code: 3, message: parsed.error?.message ?? 'wrong request' }, { status: 400 });
    records.push(...(parsed.data.resourceLogs[0]?.scopeLogs[0]?.logRecords ?? []));
    return Response.json({ partialSuccess: {} });
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    records,
    setAnswer: (next) => {
      answer = next;
    },
    close: closeLater(() => server.stop(true)),
  };
}

export interface S3Receiver {
  readonly endpoint: string;
  readonly bucket: string;
  /** Names of the objects in order, with their contents. */
  objects(): Map<string, string>;
  close(): Promise<void>;
}

/** The credentials of every S3rver. It rejects other secrets. */
export const s3Credentials = { access_key_id: 'S3RVER', secret_access_key: 'S3RVER' };

export async function openS3Receiver(): Promise<S3Receiver> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-s3-'));
  const bucket = 'audit-log';
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: bucket, configs: [] }],
  });
  const { port } = await server.run();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    objects: () => {
      const suffix = '._S3rver_object';
      const folder = join(directory, bucket);
      const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
      const names = files.filter((name) => name.endsWith(suffix)).toSorted();
      return new Map(
        names.map((name) => [name.slice(0, -suffix.length), readFileSync(join(folder, name), 'utf8')]),
      );
    },
    close: closeLater(async () => {
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    }),
  };
}
