/** Sends entries as OpenTelemetry log records over OTLP/HTTP with JSON. */
import { z } from 'zod';
import { version } from '../../config/version.ts';
import { cut, escapeText } from '../../domain/escape.ts';
import type { Secret } from '../../domain/key.ts';
import { type HttpResponse, type HttpTarget, retryAfter, send } from '../../outbound/request.ts';
import type { Batch, ChainedEntry, DeliveredSegment } from './batch.ts';
import { DeliveryError, type Receipt, type Sender } from './sender.ts';
import { reveal } from './webhook.ts';

export interface OtlpOptions extends HttpTarget {
  readonly url: URL;
  readonly headers: Readonly<Record<string, Secret>>;
}

export function otlpSender({ url, headers, ...target }: OtlpOptions): Sender {
  return {
    send: async (batch, signal) => {
      const body = JSON.stringify(exportRequest(batch));
      const json = { 'content-type': 'application/json', accept: 'application/json' };
      const response = await send(
        { method: 'POST', url, headers: { ...reveal(headers), ...json }, body },
        target,
        signal,
      );
      return receiptOf(response);
    },
  };
}

/** Severity numbers of OpenTelemetry. */
const info = { severityNumber: 9, severityText: 'INFO' };
const warn = { severityNumber: 13, severityText: 'WARN' };

/** The same for repeated deliveries: the time of observation is the time of sealing. */
function exportRequest({ tenantId, entries, segment }: Batch) {
  const observedTimeUnixNano = nanoseconds(Date.parse(segment?.sealed_at ?? (entries.at(-1)?.at as string)));
  const records = [...entries.map(entryRecord), ...(segment ? [segmentRecord(tenantId, segment)] : [])];
  const resource = { attributes: attributes({ 'service.name': 'sallyport', 'service.version': version }) };
  const logRecords = records.map((record) => ({ ...record, observedTimeUnixNano }));
  const scope = { name: 'sallyport.audit', version };
  return { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords }] }] };
}

function entryRecord(entry: ChainedEntry) {
  const { seq, at, operation, result, trace_id: traceId } = entry;
  return {
    timeUnixNano: nanoseconds(Date.parse(at)),
    ...(result === 'success' ? info : warn),
    eventName: operation,
    body: { stringValue: JSON.stringify(entry) },
    attributes: attributes({
      'sallyport.tenant_id': entry.tenant_id,
      'sallyport.seq': seq,
      'sallyport.entry_id': entry.id,
      'sallyport.operation': operation,
      'sallyport.result': result,
      'sallyport.actor.kind': entry.actor.kind,
      'sallyport.actor.id': entry.actor.id,
      'sallyport.actor.person': entry.actor.person?.subject,
      'sallyport.entity.kind': entry.entity?.kind,
      'sallyport.entity.id': entry.entity?.id,
      'sallyport.request_id': entry.request_id,
    }),
    ...(traceId !== undefined && /^[0-9a-f]{32}$/.test(traceId) && { traceId }),
  };
}

function segmentRecord(tenantId: string | undefined, segment: DeliveredSegment) {
  const tenant = tenantId === undefined ? {} : { tenant_id: tenantId };
  return {
    timeUnixNano: nanoseconds(Date.parse(segment.sealed_at)),
    ...info,
    eventName: 'audit.segment',
    body: { stringValue: JSON.stringify({ ...tenant, ...segment }) },
    attributes: attributes({ 'sallyport.tenant_id': tenantId, 'sallyport.segment': segment.number }),
  };
}

/** Returns a string, because the JSON format of Protocol Buffers requires it for 64-bit numbers. */
function nanoseconds(milliseconds: number): string {
  return `${milliseconds}000000`;
}

function attributes(values: Readonly<Record<string, string | number | undefined>>) {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }];
  });
}

const ExportResponse = z.object({
  partialSuccess: z
    .object({
      rejectedLogRecords: z.coerce.number().int().nonnegative().default(0),
      errorMessage: z.string().default(''),
    })
    .nullish(),
});

/**
 * OTLP forbids retries after a partial success, so rejected records are reported and not sent again. All responses
 * other than 2xx are retried, even those that OTLP calls permanent: entries must not be lost because of a wrong
 * setting.
 */
function receiptOf(response: HttpResponse): Receipt {
  const { status, body } = response;
  if (status < 200 || status > 299) {
    const message = parseStatus(body);
    const reason = message === '' ? '' : `: ${message}`;
    throw new DeliveryError(`the collector answered with status ${status}${reason}`, retryAfter(response));
  }
  if (body.trim() === '') return {};
  const parsed = ExportResponse.safeParse(parseJson(body));
  if (!parsed.success) throw new DeliveryError(`the response with status ${status} is not an OTLP response`);
  const { rejectedLogRecords: count = 0, errorMessage = '' } = parsed.data.partialSuccess ?? {};
  return count === 0 ? {} : { rejected: { count, reason: short(errorMessage) } };
}

function parseStatus(body: string): string {
  const parsed = z.object({ message: z.string() }).safeParse(parseJson(body));
  return parsed.success ? short(parsed.data.message) : '';
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function short(text: string): string {
  return escapeText(cut(text, 200));
}
